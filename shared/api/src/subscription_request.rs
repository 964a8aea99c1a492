//! The bodies that create and update a subscription. Every field is checked, so that all errors are reported at once.

use holdfast_core::engine::{NewSubscription, SubscriptionPatch};
use holdfast_core::rules::event_type::{self, MAX_SEGMENT_LEN, MAX_SEGMENTS};
use holdfast_core::rules::filter::{Filter, Op};
use holdfast_core::rules::{signing, url_form};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::suggest::quote;
use crate::{FieldError, Problem};

const MAX_TYPES: usize = 100;
const MAX_FILTERS: usize = 50;
/// Every process that accepts events keeps all filters of a tenant in memory.
const MAX_FILTER_BYTES: usize = 16_384;
const MAX_PATH_CHARS: usize = 1_024;
const MAX_TOKEN_BYTES: usize = 4_096;
const MAX_DESCRIPTION_CHARS: usize = 1_024;

const URL: &str = "the URL to deliver to, as a string";
const TYPES: &str = "an array of event types such as [\"order.created\", \"invoice.*\"]";
const FILTERS: &str = "an array of filters";
const CONNECTOR: &str = "\"and\" or \"or\"";
const STRING: &str = "a string";
const BOOLEAN: &str = "true or false";
const OPS: &str = "one of eq, ne, gt, gte, lt, lte, contains, changed, exists";

/// Null means the default.
pub(crate) fn parse_create(body: &[u8], http_allowed: bool) -> Result<NewSubscription, Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut errors = Vec::new();
    let url = fields.required("url", URL).and_then(|url: String| parse_url(&url, &mut fields, http_allowed));
    let event_types: Option<Vec<String>> = fields.required("event_types", TYPES);
    check_types(event_types.as_deref(), &mut fields, &mut errors);
    let filters = fields.optional("filters", FILTERS).unwrap_or_default();
    let filters = parse_filters(filters, &mut fields, &mut errors);
    let filter_connector = fields.optional("filter_connector", CONNECTOR);
    let auth_token: Option<String> = fields.optional("auth_token", STRING);
    check_token(auth_token.as_deref(), &mut fields);
    let description: Option<String> = fields.optional("description", STRING);
    fields.check_length("description", description.as_deref(), MAX_DESCRIPTION_CHARS);
    let active: Option<bool> = fields.optional("active", BOOLEAN);
    let secret: Option<String> = fields.optional("secret", STRING);
    if secret.as_deref().is_some_and(|secret| !signing::is_secret(secret)) {
        // It does not repeat what was given: a secret that is nearly right is still one.
        let detail = "must be whsec_ followed by 24 to 64 bytes in base64, with padding; leave it out to have one made";
        fields.reject("secret", detail);
    }
    errors.extend(fields.finish());
    match url {
        Some(url) if errors.is_empty() => Ok(NewSubscription {
            url,
            event_types: event_types.unwrap_or_default(),
            filters,
            filter_connector: filter_connector.unwrap_or_default(),
            auth_token,
            description,
            active: active.unwrap_or(true),
            secret,
        }),
        _ => Err(Problem::invalid(errors)),
    }
}

/// An absent field stays as it is. Null removes an optional field, and is rejected for the others.
pub(crate) fn parse_patch(body: &[u8], http_allowed: bool) -> Result<SubscriptionPatch, Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut errors = Vec::new();
    let url = fields.given("url", URL).and_then(|url: String| parse_url(&url, &mut fields, http_allowed));
    let event_types: Option<Vec<String>> = fields.given("event_types", TYPES);
    check_types(event_types.as_deref(), &mut fields, &mut errors);
    let filters = fields.given("filters", FILTERS);
    let filters = filters.map(|filters| parse_filters(filters, &mut fields, &mut errors));
    let filter_connector = fields.given("filter_connector", CONNECTOR);
    let auth_token: Option<Option<String>> = fields.removable("auth_token", STRING);
    check_token(auth_token.as_ref().and_then(Option::as_deref), &mut fields);
    let description: Option<Option<String>> = fields.removable("description", STRING);
    let text = description.as_ref().and_then(Option::as_deref);
    fields.check_length("description", text, MAX_DESCRIPTION_CHARS);
    let active = fields.given("active", BOOLEAN);
    errors.extend(fields.finish());
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    Ok(SubscriptionPatch { url, event_types, filters, filter_connector, auth_token, description, active })
}

/// Whether to ping a disabled URL. The body is optional.
pub(crate) fn parse_ping(body: &[u8]) -> Result<bool, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(false);
    }
    let mut fields = Fields::of_body(body)?;
    let force = fields.optional("force", BOOLEAN).unwrap_or(false);
    let errors = fields.finish();
    if errors.is_empty() { Ok(force) } else { Err(Problem::invalid(errors)) }
}

/// `None` only with an error.
fn parse_url(given: &str, fields: &mut Fields<'_>, http_allowed: bool) -> Option<String> {
    let normalised = url_form::normalise(given, http_allowed);
    normalised.map_err(|error| fields.reject("url", error.to_string())).ok()
}

fn check_types(types: Option<&[String]>, fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) {
    let Some(types) = types else { return };
    if types.is_empty() || types.len() > MAX_TYPES {
        fields.reject("event_types", format!("must have 1 to {MAX_TYPES} event types, not {}", types.len()));
        return;
    }
    for (index, pattern) in types.iter().enumerate().filter(|(_, pattern)| !event_type::is_pattern(pattern)) {
        let detail = format!(
            "{} is not an event type; use a dotted name such as order.created, with * for one segment, or * alone, and up to \
             {MAX_SEGMENTS} segments of up to {MAX_SEGMENT_LEN} characters",
            quote(pattern)
        );
        errors.push(FieldError::new(format!("event_types[{index}]"), detail));
    }
    for (index, pattern) in
        types.iter().enumerate().filter(|(_, pattern)| event_type::is_unknown_own(pattern))
    {
        let detail = format!(
            "no event is of type {}; the types of Holdfast's own events are {}",
            quote(pattern),
            event_type::OWN.join(", ")
        );
        errors.push(FieldError::new(format!("event_types[{index}]"), detail));
    }
}

fn parse_filters(
    items: Vec<&RawValue>,
    fields: &mut Fields<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Filter> {
    if items.len() > MAX_FILTERS {
        fields.reject("filters", format!("must have at most {MAX_FILTERS} filters, not {}", items.len()));
        return Vec::new();
    }
    if items.iter().map(|item| item.get().len()).sum::<usize>() > MAX_FILTER_BYTES {
        fields.reject("filters", format!("must have at most {MAX_FILTER_BYTES} bytes in total"));
        return Vec::new();
    }
    let filters = items.into_iter().enumerate();
    filters.filter_map(|(index, item)| parse_filter(item, index, errors)).collect()
}

/// The token is sent in a header. It is a secret, so the error does not repeat it.
fn check_token(token: Option<&str>, fields: &mut Fields<'_>) {
    let is_valid = |token: &str| {
        (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic())
    };
    if token.is_some_and(|token| !is_valid(token)) {
        let detail = format!("must have 1 to {MAX_TOKEN_BYTES} visible ASCII characters, without spaces");
        fields.reject("auth_token", detail);
    }
}

/// `None` only with an error.
fn parse_filter(item: &RawValue, index: usize, errors: &mut Vec<FieldError>) -> Option<Filter> {
    let mut fields = Fields::of_item(item, "filters", index).map_err(|error| errors.push(error)).ok()?;
    let field: Option<String> = fields.required("field", "a dotted path such as data.status");
    fields.check_length("field", field.as_deref(), MAX_PATH_CHARS);
    let op: Option<Op> = fields.required("op", OPS);
    // Null is a value to compare with.
    let value = fields.raw("value").map(|raw| serde_json::from_str::<Value>(raw.get()));
    if let Some(Err(_)) = value {
        fields
            .reject("value", "is nested too deeply, or has a number that is too large; use a simpler value");
    }
    let field_errors = fields.finish();
    let fields_valid = field_errors.is_empty();
    errors.extend(field_errors);
    let filter = Filter { field: field?, op: op?, value: value.and_then(Result::ok) };
    if let Some(detail) = filter.fault().filter(|_| fields_valid) {
        errors.push(FieldError::new(format!("filters[{index}]"), detail));
    }
    Some(filter)
}
