//! Lists of URLs in trouble, and what is found by its URL.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

/// The paths of the URLs in a list, page by page.
async fn paths(world: &World, query: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/urls?{query}&limit={limit}{cursor}")).await.expect(StatusCode::OK);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        found.extend(
            items.iter().map(|url| url["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Five URLs: `fine`; `first` to `third`, which began to fail one after the other and last failed in another order, the second one so often
/// that it is disabled; and `held`, which a person froze.
async fn world_in_trouble() -> World {
    let world = World::new();
    let post = async |kind: &str, count: usize| {
        let one = json!({"type": kind, "data": 1});
        world.post("/v1/events", json!(vec![one; count]).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
        world.clock.advance(Duration::from_secs(1));
    };
    for path in ["fine", "first", "second", "third", "held"] {
        let body =
            json!({"url": format!("https://receiver.example/{path}"), "event_types": [format!("to.{path}")]});
        let created = world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
        if path == "held" {
            let url_id = created["url_id"].as_str().unwrap();
            world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
        } else if path != "fine" {
            world.receiver.respond_at(path, 500);
        }
    }
    post("to.fine", 12).await;
    post("to.first", 12).await;
    post("to.second", 100).await;
    post("to.third", 12).await;
    post("to.second", 1).await;
    post("to.first", 1).await;
    world
}

#[tokio::test]
async fn urls_in_trouble_are_listed_in_the_order_of_their_trouble() {
    let world = world_in_trouble().await;
    for limit in [1, 2, 100] {
        let list = async |query: &str| paths(&world, query, limit).await;
        assert_eq!(list("failing=true").await, ["first", "second", "third"]);
        assert_eq!(list("failing=true&sort=failing_since&order=desc").await, ["third", "second", "first"]);
        assert_eq!(list("failing=true&sort=last_failure_at").await, ["third", "second", "first"]);
        assert_eq!(list("failing=true&sort=last_failure_at&order=desc").await, ["first", "second", "third"]);
        assert_eq!(list("state=disabled").await, ["second"]);
        assert_eq!(list("state=frozen").await, ["held"]);
    }
}

#[tokio::test]
async fn a_url_that_recovers_leaves_the_list() {
    let world = world_in_trouble().await;
    world.receiver.respond_at("first", 200);
    world.post("/v1/events", r#"{"type":"to.first","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    assert_eq!(paths(&world, "failing=true", 10).await, ["second", "third"]);
}

#[tokio::test]
async fn a_url_is_found_by_itself_and_by_its_beginning() {
    let world = world_in_trouble().await;
    let found = async |url: &str| {
        let mut found = paths(&world, &format!("url={url}"), 2).await;
        found.sort();
        found
    };
    assert_eq!(found("HTTPS://Receiver.example:443/first%23part").await, ["first"]);
    assert_eq!(found("https://receiver.example/fi*").await, ["fine", "first"]);
    assert_eq!(found("https://RECEIVER.exa*").await.len(), 5);
    assert_eq!(found("https://receiver.example/").await, [""; 0]);
    assert_eq!(found("https://other.example/*").await, [""; 0]);
    let malformed = world.get("/v1/urls?url=receiver.example/first").await;
    assert_eq!(malformed.problem(400), ["url"]);
}

#[tokio::test]
async fn subscriptions_and_deliveries_are_found_by_their_url() {
    let world = world_in_trouble().await;
    let body = json!({"url": "https://receiver.example/first", "event_types": ["other"]});
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    let list = async |query: &str| world.get(query).await.expect(StatusCode::OK)["items"].clone();
    let urls = async |query: &str| -> Vec<Value> {
        list(query).await.as_array().unwrap().iter().map(|item| item["url"].clone()).collect()
    };
    let first = "https://receiver.example/first";
    assert_eq!(urls(&format!("/v1/subscriptions?url={first}")).await, [first, first]);
    let id = list(&format!("/v1/urls?url={first}")).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(urls(&format!("/v1/subscriptions?url={id}&limit=1")).await, [first]);
    assert_eq!(urls("/v1/subscriptions?url=https://receiver.example/none").await, [""; 0]);
    assert_eq!(urls("/v1/subscriptions?url=url_unknown").await, [""; 0]);
    let by_url = list(&format!("/v1/deliveries?url={first}&state=waiting&limit=100")).await;
    assert_eq!(by_url.as_array().unwrap().len(), 13);
    assert_eq!(by_url, list(&format!("/v1/deliveries?url={id}&state=waiting&limit=100")).await);
    assert_eq!(world.get("/v1/deliveries?url=ftp://a").await.problem(400), ["url"]);
    assert_eq!(world.get("/v1/subscriptions?url=https://").await.problem(400), ["url"]);
}

#[tokio::test]
async fn filters_without_an_index_say_which_to_leave_out() {
    let world = World::new();
    for (query, field) in [
        ("failing=true&state=frozen", "state"),
        ("failing=true&url=https://a.example/", "failing"),
        ("state=frozen&url=https://a.example/", "state"),
        ("sort=failing_since", "sort"),
        ("order=desc", "order"),
        ("failing=false", "failing"),
        ("failing=true&sort=streak", "sort"),
    ] {
        assert_eq!(world.get(&format!("/v1/urls?{query}")).await.problem(400), [field], "{query}");
    }
}
