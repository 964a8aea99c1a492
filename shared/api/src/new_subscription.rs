//! A subscription as it is posted.

use holdfast_core::rules::filter::{Connector, Filter, Op};
use holdfast_core::rules::{address, event_type};
use holdfast_core::usecases::NewSubscription;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::{Fault, Problem};

const MOST_TYPES: usize = 100;
const MOST_FILTERS: usize = 50;
const LONGEST_PATH: usize = 1_024;
const LONGEST_TOKEN: usize = 4_096;
const LONGEST_DESCRIPTION: usize = 1_024;
const OPS: &str = "one of eq, ne, gt, gte, lt, lte, contains, changed, exists";

/// Checks everything, so that all that is wrong is told at once.
pub(crate) fn new_subscription(body: &[u8], http_allowed: bool) -> Result<NewSubscription, Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut faults = Vec::new();
    let url = url_of(&mut fields, http_allowed);
    let event_types = event_types_of(&mut fields, &mut faults);
    let filters = filters_of(&mut fields, &mut faults);
    let filter_connector: Option<Connector> = fields.optional("filter_connector", "\"and\" or \"or\"");
    let auth_token: Option<String> = fields.optional("auth_token", "a string");
    if auth_token.as_ref().is_some_and(|token| !is_token(token)) {
        let detail = format!("must have 1 to {LONGEST_TOKEN} visible ASCII characters, without spaces");
        fields.fault("auth_token", detail);
    }
    let description: Option<String> = fields.optional("description", "a string");
    if description.as_ref().is_some_and(|text| text.chars().count() > LONGEST_DESCRIPTION) {
        fields.fault("description", format!("must have at most {LONGEST_DESCRIPTION} characters"));
    }
    let active: Option<bool> = fields.optional("active", "true or false");
    faults.extend(fields.finish());
    match url {
        Some(url) if faults.is_empty() => Ok(NewSubscription {
            url,
            event_types,
            filters,
            filter_connector: filter_connector.unwrap_or_default(),
            auth_token,
            description,
            active: active.unwrap_or(true),
        }),
        _ => Err(Problem::invalid(faults)),
    }
}

/// It becomes part of a header.
fn is_token(token: &str) -> bool {
    (1..=LONGEST_TOKEN).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic())
}

/// `None` only with a fault.
fn url_of(fields: &mut Fields<'_>, http_allowed: bool) -> Option<String> {
    let given: String = fields.required("url", "the URL to deliver to, as a string")?;
    match address::normalise(&given, http_allowed) {
        Ok(url) => Some(url),
        Err(error) => {
            fields.fault("url", error.to_string());
            None
        }
    }
}

fn event_types_of(fields: &mut Fields<'_>, faults: &mut Vec<Fault>) -> Vec<String> {
    let what = "an array of event types such as [\"order.created\", \"invoice.*\"]";
    let Some(types) = fields.required::<Vec<String>>("event_types", what) else { return Vec::new() };
    if types.is_empty() || types.len() > MOST_TYPES {
        fields.fault("event_types", format!("must have 1 to {MOST_TYPES} event types"));
        return Vec::new();
    }
    for (index, _) in types.iter().enumerate().filter(|(_, pattern)| !event_type::is_pattern(pattern)) {
        let detail = "must be a dotted name such as order.created, with * for one segment, or * alone";
        faults.push(Fault::new(format!("event_types[{index}]"), detail));
    }
    types
}

fn filters_of(fields: &mut Fields<'_>, faults: &mut Vec<Fault>) -> Vec<Filter> {
    let items: Vec<&RawValue> = fields.optional("filters", "an array of filters").unwrap_or_default();
    if items.len() > MOST_FILTERS {
        fields.fault("filters", format!("must have at most {MOST_FILTERS} filters"));
        return Vec::new();
    }
    let filters = items.into_iter().enumerate();
    filters.filter_map(|(index, item)| filter_of(item, index, faults)).collect()
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
    if field.as_ref().is_some_and(|path| path.chars().count() > LONGEST_PATH) {
        fields.fault("field", format!("must have at most {LONGEST_PATH} characters"));
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
