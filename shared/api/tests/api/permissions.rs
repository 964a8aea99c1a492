//! Every operation of the OpenAPI document, with every key that may not call it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::contract::Place;
use crate::document::operations;
use crate::world::{Answer, KEY, World};

const ROLES: [&str; 4] = ["ingest", "viewer", "admin", "operator"];

/// A call that succeeds with the right key.
struct Call {
    method: String,
    path: String,
    body: String,
    /// `None`: no key is needed.
    role: Option<&'static str>,
    has_id: bool,
}

/// A tenant with one resource of each kind.
struct Owner {
    /// By the kind of resource, as in the path.
    ids: BTreeMap<&'static str, String>,
    /// Must not appear in answers to other tenants.
    secrets: Vec<String>,
}

async fn owner(world: &World) -> Owner {
    let key = world.key("alpha", "admin").await;
    let subscription = json!({"url": "https://receiver.example/alpha", "event_types": ["*"]});
    let answer = world.call_as(&key, "POST", "/v1/subscriptions", subscription.to_string()).await;
    let subscription = answer.json(201);
    world.receiver.status.store(500, Ordering::Relaxed);
    let event = json!({"id": "of-alpha", "type": "order.created", "data": 1}).to_string();
    world.call_as(&key, "POST", "/v1/events", event).await.json(202);
    world.work().await;
    let deliveries = world.call_as(&key, "GET", "/v1/deliveries", "").await.json(200);
    let path = format!("/v1/urls/{}/replay", text(&subscription["url_id"]));
    let replay = world.call_as(&key, "POST", &path, "").await.json(202);
    world.work().await;
    let keys = world.get("/v1/keys?tenant=alpha").await.json(200);
    let ids = BTreeMap::from([
        ("events", "of-alpha".to_owned()),
        ("subscriptions", text(&subscription["id"])),
        ("urls", text(&subscription["url_id"])),
        ("deliveries", text(&deliveries["items"][0]["id"])),
        ("replays", text(&replay["id"])),
        ("keys", text(&keys["items"][0]["id"])),
        ("tenants", "alpha".to_owned()),
    ]);
    let secrets = ids.values().cloned().chain(["alpha".to_owned(), key]).collect();
    Owner { ids, secrets }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Owner {
    fn calls(&self) -> Vec<Call> {
        operations()
            .into_iter()
            .map(|(method, path, _, operation)| self.call(&method, &path, &operation))
            .collect()
    }

    fn call(&self, method: &str, path: &str, operation: &Place) -> Call {
        let has_id = path.contains("{id}");
        let kind = path.split('/').nth(2).unwrap_or_default();
        let path = if has_id {
            let id = self.ids.get(kind).unwrap_or_else(|| panic!("{path}: alpha has no {kind}"));
            path.replace("{id}", id)
        } else {
            // What is asked for exists nowhere, so that the answer is the same for all tenants.
            path.replace("/v1/explain", "/v1/explain?event=none&subscription=sub_none")
        };
        let needed = operation.value["security"][0]["key"][0].as_str();
        let role = needed.map(|needed| *ROLES.iter().find(|role| **role == needed).unwrap());
        let body =
            operation.child("requestBody").map_or_else(String::new, |body| example_of(&body).to_string());
        Call { method: method.to_ascii_uppercase(), path, body, role, has_id }
    }
}

fn example_of(body: &Place) -> Value {
    let content = body.child("content").unwrap().child("application/json").unwrap();
    let named =
        content.child("examples").map(|examples| examples.children().remove(0).1.value["value"].clone());
    named.unwrap_or_else(|| content.value["example"].clone())
}

impl Call {
    async fn by(&self, world: &World, key: &str) -> Answer {
        world.call_as(key, &self.method, &self.path, self.body.clone()).await
    }

    /// Its path, with `?tenant=`.
    fn of_tenant(&self, tenant: &str) -> String {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}tenant={tenant}", self.path)
    }

    fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Everything that the API shows of alpha.
async fn snapshot(world: &World, owner: &Owner) -> Vec<(String, Value)> {
    let mut snapshot = Vec::new();
    for call in owner.calls().into_iter().filter(|call| call.method == "GET" && call.role.is_some()) {
        let path = call.of_tenant("alpha");
        snapshot.push((call.what(), world.get(&path).await.json(200)));
    }
    assert!(snapshot.len() > 5);
    snapshot
}

#[tokio::test]
async fn every_call_needs_a_valid_key() {
    let world = World::new();
    let owner = owner(&world).await;
    let before = snapshot(&world, &owner).await;
    for call in owner.calls() {
        let request = || Request::builder().method(call.method.as_str()).uri(&call.path);
        let without = world.send(request().body(Body::from(call.body.clone())).unwrap()).await;
        if call.role.is_none() {
            without.json(200);
            continue;
        }
        without.problem(401);
        let key = owner.secrets.last().unwrap();
        let almost = format!("{}0", &key[..key.len() - 1]);
        for wrong in ["hf_nonsense", "", "hf_", &almost, &format!("{key}0"), &key.to_uppercase()] {
            call.by(&world, wrong).await.problem(401);
        }
        for header in [format!("Basic {key}"), key.clone(), format!("Bearer{key}")] {
            let request = request().header("authorization", header).body(Body::from(call.body.clone()));
            world.send(request.unwrap()).await.problem(401);
        }
    }
    assert_eq!(snapshot(&world, &owner).await, before);
}

#[tokio::test]
async fn a_role_that_is_too_low_is_rejected() {
    let world = World::new();
    let owner = owner(&world).await;
    let mut keys = Vec::new();
    for role in ["ingest", "viewer", "admin"] {
        keys.push((role, world.key("alpha", role).await));
    }
    let before = snapshot(&world, &owner).await;
    let mut refused = 0;
    for call in owner.calls() {
        let may = |role: &str| match call.role {
            None => true,
            Some("operator") => false,
            Some("ingest" | "viewer") => call.role == Some(role) || role == "admin",
            Some(_) => role == "admin",
        };
        for (_, key) in keys.iter().filter(|(role, _)| !may(role)) {
            call.by(&world, key).await.problem(403);
            refused += 1;
        }
    }
    assert!(refused > 40, "{refused}");
    assert_eq!(snapshot(&world, &owner).await, before);
}

#[tokio::test]
async fn another_tenant_sees_and_changes_nothing() {
    let world = World::new();
    let owner = owner(&world).await;
    let other = world.key("beta", "admin").await;
    let before = snapshot(&world, &owner).await;
    for call in
        owner.calls().into_iter().filter(|call| matches!(call.role, Some("ingest" | "viewer" | "admin")))
    {
        let answer = call.by(&world, &other).await;
        if call.has_id {
            answer.problem(404);
        } else {
            assert!(answer.status.is_success(), "{}: {}", call.what(), answer.status);
        }
        let shown = String::from_utf8(answer.body.to_vec()).unwrap();
        let leaked = owner.secrets.iter().find(|secret| shown.contains(secret.as_str()));
        assert_eq!(leaked, None, "{}: {shown}", call.what());
        let named = Call { path: call.of_tenant("alpha"), ..call };
        named.by(&world, &other).await.problem(403);
    }
    world.work().await;
    assert_eq!(snapshot(&world, &owner).await, before);
}

/// Otherwise the tests above would prove nothing.
#[tokio::test]
async fn the_right_key_reaches_everything() {
    let world = World::new();
    let owner = owner(&world).await;
    let mut calls = owner.calls();
    calls.sort_by_key(|call| call.method == "DELETE");
    for call in calls.into_iter().filter(|call| call.role.is_some() && call.has_id) {
        let call = Call { path: call.of_tenant("alpha"), ..call };
        let answer = call.by(&world, KEY).await;
        assert!(answer.status.is_success() || answer.status == 409, "{}: {}", call.what(), answer.status);
    }
}

#[tokio::test]
async fn equal_names_of_two_tenants_are_independent() {
    let world = World::new();
    let owner = owner(&world).await;
    let other = world.key("beta", "admin").await;
    let before = snapshot(&world, &owner).await;
    let subscription = json!({"url": "https://receiver.example/alpha", "event_types": ["*"]}).to_string();
    let subscription = world.call_as(&other, "POST", "/v1/subscriptions", subscription).await.json(201);
    assert_eq!(text(&subscription["url_id"]), owner.ids["urls"]);
    let event = json!({"id": "of-alpha", "type": "order.created", "data": "another"}).to_string();
    let accepted = world.call_as(&other, "POST", "/v1/events", event).await.json(202);
    assert_eq!(accepted, json!({"id": "of-alpha", "deliveries": 1, "duplicate": false}));
    for action in ["disable", "freeze", "enable", "freeze"] {
        let path = format!("/v1/urls/{}/{action}", owner.ids["urls"]);
        world.call_as(&other, "POST", &path, "").await.json(200);
    }
    world.work().await;
    let shown = world.call_as(&other, "GET", "/v1/events/of-alpha", "").await.json(200);
    assert_eq!(shown["deliveries"][0]["state"], "parked");
    assert_eq!(snapshot(&world, &owner).await, before);
}
