use holdfast_core::engine::{NewSubscription, SubscriptionPatch};
use holdfast_core::rules::event_type::is_pattern;
use holdfast_core::rules::filter::Filter;
use holdfast_core::rules::matching::{Selector, SubscriptionIndex};
use holdfast_core::rules::url_form::normalise;
use serde_json::{Map, Value, json};

use super::refusal;
use crate::subscription_request::{parse_create, parse_patch};

const KNOWN: &[&str] = &[
    "url",
    "event_types",
    "event_types[]",
    "filters",
    "filters[]",
    "filters[].field",
    "filters[].op",
    "filters[].value",
    "filter_connector",
    "auth_token",
    "description",
    "active",
];

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        br#"{"url":"https://example.com/hooks","event_types":["order.created","invoice.*"],"filters":[{"field":"data.total","op":"gte","value":12.5},{"field":"status","op":"changed"}],"filter_connector":"or","auth_token":"t","description":"d","active":false}"#,
        br#"{"url":"http://example.com","event_types":["*"],"filters":[{"field":"data.x","op":"eq","value":null}]}"#,
        br#"{"url":null,"auth_token":null,"description":null}"#,
        br#"{"filters":[],"active":true}"#,
    ]
}

/// A subscription is read, and then works, or is refused with the field that is wrong. A token is never repeated.
pub fn check(input: &[u8]) {
    for http_allowed in [false, true] {
        match parse_create(input, http_allowed) {
            Ok(new) => {
                check_parts(Some(&new.url), Some(&new.event_types), Some(&new.filters), http_allowed);
                check_index(&new);
                let printed = print_new(&new).to_string();
                let again = parse_create(printed.as_bytes(), http_allowed).expect("it can be created again");
                assert_eq!(print_new(&again).to_string(), printed);
            }
            Err(problem) => refusal::check(&problem, KNOWN),
        }
        match parse_patch(input, http_allowed) {
            Ok(patch) => {
                let (url, types) = (patch.url.as_deref(), patch.event_types.as_deref());
                check_parts(url, types, patch.filters.as_deref(), http_allowed);
                let printed = print_patch(&patch).to_string();
                let again = parse_patch(printed.as_bytes(), http_allowed).expect("it can be changed again");
                assert_eq!(print_patch(&again).to_string(), printed);
            }
            Err(problem) => refusal::check(&problem, KNOWN),
        }
    }
}

fn check_parts(url: Option<&str>, types: Option<&[String]>, filters: Option<&[Filter]>, http_allowed: bool) {
    assert!(url.is_none_or(|url| normalise(url, http_allowed).as_deref() == Ok(url)), "{url:?}");
    assert!(
        types.is_none_or(|types| !types.is_empty() && types.iter().all(|one| is_pattern(one))),
        "{types:?}"
    );
    assert!(filters.is_none_or(|filters| filters.iter().all(|one| one.fault().is_none())), "{filters:?}");
}

/// It has a place in the index of a tenant, and leaves nothing behind.
fn check_index(new: &NewSubscription) {
    let selector = Selector {
        id: "sub_1".into(),
        url_id: "url_1".into(),
        event_types: new.event_types.clone(),
        filters: new.filters.clone(),
        filter_connector: new.filter_connector,
        active: new.active,
    };
    let mut index = SubscriptionIndex::default();
    index.insert(&selector);
    assert_eq!(index.len(), usize::from(new.active));
    assert!(index.matching("order.created", br#"{"data":{"total":13}}"#).len() <= 1);
    index.remove(&selector.id);
    assert_eq!(index.bytes(), 0);
}

fn print_new(new: &NewSubscription) -> Value {
    json!({
        "url": new.url, "event_types": new.event_types, "filters": new.filters, "filter_connector": new.filter_connector,
        "auth_token": new.auth_token, "description": new.description, "active": new.active,
    })
}

fn print_patch(patch: &SubscriptionPatch) -> Value {
    let mut fields = Map::new();
    let mut add =
        |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
    add("url", patch.url.as_ref().map(|value| json!(value)));
    add("event_types", patch.event_types.as_ref().map(|value| json!(value)));
    add("filters", patch.filters.as_ref().map(|value| json!(value)));
    add("filter_connector", patch.filter_connector.map(|value| json!(value)));
    add("auth_token", patch.auth_token.as_ref().map(|value| json!(value)));
    add("description", patch.description.as_ref().map(|value| json!(value)));
    add("active", patch.active.map(|value| json!(value)));
    Value::Object(fields)
}
