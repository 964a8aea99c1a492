//! Posting the same id more than once.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::{Clock, Expect, Store, Write};
use holdfast_core::records::{EventRecord, IdPhase, Record};
use serde_json::json;

use crate::world::{Hangs, World};

const EVENT: &str = r#"{"id":"x","type":"a","data":1}"#;

#[tokio::test]
async fn a_repeat_gets_the_same_answer_and_queues_nothing() {
    let world = World::new();
    world.subscribe("a").await;
    world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    let again = world.post("/v1/events", r#"{ "data":1, "type":"a", "id":"x" }"#).await;
    let expected = json!({"id": "x", "deliveries": 1, "duplicate": true});
    assert_eq!(again.expect(StatusCode::ACCEPTED), expected);
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 1);
}

#[tokio::test]
async fn the_same_id_for_another_event_is_a_conflict() {
    let world = World::new();
    world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    let answer = world.post("/v1/events", r#"{"id":"x","type":"a","data":2}"#).await;
    assert_eq!(answer.problem(409), ["id"]);
    assert!(answer.detail().contains(r#""x""#), "{}", answer.detail());
    let answer = world.post("/v1/events", r#"[{"type":"a","data":2},{"id":"x","type":"b","data":1}]"#).await;
    assert_eq!(answer.problem(409), ["[1].id"]);
    world.clock.advance(Duration::from_secs(24 * 3600));
    let answer = world.post("/v1/events", r#"{"id":"x","type":"a","data":2}"#).await;
    assert_eq!(answer.expect(StatusCode::ACCEPTED)["duplicate"], false, "an id is remembered for 24 h");
}

#[tokio::test]
async fn an_array_may_repeat_its_own_ids() {
    let world = World::new();
    world.subscribe("a").await;
    let answer = world.post("/v1/events", format!("[{EVENT},{EVENT}]")).await.expect(StatusCode::ACCEPTED);
    let duplicates = [&answer["items"][0]["duplicate"], &answer["items"][1]["duplicate"]];
    assert_eq!(duplicates, [&json!(false), &json!(true)]);
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 1);
    let answer =
        world.post("/v1/events", r#"[{"id":"y","type":"a","data":1},{"id":"y","type":"a","data":2}]"#);
    assert_eq!(answer.await.problem(409), ["[1].id"]);
}

async fn set_phase(world: &World, phase: IdPhase) {
    let event = world.store.all().into_iter().find_map(|record| match record {
        Record::Event(event) => Some(event),
        _ => None,
    });
    let event = EventRecord { phase, ..event.unwrap() };
    world.store.write(vec![Write::put(Record::Event(event), Expect::Any)]).await.unwrap();
}

/// As if another request were still accepting it.
async fn leave_unfinished(world: &World) {
    world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    let lease_until_real = world.clock.now_real() + Duration::from_secs(30);
    set_phase(world, IdPhase::Pending { lease_until_real }).await;
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_an_unfinished_event_waits_for_it() {
    let world = World::new();
    leave_unfinished(&world).await;
    let finish = async {
        let mut after = tokio::time::interval(Duration::from_secs(2));
        after.tick().await;
        after.tick().await;
        set_phase(&world, IdPhase::Done).await;
    };
    let (answer, ()) = tokio::join!(world.post("/v1/events", EVENT), finish);
    assert_eq!(answer.expect(StatusCode::ACCEPTED)["duplicate"], true);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_waits_for_three_seconds_and_no_longer() {
    let world = World::new();
    leave_unfinished(&world).await;
    let started = tokio::time::Instant::now();
    let answer = world.post("/v1/events", EVENT).await;
    answer.problem(503);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_id_that_is_busy_is_read_while_a_post_waits() {
    let world = World::new();
    leave_unfinished(&world).await;
    let others =
        (0..99).map(|n| json!({"id": format!("other {n}").replace(' ', "-"), "type": "a", "data": n}));
    let events: Vec<_> = others.chain([serde_json::from_str(EVENT).unwrap()]).collect();
    let before = world.store.keys_read();
    world.post("/v1/events", json!(events).to_string()).await.problem(503);
    let read = world.store.keys_read() - before;
    assert!((101..130).contains(&read), "{read} keys were read");
}

/// The process dies after the id was leased, before or after the deliveries were queued.
async fn killed_between_the_phases(hangs: Hangs) {
    let world = World::new();
    world.subscribe("a").await;
    *world.queue.hangs.lock().unwrap() = Some(hangs);
    let killed = tokio::time::timeout(Duration::from_secs(1), world.post("/v1/events", EVENT)).await;
    assert!(killed.is_err(), "answered before everything was stored");
    *world.queue.hangs.lock().unwrap() = None;
    // Deliveries that were queued are attempted.
    world.work().await;
    // The lease of the dead process has not expired yet.
    world.post("/v1/events", EVENT).await.problem(503);
    world.clock.advance(Duration::from_secs(31));
    let answer = world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    assert_eq!(answer, json!({"id": "x", "deliveries": 1, "duplicate": false}));
    let answer = world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    assert_eq!(answer["duplicate"], true);
    world.work().await;
    let bodies = world.receiver.bodies();
    assert_eq!(bodies.len(), 1, "delivered more than once");
    let body: serde_json::Value = serde_json::from_slice(&bodies[0]).unwrap();
    assert_eq!(body["timestamp"], "2026-01-01T00:00:00.000Z", "not the time of the first acceptance");
}

#[tokio::test(start_paused = true)]
async fn an_id_survives_a_kill_before_its_deliveries_are_queued() {
    killed_between_the_phases(Hangs::Before).await;
}

#[tokio::test(start_paused = true)]
async fn an_id_survives_a_kill_after_its_deliveries_were_queued() {
    killed_between_the_phases(Hangs::After).await;
}

#[tokio::test(start_paused = true)]
async fn fifty_equal_posts_at_once_are_one_event() {
    let world = World::new();
    world.subscribe("a").await;
    let posts = (0..50).map(|_| world.post("/v1/events", EVENT));
    let answer = futures_util::future::join_all(posts).await;
    let first =
        answer.iter().filter(|answer| answer.expect(StatusCode::ACCEPTED)["duplicate"] == false).count();
    assert_eq!(first, 1);
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 1);
}
