//! `/openapi.json`: the OpenAPI document. It is kept in parts, one for each resource, and the tests compare every answer of the
//! handlers with it.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use crate::response;

const PARTS: &[&str] = &[
    include_str!("../openapi/info.json"),
    include_str!("../openapi/problems.json"),
    include_str!("../openapi/public.json"),
    include_str!("../openapi/events.json"),
    include_str!("../openapi/subscriptions.json"),
    include_str!("../openapi/urls.json"),
    include_str!("../openapi/deliveries.json"),
    include_str!("../openapi/replays.json"),
    include_str!("../openapi/explain.json"),
    include_str!("../openapi/activity.json"),
    include_str!("../openapi/keys.json"),
    include_str!("../openapi/tenants.json"),
    include_str!("../openapi/audit.json"),
];

pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = Value::Null;
    for part in PARTS {
        merge(
            &mut document,
            serde_json::from_str(part).expect("the parts are valid JSON, which the tests check"),
        );
    }
    inline_fields(&mut document["components"]["schemas"]);
    document
});

/// Schemas that share fields name them as the only member of `allOf`. Generators of clients understand such a schema in different ways, or not
/// at all, so the served document has the fields in each of them instead.
fn inline_fields(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else { return };
    let shared = schemas.clone();
    for schema in schemas.values_mut() {
        let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) else { continue };
        let name = only["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let Some(Value::Object(fields)) = shared.get(name) else { continue };
        let own = schema.take();
        *schema = Value::Object(fields.clone());
        let required = [&fields["required"], &own["required"]].into_iter().filter_map(Value::as_array);
        let required: Vec<Value> = required.flatten().cloned().collect();
        for (name, value) in own.as_object().cloned().unwrap_or_default() {
            match name.as_str() {
                "allOf" | "unevaluatedProperties" | "required" => {}
                _ => merge(&mut schema[name.as_str()], value),
            }
        }
        schema["required"] = required.into();
        schema["additionalProperties"] = false.into();
    }
    schemas.retain(|name, _| !name.ends_with("Fields"));
}

/// Objects are merged; every other value is in one part only.
fn merge(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                merge(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

/// The document as it is sent. It is public, so a request for it must cost next to nothing.
static TEXT: LazyLock<Bytes> =
    LazyLock::new(|| serde_json::to_vec(&*DOCUMENT).expect("the document is plain data").into());

pub(crate) async fn document() -> Response {
    response::with_body(StatusCode::OK, response::JSON, TEXT.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths of all values that are not objects.
    fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    leaves(value, &format!("{at}/{name}"), found);
                }
            }
            _ => found.push(at.to_owned()),
        }
    }

    #[test]
    fn no_part_overwrites_another() {
        let mut found = Vec::new();
        for part in PARTS {
            leaves(&serde_json::from_str(part).unwrap(), "", &mut found);
        }
        let distinct: BTreeSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len());
    }
}
