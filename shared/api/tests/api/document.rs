//! The OpenAPI document itself, and its routes. `contract` compares the answers of the handlers with it.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use holdfast_api::{DOCUMENT, ROUTES};
use serde_json::{Value, json};

use crate::contract::Place;
use crate::world::World;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Method, path, path item and operation of every call.
pub(crate) fn operations() -> Vec<(String, String, Place, Place)> {
    let paths = Place::at("/paths").unwrap().children();
    let of_path = |(path, item): (String, Place)| {
        let found = item.children().into_iter().filter(|(name, _)| METHODS.contains(&name.as_str()));
        found.map(|(method, operation)| (method, path.clone(), item.clone(), operation)).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of_path).collect()
}

#[tokio::test]
async fn it_is_public() {
    let answer = World::new().send(Request::get("/openapi.json").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.expect(StatusCode::OK), *DOCUMENT);
    assert_eq!(answer.header("content-type"), "application/json");
}

#[test]
fn it_has_exactly_the_routes() {
    let documented: BTreeSet<_> = operations().into_iter().map(|(method, path, ..)| (method, path)).collect();
    let routed: BTreeSet<_> =
        ROUTES.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    let missing: Vec<_> = routed.difference(&documented).collect();
    let unrouted: Vec<_> = documented.difference(&routed).collect();
    assert!(missing.is_empty() && unrouted.is_empty(), "not documented {missing:?}, no route {unrouted:?}");
}

#[test]
fn every_operation_lists_its_answers() {
    let mut ids = BTreeSet::new();
    for (method, path, item, operation) in operations() {
        let what = format!("{method} {path}");
        let id = operation.value["operationId"].as_str().unwrap_or_else(|| panic!("{what}: no operationId"));
        assert!(ids.insert(id.to_owned()), "{what}: {id} twice");
        assert!(operation.value["summary"].is_string() && operation.value["tags"].is_array(), "{what}");
        let roles: Vec<_> = operation.value["security"].as_array().unwrap().iter().collect();
        let role = match roles.as_slice() {
            [] => "public",
            [needed] => needed["key"][0].as_str().unwrap(),
            _ => panic!("{what}: one role, or none"),
        };
        assert!(["public", "ingest", "viewer", "admin", "operator"].contains(&role), "{what}: {role}");
        let lists = [&item, &operation].map(|place| place.child("parameters"));
        let parameters: Vec<_> = lists.into_iter().flatten().flat_map(|list| list.children()).collect();
        let places: BTreeSet<_> = parameters.iter().map(|(_, p)| p.value["in"].as_str().unwrap()).collect();
        let of_tenant = parameters.iter().any(|(_, p)| p.value["name"] == "tenant");
        let has_body = operation.child("requestBody").is_some();
        let responses = operation.child("responses").unwrap();
        for (status, wanted) in [
            ("400", places.contains("query") || has_body),
            ("401", role != "public"),
            ("403", ["viewer", "admin", "operator"].contains(&role) || of_tenant),
            ("404", places.contains("path") || of_tenant),
            ("408", has_body),
            ("413", has_body),
            // Reading a tenant takes no turn.
            ("429", has_body || (["viewer", "admin"].contains(&role) && path != "/v1/tenants/{id}")),
            ("503", role != "public"),
        ] {
            assert_eq!(responses.child(status).is_some(), wanted, "{what}: {status}");
        }
    }
}

/// Visits all values in the document, with their JSON pointers.
fn walk(value: &Value, at: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(at, value);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), visit);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(value, &format!("{at}/{index}"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn every_reference_resolves_and_every_component_is_used() {
    let mut used = BTreeSet::from(["#/components/responses/MethodNotAllowed".to_owned()]);
    walk(&DOCUMENT, "", &mut |at, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            assert!(Place::at(&reference[1..]).is_some(), "{at}: {reference}");
            used.insert(reference.to_owned());
        }
        let links = value.get("operationId").filter(|_| at.contains("/links/"));
        if let Some(id) = links {
            assert!(operations().iter().any(|(.., o)| o.value["operationId"] == *id), "{at}: {id}");
        }
    });
    for (kind, named) in Place::at("/components").unwrap().children() {
        for (name, _) in named.children().into_iter().filter(|_| kind != "securitySchemes") {
            assert!(used.contains(&format!("#/components/{kind}/{name}")), "{kind}/{name} is not used");
        }
    }
}

#[test]
fn objects_allow_no_other_fields() {
    let open = ["/paths/~1openapi.json/"];
    walk(&DOCUMENT, "", &mut |at, value| {
        if value["type"] == "object" && !open.iter().any(|path| at.starts_with(path)) {
            assert_eq!(value["additionalProperties"], false, "{at}");
        }
    });
}

/// Generators make no type of the first, and a type that cannot be left out of the second.
#[test]
fn generators_of_clients_understand_every_schema() {
    let mut objects = 0;
    walk(&DOCUMENT, "", &mut |at, value| {
        assert!(value["allOf"].as_array().is_none_or(|all| all.len() > 1), "{at}: allOf with one schema");
        let required = value["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in value["properties"].as_object().into_iter().flatten() {
            objects += 1;
            let is_required = required.contains(&json!(name));
            assert!(is_required || field.get("const").is_none(), "{at}/{name}: an optional const");
        }
    });
    assert!(objects > 100, "{objects}");
    let created = Place::at("/components/schemas/CreatedKey").unwrap();
    for name in ["id", "key"] {
        assert!(
            created.value["properties"].get(name).is_some(),
            "the fields of a key are in the created one"
        );
        assert!(created.value["required"].as_array().unwrap().contains(&json!(name)), "{name}");
    }
}

#[test]
fn examples_match_their_schemas() {
    let mut checked = 0;
    walk(&DOCUMENT, "", &mut |at, value| {
        let Some(place) = Place::at(at).filter(|_| value.is_object() && value.get("$ref").is_none()) else {
            return;
        };
        let schema = place.child("schema");
        let mut check = |schema: &Place, example: &Value| {
            checked += 1;
            assert!(schema.errors(example).is_empty(), "{at}: {:?}", schema.errors(example));
        };
        if let (Some(schema), Some(example)) = (&schema, value.get("example")) {
            check(schema, example);
        }
        if let (Some(schema), Some(Value::Object(examples))) = (&schema, value.get("examples")) {
            examples.values().for_each(|example| check(schema, &example["value"]));
        }
        if let (None, Some(Value::Array(examples))) = (&schema, value.get("examples")) {
            examples.iter().for_each(|example| check(&place, example));
        }
    });
    assert!(checked > 10, "{checked}");
}
