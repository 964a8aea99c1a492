//! Lists of events: by time, by subject and by type.

use std::time::Duration;

use holdfast_api::{BuiltIn, Keys};
use holdfast_core::engine::DeliveryLog;
use holdfast_core::ports::Clock;
use serde_json::{Value, json};

use crate::world::{KEY, World};

async fn post(world: &World, id: &str, event_type: &str, subject: Option<&str>) {
    let event = json!({"id": id, "type": event_type, "subject": subject, "data": 1}).to_string();
    world.post("/v1/events", event).await.json(202);
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// One event an hour, from midnight on.
async fn history() -> World {
    let world = World::new();
    let events = [
        ("a", "order.created", Some("orders/1")),
        ("b", "order.paid", Some("orders/1")),
        ("c", "order.created", None),
        ("d", "order.created", Some("orders/2")),
        ("e", "order.paid", Some("orders/1")),
    ];
    for (id, event_type, subject) in events {
        post(&world, id, event_type, subject).await;
        world.clock.advance(Duration::from_secs(3_600));
    }
    world
}

#[tokio::test]
async fn an_event_is_listed_as_soon_as_it_is_accepted() {
    let world = World::new();
    let subscription = json!({"url": "https://receiver.example/a", "event_types": ["order"]}).to_string();
    world.post("/v1/subscriptions", subscription).await.json(201);
    let event = json!({"id": "one", "type": "order", "subject": "orders/1", "data": 1}).to_string();
    world.post("/v1/events", event).await.json(202);
    world.clock.advance(Duration::from_secs(1));
    let generated = world.post("/v1/events", r#"{"type": "nobody.wants", "data": 1}"#).await.json(202);
    let page = world.get("/v1/events").await.json(200);
    let expected = json!([
        {"id": generated["id"], "type": "nobody.wants", "subject": null,
         "accepted_at": "2026-01-01T00:00:01.000Z", "deliveries": 0},
        {"id": "one", "type": "order", "subject": "orders/1",
         "accepted_at": "2026-01-01T00:00:00.000Z", "deliveries": 1},
    ]);
    assert_eq!((&page["items"], &page["next"]), (&expected, &Value::Null));
}

#[tokio::test]
async fn filters_choose_events() {
    let world = history().await;
    let (since, until) = ("since=2026-01-01T01:00:00Z", "until=2026-01-01T04:00:00Z");
    for (query, expected) in [
        (String::new(), &["e", "d", "c", "b", "a"][..]),
        (since.to_owned(), &["e", "d", "c", "b"]),
        (format!("{since}&{until}"), &["d", "c", "b"]),
        ("type=order.paid".to_owned(), &["e", "b"]),
        (format!("type=order.created&{since}"), &["d", "c"]),
        ("subject=orders/1".to_owned(), &["e", "b", "a"]),
        (format!("subject=orders/1&{since}"), &["e", "b"]),
        (format!("subject=orders/1&{since}&{until}"), &["b"]),
        ("subject=orders/1&type=order.created".to_owned(), &["a"]),
        ("subject=orders".to_owned(), &[]),
        ("type=order".to_owned(), &[]),
    ] {
        let page = world.get(&format!("/v1/events?{query}")).await.json(200);
        assert_eq!((ids(&page), &page["next"]), (expected.to_vec(), &Value::Null), "{query}");
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = world.get(&format!("/v1/events?limit=1&{query}{cursor}")).await.json(200);
            found.extend(ids(&page).into_iter().map(ToOwned::to_owned));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, expected, "{query}, one at a time");
    }
    assert_eq!(world.get("/v1/events?type=a..b").await.problem(400), ["type"]);
    assert_eq!(world.get("/v1/events?subjects=a").await.problem(400), ["subjects"]);
}

#[tokio::test]
async fn a_rare_type_is_searched_for_in_a_thousand_events_at_a_time() {
    let world = World::new();
    post(&world, "rare", "rare", None).await;
    for n in 0..15 {
        world.clock.advance(Duration::from_secs(1));
        let event = |k| json!({"id": format!("{n}-{k}"), "type": "frequent", "data": 1});
        let events: Vec<Value> = (0..100).map(event).collect();
        world.post("/v1/events", json!(events).to_string()).await.json(202);
    }
    let first = world.get("/v1/events?type=rare&limit=100").await.json(200);
    assert_eq!((ids(&first), &first["partial"]), (vec![], &json!(true)));
    let path = format!("/v1/events?type=rare&limit=100&cursor={}", first["next"].as_str().unwrap());
    assert_eq!(ids(&world.get(&path).await.json(200)), ["rare"]);
}

#[tokio::test]
async fn an_event_without_a_subject_has_no_entry_for_one() {
    let world = World::new();
    post(&world, "with", "a", Some("s")).await;
    let entries = || {
        let all = world.store.all();
        all.iter().filter(|record| record.key().partition.starts_with("subject#")).count()
    };
    assert_eq!(entries(), 1);
    post(&world, "without", "a", None).await;
    assert_eq!(entries(), 1);
}

#[tokio::test]
async fn an_event_is_listed_as_long_as_it_is_kept() {
    let world = World::new();
    post(&world, "one", "a", Some("s")).await;
    for (days, count) in [(9, 1), (2, 0)] {
        world.clock.advance(Duration::from_secs(days * 86_400));
        world.store.purge(world.clock.now());
        for path in ["/v1/events", "/v1/events?subject=s"] {
            assert_eq!(ids(&world.get(path).await.json(200)).len(), count, "{path}");
        }
    }
}

#[tokio::test]
async fn an_event_that_is_being_accepted_is_not_listed() {
    let world = World::new();
    world.subscribe("a").await;
    world.queue.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let event = json!({"id": "one", "type": "a", "subject": "s", "data": 1}).to_string();
    world.post("/v1/events", event.clone()).await.problem(503);
    for path in ["/v1/events", "/v1/events?subject=s"] {
        assert_eq!(ids(&world.get(path).await.json(200)), [""; 0], "{path}");
    }
    world.queue.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    world.clock.advance(Duration::from_secs(600));
    world.post("/v1/events", event).await.json(202);
    for path in ["/v1/events", "/v1/events?subject=s"] {
        assert_eq!(ids(&world.get(path).await.json(200)), ["one"], "{path}");
    }
}

#[tokio::test]
async fn where_only_trouble_is_logged_only_given_ids_are_listed() {
    let world = World::with(true, DeliveryLog::Trouble);
    post(&world, "given", "a", Some("s")).await;
    world.post("/v1/events", r#"{"type": "a", "subject": "s", "data": 1}"#).await.json(202);
    for path in ["/v1/events", "/v1/events?subject=s"] {
        assert_eq!(ids(&world.get(path).await.json(200)), ["given"], "{path}");
    }
}

#[tokio::test]
async fn tenants_see_their_own_events_and_operators_all() {
    let keys = Keys::new(vec![BuiltIn::operator("secret", KEY, "The first key", "Change the secret.")]);
    let world = World::with_keys(keys);
    for tenant in ["beta", "alpha"] {
        let key = world.key(tenant, "admin").await;
        let event = json!({"id": format!("of-{tenant}"), "type": "a", "subject": "s", "data": 1}).to_string();
        world.call_as(&key, "POST", "/v1/events", event).await.json(202);
        for path in ["/v1/events", "/v1/events?subject=s"] {
            let own = world.call_as(&key, "GET", path, "").await.json(200);
            assert_eq!(ids(&own), [format!("of-{tenant}")]);
        }
    }
    for path in ["/v1/events", "/v1/events?subject=s"] {
        let all = world.get(path).await.json(200);
        assert_eq!(ids(&all), ["of-alpha", "of-beta"]);
        assert_eq!(all["items"][0]["tenant"], "alpha");
    }
}
