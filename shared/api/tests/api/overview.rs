//! The overview: activity by the minute, and the current counts.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use futures_util::FutureExt;
use holdfast_core::engine::{Engine, Ports, Settings};
use holdfast_core::ids::EventKey;
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, Clock, FailureKind, Receipt, Received, Sender,
    Settlement, Store,
};
use holdfast_core::records::{DeliveryRecord, DeliveryTicket, Message, Record};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_sim::Puts;
use serde_json::{Value, json};

use crate::world::World;

/// The engine of another machine with the same store and queues.
pub(crate) fn another_engine(world: &World, seed: u64, sender: Arc<dyn Sender>) -> Engine {
    Engine::new(Ports { sender, ..world.ports(seed) }, Settings::default())
}

/// Takes one of these times, in ms, for each request, the last one first.
pub(crate) struct Timed(pub(crate) Mutex<Vec<u64>>);

#[async_trait]
impl Sender for Timed {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let ms = self.0.lock().unwrap().pop().unwrap();
        let response = match ms {
            0..5_000 => AttemptResponse::Status { status: 204, excerpt: String::new(), retry_after: None },
            _ => AttemptResponse::Failed {
                kind: FailureKind::Timeout,
                detail: "no answer".to_owned(),
                is_silent: true,
            },
        };
        Ok(AttemptResult { response, took: Duration::from_millis(ms) })
    }
}

/// Never responds.
struct Silent;

#[async_trait]
impl Sender for Silent {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        std::future::pending().await
    }
}

pub(crate) async fn post(world: &World, ids: &[&str]) {
    for id in ids {
        let event = json!({"id": id, "type": "order.created", "data": 1});
        world.post("/v1/events", event.to_string()).await.expect(StatusCode::ACCEPTED);
    }
}

async fn overview(world: &World, query: &str) -> Value {
    world.engine.flush_activity(true).await;
    world.get(&format!("/v1/overview{query}")).await.expect(StatusCode::OK)
}

pub(crate) fn deliveries(world: &World) -> Vec<DeliveryRecord> {
    let records = world.store.all().into_iter().filter_map(|record| match record {
        Record::Delivery(record) => Some(record),
        _ => None,
    });
    records.collect()
}

fn ticket(record: &DeliveryRecord) -> Vec<Received> {
    let (key, url_id) = (record.key.clone(), record.url_id.clone());
    let number = record.progress.number();
    let message =
        Message::Delivery(DeliveryTicket { key, url_id, epoch: number.epoch, n: number.n, links: 0 });
    vec![Received {
        message: Ok(message),
        receipt: Receipt(String::new()),
        receive_count: 1,
        body_is_stored: false,
    }]
}

#[tokio::test]
async fn the_overview_is_empty_at_first() {
    let world = World::new();
    let minute = |minute: &str| {
        json!({"minute": format!("2026-01-01T00:{minute}:00.000Z"), "events": 0,
               "attempts": {"success": 0, "failure": 0, "interrupted": 0}, "latency_ms": null})
    };
    world.clock.advance(Duration::from_secs(150));
    let none = json!({"count": 0, "more": false});
    let expected = json!({
        "at": "2026-01-01T00:02:30.000Z",
        "totals": {"events": 0, "attempts": {"success": 0, "failure": 0, "interrupted": 0}},
        "latency_ms": null, "waiting": none, "parked": none, "dead": none,
        "urls": {"enabled": 0, "disabled": 0, "frozen": 0, "more": false},
        "tenants": {"count": 1, "more": false},
        "minutes": [minute("01"), minute("02")],
    });
    assert_eq!(overview(&world, "?minutes=2").await, expected);
    assert_eq!(overview(&world, "").await["minutes"].as_array().unwrap().len(), 60);
    assert_eq!(overview(&world, "?minutes=1440").await["minutes"].as_array().unwrap().len(), 1_440);
    for bad in ["minutes=0", "minutes=1441", "minutes=x", "minutes=-1", "limit=5", "cursor=x"] {
        let answer = world.get(&format!("/v1/overview?{bad}")).await;
        assert_eq!(answer.problem(400), [bad.split('=').next().unwrap()], "{bad}");
    }
}

#[tokio::test]
async fn events_and_attempts_are_counted_in_their_minute() {
    let world = World::new();
    world.subscribe("a").await;
    world.subscribe("b").await;
    post(&world, &["x", "y"]).await;
    // A duplicate is not counted.
    post(&world, &["x"]).await;
    world.work().await;
    world.engine.flush_activity(false).await;
    world.clock.advance(Duration::from_secs(60));
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, &["z"]).await;
    world.work().await;
    // Retries of z, in the minute after.
    world.clock.advance(Duration::from_secs(85));
    world.work().await;
    let shown = overview(&world, "?minutes=4").await;
    let row = |minute: &Value| {
        let attempts = &minute["attempts"];
        let numbers =
            [&minute["events"], &attempts["success"], &attempts["failure"], &attempts["interrupted"]];
        numbers.map(|number| number.as_u64().unwrap())
    };
    let minutes = shown["minutes"].as_array().unwrap();
    let rows: Vec<_> = minutes.iter().map(row).collect();
    assert_eq!(rows, [[0, 0, 0, 0], [2, 4, 0, 0], [1, 0, 2, 0], [0, 0, 2, 0]]);
    assert_eq!(row(&shown["totals"]), [3, 4, 4, 0]);
    // Estimated between 2 and 3 ms, which is as exact as it gets.
    assert_eq!(minutes[1]["latency_ms"], json!({"average": 3, "p50": 2, "p95": 3, "max": 3}));
    assert_eq!(shown["waiting"], json!({"count": 2, "more": false}));
    // Writing it again changes nothing; fewer minutes have smaller totals.
    assert_eq!(overview(&world, "?minutes=4").await, shown);
    assert_eq!(row(&overview(&world, "?minutes=1").await["totals"]), [0, 0, 2, 0]);
}

#[tokio::test]
async fn an_interrupted_attempt_is_counted_without_a_latency() {
    let world = World::new();
    world.subscribe("a").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, &["x"]).await;
    world.work().await;
    world.clock.advance(Duration::from_secs(90));
    let silent = another_engine(&world, 1, Arc::new(Silent));
    for _ in 0..2 {
        let record = deliveries(&world).remove(0);
        assert!(silent.handle(ticket(&record), Timestamp::MAX).now_or_never().is_none());
        world.clock.advance(Duration::from_secs(31));
    }
    let record = deliveries(&world).remove(0);
    assert_eq!(world.engine.handle(ticket(&record), Timestamp::MAX).await, [Settlement::Delete]);
    let shown = overview(&world, "?minutes=3").await;
    assert_eq!(shown["totals"]["attempts"], json!({"success": 0, "failure": 1, "interrupted": 1}));
    assert_eq!(shown["minutes"][2]["latency_ms"], Value::Null);
    world.clock.advance(Duration::from_secs(3));
    let feed = world.get("/v1/attempts").await.expect(StatusCode::OK);
    let last = feed["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["outcome"], &last["n"], &last["status"]),
        (&json!("interrupted"), &json!(1), &Value::Null)
    );
}

#[tokio::test]
async fn latency_covers_all_engines() {
    let world = World::new();
    world.subscribe("a").await;
    // 100 attempts: 1 ms to 99 ms on one engine, and one that did not answer on another.
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    post(&world, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let engines = [
        another_engine(&world, 1, Arc::new(Timed(Mutex::new((1..=99).collect())))),
        another_engine(&world, 2, Arc::new(Timed(Mutex::new(vec![5_000])))),
    ];
    let batch = world.receive(100).await;
    let mut batch = batch.into_iter();
    for (engine, size) in engines.iter().zip([99, 1]) {
        engine.handle(batch.by_ref().take(size).collect(), Timestamp::MAX).await;
        engine.flush_activity(false).await;
    }
    let shown = overview(&world, "").await;
    assert_eq!(shown["totals"]["attempts"], json!({"success": 99, "failure": 1, "interrupted": 0}));
    let latency = &shown["latency_ms"];
    assert_eq!((&latency["average"], &latency["max"]), (&json!(99), &json!(5_000)));
    // The exact values are 50 and 95; the histogram knows the power of two.
    assert!((32..64).contains(&latency["p50"].as_u64().unwrap()), "{latency}");
    assert!((64..128).contains(&latency["p95"].as_u64().unwrap()), "{latency}");
}

#[tokio::test]
async fn waiting_parked_and_dead_deliveries_are_counted() {
    let world = World::new();
    let held = world.subscribe("held").await["url_id"].as_str().unwrap().to_owned();
    let failing = world.subscribe("failing").await["url_id"].as_str().unwrap().to_owned();
    // A second subscription with the same URL does not add a URL.
    let again = json!({"url": "https://receiver.example/failing", "event_types": ["never"]});
    world.post("/v1/subscriptions", again.to_string()).await.expect(StatusCode::CREATED);
    world.subscribe("third").await;
    world.post(&format!("/v1/urls/{held}/freeze"), "").await.expect(StatusCode::OK);
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, &["x"]).await;
    world.work().await;
    let states = async || {
        let shown = overview(&world, "?minutes=1").await;
        ["waiting", "parked", "dead"].map(|state| shown[state]["count"].as_u64().unwrap())
    };
    assert_eq!(states().await, [2, 1, 0]);
    world.post(&format!("/v1/urls/{failing}/disable"), "").await.expect(StatusCode::OK);
    let shown = overview(&world, "?minutes=1").await;
    assert_eq!(shown["urls"], json!({"enabled": 1, "disabled": 1, "frozen": 1, "more": false}));
    // They are expired, although no record was written.
    world.clock.advance(Duration::from_secs(53 * 3600));
    post(&world, &["y"]).await;
    assert_eq!(states().await, [0, 0, 3]);
    // At the disabled URL the first that is due is the probe.
    world.work().await;
    assert_eq!(states().await, [2, 1, 3]);
    world.engine.sweep().await.unwrap();
    world.work().await;
    assert_eq!(states().await, [2, 1, 3], "now their records say so");
    let ended =
        deliveries(&world).iter().filter(|record| record.progress.state == DeliveryState::Dead).count();
    assert_eq!(ended, 3);
    for url in [&held, &failing] {
        world.post(&format!("/v1/urls/{url}/enable"), "").await.expect(StatusCode::OK);
    }
    let shown = overview(&world, "?minutes=1").await;
    assert_eq!(shown["urls"], json!({"enabled": 3, "disabled": 0, "frozen": 0, "more": false}));
}

#[tokio::test]
async fn counting_ends_at_a_thousand() {
    let world = World::new();
    world.subscribe("a").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, &["x"]).await;
    world.work().await;
    let one = deliveries(&world).remove(0);
    let others = |state, count: i64, age_h: i64| {
        let one = one.clone();
        (1..=count).map(move |n| {
            let mut record = one.clone();
            let age_ms = age_h * 3_600_000;
            record.accepted_at = Timestamp::from_millis(one.accepted_at.as_millis() - age_ms);
            record.progress.expires_at = Timestamp::from_millis(one.progress.expires_at.as_millis() - age_ms);
            record.key.event_key = EventKey::of(&format!("{state:?} {n}"), record.accepted_at);
            record.progress.state = state;
            Record::Delivery(record)
        })
    };
    world.store.put_each(others(DeliveryState::Waiting, 999, 0).collect()).await.unwrap();
    // These are expired, so they count as dead.
    world.store.put_each(others(DeliveryState::Parked, 600, 60).collect()).await.unwrap();
    world.store.put_each(others(DeliveryState::Dead, 500, 0).collect()).await.unwrap();
    let shown = overview(&world, "?minutes=1").await;
    assert_eq!(shown["waiting"], json!({"count": 1_000, "more": false}));
    assert_eq!(shown["parked"], json!({"count": 0, "more": false}));
    assert_eq!(shown["dead"], json!({"count": 1_000, "more": true}));
    world.store.put_each(others(DeliveryState::Waiting, 1_000, 0).collect()).await.unwrap();
    assert_eq!(overview(&world, "?minutes=1").await["waiting"], json!({"count": 1_000, "more": true}));
    assert_eq!(world.clock.now(), world.clock.now_real(), "both clocks run at the same speed here");
}

/// How many attempts the overview shows, without writing the counters first.
async fn attempts_shown(world: &World) -> u64 {
    let shown = world.get("/v1/overview?minutes=5").await.expect(StatusCode::OK);
    shown["totals"]["attempts"]["success"].as_u64().unwrap()
}

async fn summaries_shown(world: &World) -> (usize, u64) {
    world.clock.advance(Duration::from_secs(3));
    let feed = world.get("/v1/attempts?limit=100").await.expect(StatusCode::OK);
    (feed["items"].as_array().unwrap().len(), feed["left_out"].as_u64().unwrap())
}

async fn deliver(world: &World, events: usize, name: &str) {
    let ids: Vec<String> = (0..events).map(|n| format!("{name}{n}")).collect();
    post(world, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.work().await;
}

#[tokio::test]
async fn counters_are_written_about_once_a_second() {
    let world = World::new();
    world.subscribe("a").await;
    for n in 0..20 {
        deliver(&world, 1, &format!("{n}-")).await;
        world.engine.flush_activity(false).await;
    }
    assert_eq!(attempts_shown(&world).await, 5, "a few at once, and then no more within the second");
    world.clock.advance(Duration::from_secs(1));
    world.engine.flush_activity(false).await;
    assert_eq!(attempts_shown(&world).await, 20);
    assert_eq!(summaries_shown(&world).await, (20, 0));
}

#[tokio::test]
async fn counters_that_cannot_be_written_are_kept_up_to_a_limit() {
    let world = World::new();
    world.subscribe("a").await;
    for n in 0..3 {
        deliver(&world, 10, &format!("{n}-")).await;
        world.store.let_puts_be(Puts::Refused);
        world.engine.flush_activity(true).await;
        world.store.let_puts_be(Puts::Written);
    }
    assert_eq!(attempts_shown(&world).await, 0);
    world.engine.flush_activity(true).await;
    assert_eq!(attempts_shown(&world).await, 30);
    assert_eq!(summaries_shown(&world).await, (20, 10));
}

#[tokio::test]
async fn one_flush_runs_at_a_time_and_a_stuck_one_loses_only_summaries() {
    let world = World::new();
    world.subscribe("a").await;
    deliver(&world, 2, "first").await;
    world.store.let_puts_be(Puts::Stuck);
    {
        let mut stuck = std::pin::pin!(world.engine.flush_activity(true));
        assert!(stuck.as_mut().now_or_never().is_none());
        world.store.let_puts_be(Puts::Written);
        deliver(&world, 3, "second").await;
        assert!(
            world.engine.flush_activity(true).now_or_never().is_some(),
            "a flush does not wait for another"
        );
        assert_eq!(attempts_shown(&world).await, 0);
    }
    world.engine.flush_activity(true).await;
    assert_eq!(attempts_shown(&world).await, 5);
    assert_eq!(summaries_shown(&world).await, (3, 0));
}

#[tokio::test]
async fn activity_is_removed_after_its_retention() {
    let world = World::new();
    world.subscribe("a").await;
    deliver(&world, 1, "x").await;
    world.engine.flush_activity(true).await;
    let kept = |world: &World| {
        let all = world.store.all();
        let minutes = all.iter().filter(|record| matches!(record, Record::Minute(_))).count();
        (minutes, all.iter().filter(|record| matches!(record, Record::AttemptSummaries(_))).count())
    };
    for (hours, expected) in [(0, (1, 1)), (1, (1, 0)), (23, (1, 0)), (1, (0, 0))] {
        world.clock.advance(Duration::from_secs(hours * 3600 + 1));
        world.store.purge(world.clock.now());
        assert_eq!(kept(&world), expected);
    }
}
