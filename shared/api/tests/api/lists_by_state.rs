//! Lists filtered by state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;

use crate::overview::post;
use crate::world::World;

/// The items of all pages of a list.
async fn pages(world: &World, path: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{path}&limit={limit}{cursor}")).await.expect(StatusCode::OK);
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// Deliveries in all states, some of them expired without a record that says so.
async fn mixed() -> World {
    let world = World::new();
    let held = world.subscribe("held").await["url_id"].as_str().unwrap().to_owned();
    let gone = world.subscribe("gone").await["id"].as_str().unwrap().to_owned();
    world.subscribe("failing").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    world.post(&format!("/v1/urls/{held}/freeze"), "").await.expect(StatusCode::OK);
    post(&world, &["old-1", "old-2", "old-3"]).await;
    world.work().await;
    world.call("DELETE", &format!("/v1/subscriptions/{gone}"), "").await;
    world.work().await;
    world.clock.advance(Duration::from_secs(53 * 3600));
    for id in ["new-1", "new-2", "new-3", "new-4"] {
        post(&world, &[id]).await;
        world.clock.advance(Duration::from_secs(1));
    }
    let batch = world.receive(100).await;
    world.engine.handle(batch, holdfast_core::time::Timestamp::MAX).await;
    world
}

#[tokio::test]
async fn a_list_by_state_equals_the_filtered_full_list() {
    let world = mixed().await;
    let all = pages(&world, "/v1/deliveries?since=2020-01-01T00:00:00Z", 100).await;
    let mut by_state: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for delivery in &all {
        by_state.entry(delivery["state"].as_str().unwrap()).or_default().push(delivery.clone());
    }
    let counts: BTreeMap<&str, usize> = by_state.iter().map(|(state, all)| (*state, all.len())).collect();
    // Three of each subscription are dead: unsubscribed, or expired while waiting or parked.
    assert_eq!(counts, BTreeMap::from([("waiting", 4), ("parked", 4), ("dead", 9)]));
    for (state, expected) in &by_state {
        for limit in [1, 2, 5, 100] {
            let listed = pages(&world, &format!("/v1/deliveries?state={state}"), limit).await;
            assert_eq!(listed, *expected, "{state} by {limit}");
        }
    }
    for (bounds, count) in [("since=2026-01-02T00:00:00Z", 0), ("until=2026-01-02T00:00:00Z", 9)] {
        let listed = pages(&world, &format!("/v1/deliveries?state=dead&{bounds}"), 4).await;
        assert_eq!(listed.len(), count, "{bounds}");
    }
}

#[tokio::test]
async fn a_list_of_a_subscription_has_what_is_alive_and_what_is_over() {
    let world = mixed().await;
    world.receiver.status.store(200, Ordering::Relaxed);
    post(&world, &["later-1", "later-2"]).await;
    world.work().await;
    let all = pages(&world, "/v1/deliveries?since=2020-01-01T00:00:00Z", 100).await;
    let mut by_subscription: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for delivery in &all {
        by_subscription.entry(delivery["subscription_id"].as_str().unwrap()).or_default().push(delivery);
    }
    assert_eq!(by_subscription.len(), 3);
    let mut states = BTreeSet::new();
    for (subscription, expected) in by_subscription {
        let path = format!("/v1/deliveries?subscription={subscription}");
        for limit in [1, 2, 5, 100] {
            assert_eq!(pages(&world, &path, limit).await.iter().collect::<Vec<_>>(), expected, "by {limit}");
        }
        for state in ["waiting", "parked", "delivered", "dead"] {
            let expected: Vec<&Value> =
                expected.iter().copied().filter(|delivery| delivery["state"] == state).collect();
            let listed = pages(&world, &format!("{path}&state={state}"), 2).await;
            assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{state}");
            states.extend(expected.first().map(|_| state));
        }
    }
    assert_eq!(states.len(), 4, "there are deliveries in every state");
}

#[tokio::test]
async fn a_list_by_state_continues_while_deliveries_leave_the_state() {
    let world = mixed().await;
    let first = world.get("/v1/deliveries?state=waiting&limit=2").await.expect(StatusCode::OK);
    // Listed deliveries are delivered before the next page is read.
    world.receiver.status.store(200, Ordering::Relaxed);
    let rest = pages(&world, "/v1/deliveries?state=waiting", 100).await;
    let cursor = first["next"].as_str().unwrap();
    world.clock.advance(Duration::from_secs(200));
    post(&world, &["newer"]).await;
    let next = world.get(&format!("/v1/deliveries?state=waiting&limit=2&cursor={cursor}")).await;
    let next = next.expect(StatusCode::OK);
    assert_eq!(next["items"].as_array().unwrap()[..], rest[2..4]);
}

#[tokio::test]
async fn urls_are_listed_by_state_in_pages() {
    let world = World::new();
    for n in 0..7 {
        let url = world.subscribe(&n.to_string()).await["url_id"].as_str().unwrap().to_owned();
        let action = ["freeze", "disable"][n % 2];
        world.post(&format!("/v1/urls/{url}/{action}"), "").await.expect(StatusCode::OK);
    }
    world.subscribe("fine").await;
    let all = pages(&world, "/v1/urls?", 100).await;
    for (state, count) in [("frozen", 4), ("disabled", 3), ("enabled", 1)] {
        let expected: Vec<Value> = all.iter().filter(|url| url["state"] == state).cloned().collect();
        assert_eq!(expected.len(), count);
        for limit in [1, 2, 100] {
            assert_eq!(pages(&world, &format!("/v1/urls?state={state}"), limit).await, expected);
        }
    }
}
