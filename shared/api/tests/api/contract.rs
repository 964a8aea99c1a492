//! Every answer in these tests is compared with the document, and every request that was done: so the handlers promise
//! nothing that they do not keep, and the document asks for nothing that they do not need.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::http::StatusCode;
use bytes::Bytes;
use holdfast_api::DOCUMENT;
use jsonschema::Validator;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::world::Told;

/// What was asked, as it went over the wire.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Bytes,
}

/// A place in the document, with what stands there.
#[derive(Clone)]
pub(crate) struct Place {
    pointer: String,
    pub(crate) value: &'static Value,
}

impl Place {
    pub(crate) fn at(pointer: &str) -> Option<Place> {
        let value = DOCUMENT.pointer(pointer)?;
        match value.get("$ref").and_then(Value::as_str) {
            Some(elsewhere) => Place::at(elsewhere.strip_prefix('#').unwrap()),
            None => Some(Place { pointer: pointer.to_owned(), value }),
        }
    }

    pub(crate) fn child(&self, name: &str) -> Option<Place> {
        Place::at(&format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1")))
    }

    pub(crate) fn children(&self) -> Vec<(String, Place)> {
        let names: Vec<String> = match self.value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        names.into_iter().map(|name| (name.clone(), self.child(&name).unwrap())).collect()
    }

    /// What is wrong with this value, if this place holds a schema.
    pub(crate) fn faults(&self, value: &Value) -> Vec<String> {
        static MADE: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
        let made = MADE.lock().unwrap().get(&self.pointer).cloned();
        let validator = made.unwrap_or_else(|| {
            let validator = Arc::new(self.validator());
            MADE.lock().unwrap().insert(self.pointer.clone(), validator.clone());
            validator
        });
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }

    fn validator(&self) -> Validator {
        let mut schema = self.value.clone();
        // All references lead there.
        schema["components"] = DOCUMENT["components"].clone();
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
        options.should_validate_formats(true).build(&schema).unwrap()
    }
}

/// The template of a path: `/v1/urls/{id}` for `/v1/urls/url_1`, with the values of its parameters.
fn template_of(path: &str) -> Option<(String, Vec<(String, String)>)> {
    let given: Vec<_> = path.split('/').collect();
    let paths = Place::at("/paths").unwrap().children();
    paths.into_iter().find_map(|(template, _)| {
        let wanted: Vec<_> = template.split('/').collect();
        let mut values = Vec::new();
        let matches = wanted.len() == given.len()
            && wanted.iter().zip(&given).all(|(wanted, given)| match wanted.strip_prefix('{') {
                Some(name) => {
                    values.push((name.trim_end_matches('}').to_owned(), decoded(given)));
                    !given.is_empty()
                }
                None => wanted == given,
            });
        matches.then_some((template, values))
    })
}

fn decoded(segment: &str) -> String {
    // A plus sign is itself in a path, and a space in a form.
    let form = format!("x={}", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(form.as_bytes()).next().unwrap().1.into_owned()
}

pub(crate) fn check(asked: &Asked, told: &Told) {
    let what = format!("{} {}?{} → {}", asked.method, asked.path, asked.query, told.status);
    let Some((template, path_values)) = template_of(&asked.path) else {
        return check_response(&what, told, &Place::at("/components/responses/NotFound").unwrap(), 404);
    };
    let path = Place::at("/paths").unwrap().child(&template).unwrap();
    let Some(operation) = path.child(&asked.method.to_ascii_lowercase()) else {
        let refused = Place::at("/components/responses/MethodNotAllowed").unwrap();
        return check_response(&what, told, &refused, 405);
    };
    let status = told.status.as_u16();
    let response = operation.child("responses").unwrap().child(&status.to_string());
    let response = response.unwrap_or_else(|| panic!("{what} is not documented"));
    check_response(&what, told, &response, status);
    if told.status.is_success() {
        check_parameters(&what, &path, &operation, asked, &path_values);
        check_body(&what, &operation, &asked.body);
    }
}

fn check_response(what: &str, told: &Told, response: &Place, status: u16) {
    assert_eq!(told.status, StatusCode::from_u16(status).unwrap(), "{what}");
    for (name, header) in response.child("headers").map(|headers| headers.children()).unwrap_or_default() {
        let value = typed(&header.child("schema").unwrap(), told.header(&name));
        let faults = header.child("schema").unwrap().faults(&value);
        assert!(faults.is_empty(), "{what}: {name}: {faults:?}");
    }
    let Some(content) = response.child("content") else {
        assert!(told.body.is_empty(), "{what}: a body where none is documented");
        return;
    };
    let kind = content.child(told.header("content-type"));
    let kind = kind.unwrap_or_else(|| panic!("{what}: {} is not documented", told.header("content-type")));
    let faults = kind.child("schema").unwrap().faults(&value_of(&told.body));
    assert!(faults.is_empty(), "{what}: {faults:#?}\n{}", String::from_utf8_lossy(&told.body));
}

fn check_parameters(
    what: &str,
    path: &Place,
    operation: &Place,
    asked: &Asked,
    path_values: &[(String, String)],
) {
    let lists = [path, operation].map(|place| place.child("parameters"));
    let known: Vec<_> = lists.into_iter().flatten().flat_map(|list| list.children()).collect();
    let query = url::form_urlencoded::parse(asked.query.as_bytes()).into_owned().map(|pair| ("query", pair));
    let path_values = path_values.iter().cloned().map(|pair| ("path", pair));
    for (place, (name, value)) in query.chain(path_values) {
        let found = known.iter().find(|(_, p)| p.value["name"] == *name && p.value["in"] == *place);
        let (_, parameter) = found.unwrap_or_else(|| panic!("{what}: {place} {name} is not documented"));
        let schema = parameter.child("schema").unwrap();
        let faults = schema.faults(&typed(&schema, &value));
        assert!(faults.is_empty(), "{what}: {name}: {faults:?}");
    }
}

fn check_body(what: &str, operation: &Place, body: &Bytes) {
    let Some(wanted) = operation.child("requestBody") else { return };
    if body.trim_ascii().is_empty() {
        assert_ne!(wanted.value["required"], json!(true), "{what}: done without a body");
        return;
    }
    let schema = wanted.child("content").unwrap().child("application/json").unwrap().child("schema").unwrap();
    let faults = schema.faults(&value_of(body));
    assert!(faults.is_empty(), "{what}: {faults:#?}\n{}", String::from_utf8_lossy(body));
}

/// A header or parameter as its schema means it.
fn typed(schema: &Place, text: &str) -> Value {
    let is_number = schema.value["type"] == "integer";
    text.parse::<i64>().ok().filter(|_| is_number).map_or_else(|| json!(text), |number| json!(number))
}

/// Events may hold numbers and depths that no value can: these are taken for null.
fn value_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).unwrap();
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        Value::Object(fields.into_iter().map(|(name, raw)| (name, value(raw))).collect::<Map<_, _>>())
    })
}
