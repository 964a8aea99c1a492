//! The feed of the latest attempts.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::engine::DeliveryLog;
use holdfast_core::ports::{Clock, Store};
use holdfast_core::records::{AttemptSummaries, Record};
use holdfast_core::time::Timestamp;
use holdfast_sim::SeededEntropy;
use serde_json::{Value, json};

use crate::overview::{Timed, another_engine, post};
use crate::world::World;

/// After this long, everything that was written is in the feed.
const SETTLED: Duration = Duration::from_secs(3);

async fn follow(world: &World, after: &str, query: &str) -> (Vec<Value>, String, u64) {
    let after = if after.is_empty() { String::new() } else { format!("after={after}&") };
    let feed = world.get(&format!("/v1/attempts?{after}{query}")).await.expect(StatusCode::OK);
    let next = feed["next"].as_str().unwrap().to_owned();
    (feed["items"].as_array().unwrap().clone(), next, feed["left_out"].as_u64().unwrap())
}

fn events(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["event_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_attempt_is_summarised() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    world.receiver.status.store(503, Ordering::Relaxed);
    post(&world, &["x"]).await;
    world.work().await;
    world.engine.flush_activity(false).await;
    let (items, next, _) = follow(&world, "", "").await;
    assert!(items.is_empty(), "its position may still change");
    world.clock.advance(SETTLED);
    let delivery = world.get("/v1/deliveries").await.expect(StatusCode::OK)["items"][0]["id"].clone();
    let expected = json!({
        "delivery_id": delivery, "event_id": "x", "type": "order.created",
        "subscription_id": subscription["id"], "url_id": subscription["url_id"], "epoch": 0, "n": 0,
        "at": "2026-01-01T00:00:00.000Z", "outcome": "failure", "status": 503,
        "error": "status: the receiver answered 503", "ms": 3,
    });
    // The same with a cursor from before and without one.
    for after in ["", &next] {
        let (items, next, left_out) = follow(&world, after, "").await;
        assert_eq!((items, left_out), (vec![expected.clone()], 0));
        assert!(follow(&world, &next, "").await.0.is_empty());
    }
}

#[tokio::test]
async fn the_latest_attempts_are_shown_oldest_first() {
    let world = World::new();
    world.subscribe("a").await;
    for id in ["a", "b", "c", "d", "e"] {
        post(&world, &[id]).await;
        world.work().await;
        world.engine.flush_activity(true).await;
        world.clock.advance(Duration::from_millis(200));
    }
    world.clock.advance(SETTLED);
    let (items, next, _) = follow(&world, "", "limit=3").await;
    assert_eq!(events(&items), ["c", "d", "e"]);
    let (items, same, _) = follow(&world, &next, "limit=3").await;
    assert_eq!((items.len(), &same), (0, &next));
    post(&world, &["f", "g"]).await;
    world.work().await;
    world.engine.flush_activity(true).await;
    world.clock.advance(SETTLED);
    // Both are in one record, and are shown one by one.
    let (items, next, _) = follow(&world, &next, "limit=1").await;
    assert_eq!(events(&items), ["f"]);
    let (items, next, _) = follow(&world, &next, "limit=1").await;
    assert_eq!(events(&items), ["g"]);
    assert!(follow(&world, &next, "limit=1").await.0.is_empty());
}

#[tokio::test]
async fn of_very_many_attempts_some_are_left_out_and_counted() {
    let world = World::new();
    world.subscribe("a").await;
    let ids: Vec<String> = (0..35).map(|n| format!("{n:02}")).collect();
    post(&world, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.work().await;
    world.engine.flush_activity(false).await;
    world.clock.advance(SETTLED);
    let (items, next, left_out) = follow(&world, "", "").await;
    assert_eq!((items.len(), left_out), (20, 15));
    assert_eq!(events(&items), ids[15..].iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(follow(&world, &next, "").await.2, 0);
    let all = world.get("/v1/overview").await.expect(StatusCode::OK);
    assert_eq!(all["totals"]["attempts"]["success"], 35, "all of them are counted");
}

#[tokio::test]
async fn a_cursor_of_the_feed_is_rejected_by_other_lists() {
    let world = World::new();
    world.subscribe("a").await;
    let (_, next, _) = follow(&world, "", "").await;
    assert_eq!(world.get(&format!("/v1/urls?cursor={next}")).await.problem(400), ["cursor"]);
    for bad in ["after=x", "limit=0", "limit=101", "cursor=x", "minutes=1", "after="] {
        let answer = world.get(&format!("/v1/attempts?{bad}")).await;
        assert_eq!(answer.problem(400), [bad.split('=').next().unwrap()], "{bad}");
    }
}

/// Stores a summary with an earlier time than those that were stored before it.
async fn write_late(world: &World, event_id: &str, at_real: Timestamp) {
    let record = world.store.all().into_iter().find_map(|record| match record {
        Record::AttemptSummaries(record) => Some(record),
        _ => None,
    });
    let record = record.unwrap();
    let mut summary = record.summaries[0].clone();
    summary.event_id = event_id.to_owned();
    let late = AttemptSummaries { at_real, engine: "late".into(), summaries: vec![summary], ..record };
    world.store.put_each(vec![Record::AttemptSummaries(late)]).await.unwrap();
}

#[tokio::test]
async fn a_summary_that_is_written_a_little_late_is_not_missed() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, &["x"]).await;
    world.work().await;
    world.engine.flush_activity(true).await;
    let (items, next, _) = follow(&world, "", "").await;
    assert!(items.is_empty());
    let written = world.clock.now_real();
    world.clock.advance(Duration::from_millis(1_900));
    let (items, next, _) = follow(&world, &next, "").await;
    assert!(items.is_empty());
    write_late(&world, "late", written - Duration::from_millis(50)).await;
    world.clock.advance(Duration::from_secs(1));
    let (items, _, _) = follow(&world, &next, "").await;
    let mut seen = events(&items);
    seen.sort_unstable();
    assert_eq!(seen, ["late", "x"]);
}

#[tokio::test]
async fn the_feed_of_several_engines_has_no_gaps_or_repeats() {
    for seed in 0..20 {
        let world = World::new();
        world.subscribe("a").await;
        let dice = SeededEntropy::new(seed);
        let engines: Vec<_> = (0..3)
            .map(|n| another_engine(&world, 100 + n, Arc::new(Timed(Mutex::new(vec![7; 500])))))
            .collect();
        let (mut posted, mut seen, mut next) = (0, Vec::new(), String::new());
        (_, next, _) = follow(&world, &next, "").await;
        for _ in 0..150 {
            let engine = &engines[dice.next_u64() as usize % engines.len()];
            match dice.next_u64() % 6 {
                0 | 1 => {
                    post(&world, &[&format!("{posted:03}")]).await;
                    posted += 1;
                }
                2 => {
                    let batch = world.receive(3).await;
                    engine.handle(batch, Timestamp::MAX).await;
                }
                3 => engine.flush_activity(false).await,
                4 => world.clock.advance(Duration::from_millis(dice.next_u64() % 900)),
                _ => {
                    let limit = 1 + dice.next_u64() % 4;
                    let (items, after, left_out) = follow(&world, &next, &format!("limit={limit}")).await;
                    assert!(items.len() as u64 <= limit);
                    assert_eq!(left_out, 0, "so few are never left out");
                    seen.extend(events(&items).into_iter().map(str::to_owned));
                    next = after;
                }
            }
        }
        for engine in &engines {
            engine.handle(world.receive(100).await, Timestamp::MAX).await;
            engine.flush_activity(true).await;
        }
        world.clock.advance(SETTLED);
        loop {
            let (items, after, _) = follow(&world, &next, "limit=10").await;
            if items.is_empty() {
                break;
            }
            seen.extend(events(&items).into_iter().map(str::to_owned));
            next = after;
        }
        seen.sort_unstable();
        let expected: Vec<String> = (0..posted).map(|n| format!("{n:03}")).collect();
        assert_eq!(seen, expected, "seed {seed}");
    }
}

#[tokio::test]
async fn the_cheapest_log_shows_only_failures() {
    let world = World::with(true, DeliveryLog::Trouble);
    world.subscribe("a").await;
    post(&world, &["good"]).await;
    world.work().await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, &["bad"]).await;
    world.work().await;
    world.engine.flush_activity(true).await;
    world.clock.advance(SETTLED);
    assert_eq!(events(&follow(&world, "", "").await.0), ["bad"]);
    let overview = world.get("/v1/overview").await.expect(StatusCode::OK);
    assert_eq!(overview["totals"]["attempts"], json!({"success": 1, "failure": 1, "interrupted": 0}));
}

#[tokio::test]
async fn a_feed_can_be_narrowed_to_a_url_an_outcome_or_a_delivery() {
    let world = World::new();
    let one = world.subscribe("a").await;
    world.subscribe("b").await;
    world.receiver.respond_at("b", 500);
    for _ in 0..3 {
        world.post("/v1/events", r#"{"type":"x","data":1}"#).await.json(202);
        world.work().await;
    }
    world.engine.flush_activity(false).await;
    world.clock.advance(Duration::from_secs(3));
    let list = async |query: &str| world.get(&format!("/v1/attempts?limit=100{query}")).await.json(200);
    let all = list("").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 6);
    let outcomes = |page: &Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|item| item["outcome"].clone()).collect()
    };
    assert_eq!(outcomes(&list("&outcome=failure").await), ["failure"; 3]);
    assert_eq!(outcomes(&list("&url=https://receiver.example/a").await), ["success"; 3]);
    let url_id = one["url_id"].as_str().unwrap();
    assert_eq!(outcomes(&list(&format!("&url={url_id}&outcome=failure")).await), [""; 0]);
    let delivery = all["items"][0]["delivery_id"].as_str().unwrap();
    assert_eq!(list(&format!("&delivery={delivery}")).await["items"].as_array().unwrap().len(), 1);
    let narrowed = world.get(&format!("/v1/attempts?limit=2&url={url_id}")).await.json(200);
    let next = narrowed["next"].as_str().unwrap();
    assert_eq!(narrowed["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.get(&format!("/v1/attempts?limit=2&after={next}")).await.problem(400), ["after"]);
    assert_eq!(world.get("/v1/attempts?outcome=lost").await.problem(400), ["outcome"]);
}
