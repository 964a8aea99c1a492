//! A subscription as it is posted, whole or in part. Everything is checked, so that all that is wrong is told at once.

use holdfast_core::engine::{NewSubscription, SubscriptionPatch};
use holdfast_core::rules::filter::{Filter, Op};
use holdfast_core::rules::{address, event_type};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::{Fault, Problem};

const MAX_TYPES: usize = 100;
const MAX_FILTERS: usize = 50;
/// Every function that takes events holds all filters of a tenant in its memory.
const MAX_FILTER_BYTES: usize = 16_384;
const MAX_PATH: usize = 1_024;
const MAX_TOKEN: usize = 4_096;
const MAX_DESCRIPTION: usize = 1_024;

const URL: &str = "the URL to deliver to, as a string";
const TYPES: &str = "an array of event types such as [\"order.created\", \"invoice.*\"]";
const FILTERS: &str = "an array of filters";
const CONNECTOR: &str = "\"and\" or \"or\"";
const TEXT: &str = "a string";
const YES_OR_NO: &str = "true or false";
const OPS: &str = "one of eq, ne, gt, gte, lt, lte, contains, changed, exists";

/// A whole one. What is null is as good as absent.
pub(crate) fn new_subscription(body: &[u8], http_allowed: bool) -> Result<NewSubscription, Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut faults = Vec::new();
    let url = fields.required("url", URL).and_then(|url: String| url_of(&url, &mut fields, http_allowed));
    let event_types: Option<Vec<String>> = fields.required("event_types", TYPES);
    if let Some(types) = &event_types {
        check_types(types, &mut fields, &mut faults);
    }
    let filters = fields.optional("filters", FILTERS).unwrap_or_default();
    let filters = filters_of(filters, &mut fields, &mut faults);
    let filter_connector = fields.optional("filter_connector", CONNECTOR);
    let auth_token: Option<String> = fields.optional("auth_token", TEXT);
    check_token(auth_token.as_deref(), &mut fields);
    let description: Option<String> = fields.optional("description", TEXT);
    check_description(description.as_deref(), &mut fields);
    let active: Option<bool> = fields.optional("active", YES_OR_NO);
    faults.extend(fields.finish());
    match url {
        Some(url) if faults.is_empty() => Ok(NewSubscription {
            url,
            event_types: event_types.unwrap_or_default(),
            filters,
            filter_connector: filter_connector.unwrap_or_default(),
            auth_token,
            description,
            active: active.unwrap_or(true),
        }),
        _ => Err(Problem::invalid(faults)),
    }
}

/// What is to be changed of one. What is absent stays; null removes what can be removed, and is refused elsewhere.
pub(crate) fn subscription_patch(body: &[u8], http_allowed: bool) -> Result<SubscriptionPatch, Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut faults = Vec::new();
    let url = fields.given("url", URL).and_then(|url: String| url_of(&url, &mut fields, http_allowed));
    let event_types: Option<Vec<String>> = fields.given("event_types", TYPES);
    if let Some(types) = &event_types {
        check_types(types, &mut fields, &mut faults);
    }
    let filters = fields.given("filters", FILTERS);
    let filters = filters.map(|filters| filters_of(filters, &mut fields, &mut faults));
    let filter_connector = fields.given("filter_connector", CONNECTOR);
    let auth_token: Option<Option<String>> = fields.removable("auth_token", TEXT);
    check_token(auth_token.as_ref().and_then(Option::as_deref), &mut fields);
    let description: Option<Option<String>> = fields.removable("description", TEXT);
    check_description(description.as_ref().and_then(Option::as_deref), &mut fields);
    let active = fields.given("active", YES_OR_NO);
    faults.extend(fields.finish());
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    Ok(SubscriptionPatch { url, event_types, filters, filter_connector, auth_token, description, active })
}

/// `None` only with a fault.
fn url_of(given: &str, fields: &mut Fields<'_>, http_allowed: bool) -> Option<String> {
    match address::normalise(given, http_allowed) {
        Ok(url) => Some(url),
        Err(error) => {
            fields.fault("url", error.to_string());
            None
        }
    }
}

fn check_types(types: &[String], fields: &mut Fields<'_>, faults: &mut Vec<Fault>) {
    if types.is_empty() || types.len() > MAX_TYPES {
        fields.fault("event_types", format!("must have 1 to {MAX_TYPES} event types"));
        return;
    }
    for (index, _) in types.iter().enumerate().filter(|(_, pattern)| !event_type::is_pattern(pattern)) {
        let detail = "must be a dotted name such as order.created, with * for one segment, or * alone";
        faults.push(Fault::new(format!("event_types[{index}]"), detail));
    }
}

fn filters_of(items: Vec<&RawValue>, fields: &mut Fields<'_>, faults: &mut Vec<Fault>) -> Vec<Filter> {
    if items.len() > MAX_FILTERS {
        fields.fault("filters", format!("must have at most {MAX_FILTERS} filters"));
        return Vec::new();
    }
    if items.iter().map(|item| item.get().len()).sum::<usize>() > MAX_FILTER_BYTES {
        fields.fault("filters", format!("must have at most {MAX_FILTER_BYTES} bytes together"));
        return Vec::new();
    }
    let filters = items.into_iter().enumerate();
    filters.filter_map(|(index, item)| filter_of(item, index, faults)).collect()
}

/// It becomes part of a header.
fn check_token(token: Option<&str>, fields: &mut Fields<'_>) {
    let sound =
        |token: &str| (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if token.is_some_and(|token| !sound(token)) {
        let detail = format!("must have 1 to {MAX_TOKEN} visible ASCII characters, without spaces");
        fields.fault("auth_token", detail);
    }
}

fn check_description(description: Option<&str>, fields: &mut Fields<'_>) {
    if description.is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
        fields.fault("description", format!("must have at most {MAX_DESCRIPTION} characters"));
    }
}

/// `None` only with a fault.
fn filter_of(item: &RawValue, index: usize, faults: &mut Vec<Fault>) -> Option<Filter> {
    let mut fields = match Fields::of_item(item, "filters", index) {
        Ok(fields) => fields,
        Err(fault) => {
            faults.push(fault);
            return None;
        }
    };
    let field: Option<String> = fields.required("field", "a dotted path such as data.status");
    if field.as_ref().is_some_and(|path| path.chars().count() > MAX_PATH) {
        fields.fault("field", format!("must have at most {MAX_PATH} characters"));
    }
    let op: Option<Op> = fields.required("op", OPS);
    // Here null is a value to compare with.
    let value = fields.raw("value").map(|raw| serde_json::from_str::<Value>(raw.get()));
    if let Some(Err(_)) = value {
        fields.fault("value", "is nested too deeply, or has a number that is too large");
    }
    let found = fields.finish();
    let sound_so_far = found.is_empty();
    faults.extend(found);
    let filter = Filter { field: field?, op: op?, value: value.and_then(Result::ok) };
    if let Some(fault) = filter.fault().filter(|_| sound_so_far) {
        faults.push(Fault::new(format!("filters[{index}]"), format!("is not sound: {fault}")));
    }
    Some(filter)
}
