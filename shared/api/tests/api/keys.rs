//! Creating, listing and deleting keys.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::future::join_all;
use holdfast_api::{BuiltIn, HashedKey, Keys};
use holdfast_core::engine::{DeleteKeyError, NewKey};
use holdfast_core::records::Record;
use holdfast_core::rules::access::Role;
use holdfast_sim::me;
use serde_json::{Value, json};

use crate::world::{KEY, World};

#[tokio::test]
async fn a_key_is_shown_once_and_listed_without_its_text() {
    let world = World::new();
    let new = json!({
        "tenant": "shop-1", "role": "admin", "description": "the shop", "expires_at": "2026-02-01T00:00:00+01:00",
    });
    let mut created = world.post("/v1/keys", new.to_string()).await.expect(StatusCode::CREATED);
    let text = created.as_object_mut().unwrap().remove("key").unwrap();
    let text = text.as_str().unwrap();
    assert_eq!((text.len(), &text[..3]), (35, "hf_"));
    assert!(text[3..].bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{text}");
    let id = created["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("key_") && id.len() == 30, "{id}");
    let expected = json!({
        "id": id, "tenant": "shop-1", "role": "admin", "description": "the shop", "built_in": false,
        "created_at": "2026-01-01T00:00:00.000Z", "expires_at": "2026-01-31T23:00:00.000Z",
    });
    assert_eq!(created, expected);

    let listed = world.get("/v1/keys").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(text));
    let built_in = json!({
        "id": "built-in", "tenant": "default", "role": "operator", "built_in": true, "created_at": null,
        "expires_at": null, "description": "The key that this host was started with",
    });
    assert_eq!(listed.expect(StatusCode::OK), json!({"items": [built_in, expected], "next": null}));

    let path = format!("/v1/keys/{id}");
    let deleted = world.call("DELETE", &path, "").await;
    assert_eq!((deleted.status, deleted.body.len()), (StatusCode::NO_CONTENT, 0));
    world.call("DELETE", &path, "").await.problem(404);
    world.call_as(text, "GET", "/v1/urls", "").await.problem(401);
}

#[tokio::test]
async fn the_key_is_not_stored_and_neither_key_nor_hash_is_printed() {
    let world = World::new();
    let new = NewKey { tenant: None, role: Role::Operator, description: None, expires_at_real: None };
    let created = world.engine().create_key(new, me()).await.unwrap();
    let printed = format!("{:?}", created.record);
    assert!(!printed.contains(&created.text) && !printed.contains(&created.record.hash), "{printed}");
    let stored = String::from_utf8(Record::Key(created.record).encode()).unwrap();
    assert!(!stored.contains(&created.text[3..]), "{stored}");
}

#[tokio::test]
async fn invalid_keys_are_rejected_by_field() {
    let world = World::new();
    for (body, fields) in [
        (json!({}), vec!["role"]),
        (json!({"role": "admin"}), vec!["tenant"]),
        (json!({"role": "ingest", "tenant": null}), vec!["tenant"]),
        (json!({"role": "root", "tenant": "a"}), vec!["role"]),
        (json!({"role": "Admin", "tenant": "a"}), vec!["role"]),
        (json!({"role": "admin", "tenant": ""}), vec!["tenant"]),
        (json!({"role": "admin", "tenant": "a#b"}), vec!["tenant"]),
        (json!({"role": "admin", "tenant": "-a"}), vec!["tenant"]),
        (json!({"role": "operator", "tenant": "A"}), vec!["tenant"]),
        (json!({"role": "admin", "tenant": "x".repeat(65)}), vec!["tenant"]),
        (json!({"role": "admin", "tenant": 7}), vec!["tenant"]),
        (json!({"role": "operator", "description": "d".repeat(1_025)}), vec!["description"]),
        (json!({"role": "operator", "expires_at": "tomorrow"}), vec!["expires_at"]),
        (json!({"role": "operator", "expires_at": 7}), vec!["expires_at"]),
        (json!({"role": "operator", "expires_at": "2026-01-01T00:00:00Z"}), vec!["expires_at"]),
        (json!({"role": "operator", "key": "hf_mine"}), vec!["key"]),
        (json!({"tenant": "#", "expires_at": 1, "x": 1}), vec!["role", "tenant", "expires_at", "x"]),
    ] {
        let answer = world.post("/v1/keys", body.to_string()).await;
        assert_eq!(answer.problem(400), fields, "{body}");
    }
    let body = json!({"role": "admin", "tenant": "a"}).to_string();
    world.post("/v1/keys", body.clone()).await.expect(StatusCode::CREATED);
    assert_eq!(world.post("/v1/keys?tenant=a", body).await.problem(400), ["tenant"]);
    world.call("DELETE", "/v1/keys/x", "").await.problem(404);
    world.call("DELETE", &format!("/v1/keys/key_{}", "a".repeat(26)), "").await.problem(404);
}

#[tokio::test]
async fn a_key_expires_in_real_time() {
    let world = World::new();
    let body = json!({"tenant": "a", "role": "admin", "expires_at": "2026-01-01T00:00:10Z"});
    let created = world.post("/v1/keys", body.to_string()).await.expect(StatusCode::CREATED);
    let key = created["key"].as_str().unwrap();
    world.clock.advance(Duration::from_millis(9_999));
    world.call_as(key, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    world.clock.advance(Duration::from_millis(1));
    let answer = world.call_as(key, "GET", "/v1/urls", "").await;
    answer.problem(401);
    assert_eq!(answer.header("www-authenticate"), "Bearer");
    let listed = world.get("/v1/keys?tenant=a").await.expect(StatusCode::OK);
    assert_eq!(listed["items"][0]["expires_at"], "2026-01-01T00:00:10.000Z", "listed until it is deleted");
}

#[tokio::test]
async fn keys_are_listed_in_pages_and_by_tenant() {
    let world = World::new();
    for n in 0..7 {
        world.key(if n % 3 == 0 { "a" } else { "b" }, "ingest").await;
    }
    for (query, count) in [("", 8), ("tenant=a&", 3), ("tenant=b&", 4), ("tenant=default&", 1)] {
        let whole = world.get(&format!("/v1/keys?{query}limit=100")).await.expect(StatusCode::OK);
        assert_eq!(whole["items"].as_array().unwrap().len(), count, "{query}");
        for limit in [1, 2, 3] {
            let (mut items, mut cursor) = (Vec::new(), String::new());
            loop {
                let path = format!("/v1/keys?{query}limit={limit}{cursor}");
                let page = world.get(&path).await.expect(StatusCode::OK);
                items.extend(page["items"].as_array().unwrap().clone());
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(Value::from(items), whole["items"], "{query} {limit}");
        }
    }
    world.get("/v1/keys?tenant=unknown").await.problem(404);
    assert_eq!(world.get("/v1/keys?role=admin").await.problem(400), ["role"]);
}

#[tokio::test]
async fn built_in_keys_cannot_be_deleted_and_the_answer_says_how_to_change_them() {
    let built_in = BuiltIn {
        name: "development",
        key: HashedKey::of(KEY),
        home: None,
        description: "The key of the test",
        change: "It is kept in a file.",
    };
    let world = World::with_keys(Keys::new(vec![built_in]));
    let answer = world.call("DELETE", "/v1/keys/development", "").await;
    answer.problem(409);
    assert_eq!(answer.detail(), "Not deleted: this key is built in. It is kept in a file.");
    // With a built-in key, every stored one can be deleted.
    let operator = world.key("", "operator").await;
    let listed = world.get("/v1/keys").await.expect(StatusCode::OK);
    let id = listed["items"][1]["id"].as_str().unwrap();
    let itself = world.call_as(&operator, "DELETE", &format!("/v1/keys/{id}"), "").await;
    assert_eq!(itself.status, StatusCode::NO_CONTENT, "a key can delete itself");
    world.call_as(&operator, "GET", "/v1/keys", "").await.problem(401);
}

/// An operator key and its id.
async fn operator(world: &World, expires_after: Option<Duration>) -> (String, String) {
    let now_real = world.engine().clock().now_real();
    let new = NewKey {
        tenant: None,
        role: Role::Operator,
        description: None,
        expires_at_real: expires_after.map(|after| now_real + after),
    };
    let created = world.engine().create_key(new, me()).await.unwrap();
    (created.text, created.record.id.0)
}

#[tokio::test]
async fn the_last_operator_key_cannot_be_deleted() {
    let world = World::with_keys(Keys::new(Vec::new()));
    let (first, first_id) = operator(&world, None).await;
    let (_, expired_id) = operator(&world, Some(Duration::from_secs(60))).await;
    let (_, long_expired_id) = operator(&world, Some(Duration::from_secs(30))).await;
    world.clock.advance(Duration::from_secs(60));
    let delete =
        async |id: &str| world.call_as(&first, "DELETE", &format!("/v1/keys/{id}"), Body::empty()).await;
    let answer = delete(&first_id).await;
    answer.problem(409);
    assert_eq!(answer.detail(), "Not deleted: this is the last operator key; create another one first.");
    for expired in [&expired_id, &long_expired_id] {
        assert_eq!(delete(expired).await.status, StatusCode::NO_CONTENT, "expired keys do not count");
    }
    operator(&world, None).await;
    assert_eq!(delete(&first_id).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn concurrent_deletes_leave_one_operator_key() {
    let world = World::new().another_process_with_pauses(Keys::new(Vec::new()));
    for _ in 0..20 {
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(holdfast_core::ids::KeyId(operator(&world, None).await.1));
        }
        let deletes = ids.iter().map(|id| world.engine().delete_key(id, None, false, me()));
        let results = join_all(deletes).await;
        let refused = results.iter().filter(|r| matches!(r, Err(DeleteKeyError::LastOperator))).count();
        let deleted = results.iter().filter(|r| r.is_ok()).count();
        assert_eq!((deleted, refused), (4, 1), "{results:?}");
        let last = world.engine().list_keys(None, None, 100).await.unwrap().items;
        assert_eq!(last.len(), 1);
        world.engine().delete_key(&last[0].id, None, true, me()).await.unwrap();
    }
}
