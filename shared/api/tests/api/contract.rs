//! Every answer in these tests, and every request that succeeded, is compared with the OpenAPI document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::http::StatusCode;
use bytes::Bytes;
use holdfast_api::DOCUMENT;
use jsonschema::Validator;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::world::Answer;

/// A request as it was sent.
pub(crate) struct ApiRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Bytes,
}

/// A value in the document, with its JSON pointer.
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

    /// The errors of a value, if this is a schema.
    pub(crate) fn errors(&self, value: &Value) -> Vec<String> {
        static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
        let cached = VALIDATORS.lock().unwrap().get(&self.pointer).cloned();
        let validator = cached.unwrap_or_else(|| {
            let validator = Arc::new(self.validator());
            VALIDATORS.lock().unwrap().insert(self.pointer.clone(), validator.clone());
            validator
        });
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }

    fn validator(&self) -> Validator {
        let mut schema = self.value.clone();
        // All references point there.
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
    // A plus sign is a plus sign in a path, and a space in a form.
    let form = format!("x={}", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(form.as_bytes()).next().unwrap().1.into_owned()
}

pub(crate) fn check(request: &ApiRequest, answer: &Answer) {
    let what = format!("{} {}?{} → {}", request.method, request.path, request.query, answer.status);
    let Some((template, path_values)) = template_of(&request.path) else {
        return check_response(&what, answer, &Place::at("/components/responses/NotFound").unwrap(), 404);
    };
    let path = Place::at("/paths").unwrap().child(&template).unwrap();
    let Some(operation) = path.child(&request.method.to_ascii_lowercase()) else {
        let expected = Place::at("/components/responses/MethodNotAllowed").unwrap();
        return check_response(&what, answer, &expected, 405);
    };
    let status = answer.status.as_u16();
    let response = operation.child("responses").unwrap().child(&status.to_string());
    let response = response.unwrap_or_else(|| panic!("{what} is not documented"));
    check_response(&what, answer, &response, status);
    if answer.status.is_success() {
        check_parameters(&what, &path, &operation, request, &path_values);
        check_body(&what, &operation, &request.body);
    }
}

fn check_response(what: &str, answer: &Answer, response: &Place, status: u16) {
    assert_eq!(answer.status, StatusCode::from_u16(status).unwrap(), "{what}");
    for (name, header) in response.child("headers").map(|headers| headers.children()).unwrap_or_default() {
        if header.value["required"] != json!(true) && !answer.headers.contains_key(&name) {
            continue;
        }
        let value = typed(&header.child("schema").unwrap(), answer.header(&name));
        let errors = header.child("schema").unwrap().errors(&value);
        assert!(errors.is_empty(), "{what}: {name}: {errors:?}");
    }
    let Some(content) = response.child("content") else {
        assert!(answer.body.is_empty(), "{what}: a body where none is documented");
        return;
    };
    let kind = content.child(answer.header("content-type"));
    let kind = kind.unwrap_or_else(|| panic!("{what}: {} is not documented", answer.header("content-type")));
    let errors = kind.child("schema").unwrap().errors(&value_of(&answer.body));
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{}", String::from_utf8_lossy(&answer.body));
}

fn check_parameters(
    what: &str,
    path: &Place,
    operation: &Place,
    request: &ApiRequest,
    path_values: &[(String, String)],
) {
    let lists = [path, operation].map(|place| place.child("parameters"));
    let known: Vec<_> = lists.into_iter().flatten().flat_map(|list| list.children()).collect();
    let query =
        url::form_urlencoded::parse(request.query.as_bytes()).into_owned().map(|pair| ("query", pair));
    let path_values = path_values.iter().cloned().map(|pair| ("path", pair));
    for (place, (name, value)) in query.chain(path_values) {
        let found = known.iter().find(|(_, p)| p.value["name"] == *name && p.value["in"] == *place);
        let (_, parameter) = found.unwrap_or_else(|| panic!("{what}: {place} {name} is not documented"));
        let schema = parameter.child("schema").unwrap();
        let errors = schema.errors(&typed(&schema, &value));
        assert!(errors.is_empty(), "{what}: {name}: {errors:?}");
    }
}

fn check_body(what: &str, operation: &Place, body: &Bytes) {
    let Some(wanted) = operation.child("requestBody") else { return };
    if body.trim_ascii().is_empty() {
        assert_ne!(wanted.value["required"], json!(true), "{what}: succeeded without a body");
        return;
    }
    let schema = wanted.child("content").unwrap().child("application/json").unwrap().child("schema").unwrap();
    let errors = schema.errors(&value_of(body));
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{}", String::from_utf8_lossy(body));
}

/// A header or parameter, as a number if its schema says so.
fn typed(schema: &Place, text: &str) -> Value {
    let is_number = schema.value["type"] == "integer";
    text.parse::<i64>().ok().filter(|_| is_number).map_or_else(|| json!(text), |number| json!(number))
}

/// Events may contain numbers and depths that `Value` cannot represent: these become null.
fn value_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).unwrap();
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        Value::Object(fields.into_iter().map(|(name, raw)| (name, value(raw))).collect::<Map<_, _>>())
    })
}
