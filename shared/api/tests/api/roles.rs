//! The permissions of each role.

use axum::http::StatusCode;

use crate::world::World;

const EVENT: &str = r#"{"type":"a","data":1}"#;

#[tokio::test]
async fn an_ingest_key_only_posts_events() {
    let world = World::new();
    let key = world.key("a", "ingest").await;
    for path in ["/v1/events", "/v1/events?tenant=a"] {
        world.call_as(&key, "POST", path, EVENT).await.expect(StatusCode::ACCEPTED);
    }
    for (method, path) in [
        ("GET", "/v1/events/x"),
        ("GET", "/v1/subscriptions"),
        ("POST", "/v1/subscriptions"),
        ("GET", "/v1/subscriptions/x"),
        ("DELETE", "/v1/subscriptions/x"),
        ("GET", "/v1/urls?limit=wrong"),
        ("GET", "/v1/urls/x"),
        ("POST", "/v1/urls/x/enable"),
        ("GET", "/v1/deliveries"),
        ("GET", "/v1/deliveries/x"),
        ("POST", "/v1/deliveries/x/replay"),
    ] {
        let answer = world.call_as(&key, method, path, "{}").await;
        answer.problem(403);
        let or_viewer = if method == "GET" { "viewer, " } else { "" };
        let expected =
            format!("This key has the role ingest; use a key with the role {or_viewer}admin or operator.");
        assert_eq!(answer.detail(), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn only_operators_manage_keys() {
    let world = World::new();
    for role in ["ingest", "viewer", "admin"] {
        let key = world.key("a", role).await;
        for (method, path) in [("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")] {
            let answer = world.call_as(&key, method, path, "{}").await;
            answer.problem(403);
            let expected = format!("This key has the role {role}; use a key with the role operator.");
            assert_eq!(answer.detail(), expected);
        }
    }
    let operator = world.key("", "operator").await;
    world.call_as(&operator, "GET", "/v1/keys", "").await.expect(StatusCode::OK);
}

#[tokio::test]
async fn an_admin_key_manages_its_tenant() {
    let world = World::new();
    let key = world.key("a", "admin").await;
    let new = r#"{"url":"https://receiver.example/","event_types":["*"]}"#;
    let made = world.call_as(&key, "POST", "/v1/subscriptions", new).await.expect(StatusCode::CREATED);
    world.call_as(&key, "POST", "/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let url = format!("/v1/urls/{}", made["url_id"].as_str().unwrap());
    world.call_as(&key, "POST", &format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    let shown = world.call_as(&key, "GET", &url, "").await.expect(StatusCode::OK);
    let by = shown["history"][0]["by"].as_str().unwrap();
    let keys = world.get("/v1/keys?tenant=a").await.expect(StatusCode::OK);
    assert_eq!(keys["items"][0]["id"], by, "the history names the key");
    let listed = world.call_as(&key, "GET", "/v1/deliveries", "").await.expect(StatusCode::OK);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert!(listed["items"][0].get("tenant").is_none(), "{listed}");
}

#[tokio::test]
async fn a_viewer_key_reads_its_tenant_and_changes_nothing() {
    let world = World::new();
    let (admin, viewer) = (world.key("a", "admin").await, world.key("a", "viewer").await);
    let new = r#"{"url":"https://receiver.example/","event_types":["*"],"auth_token":"t0ken"}"#;
    let made = world.call_as(&admin, "POST", "/v1/subscriptions", new).await.expect(StatusCode::CREATED);
    let (id, url) = (made["id"].as_str().unwrap(), made["url_id"].as_str().unwrap());
    for path in [format!("/v1/subscriptions/{id}"), "/v1/subscriptions".to_owned(), format!("/v1/urls/{url}")]
    {
        let answer = world.call_as(&viewer, "GET", &path, "").await;
        let shown = answer.expect(StatusCode::OK).to_string();
        let secret = made["secret"].as_str().unwrap();
        assert!(!shown.contains(secret) && !shown.contains("t0ken"), "{shown}");
    }
    for (path, body) in [
        ("/v1/events".to_owned(), EVENT),
        (format!("/v1/subscriptions/{id}/ping"), ""),
        (format!("/v1/subscriptions/{id}/rotate-secret"), ""),
        (format!("/v1/urls/{url}/freeze"), ""),
    ] {
        world.call_as(&viewer, "POST", &path, body).await.problem(403);
    }
    world.call_as(&viewer, "GET", "/v1/keys", "").await.problem(403);
    world.call_as(&viewer, "GET", "/v1/urls?tenant=b", "").await.problem(403);
}
