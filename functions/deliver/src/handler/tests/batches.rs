use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_aws::config::Trigger;
use holdfast_core::ports::QueueName;
use serde_json::Value;

use super::world::{SentAgain, World, failures};
use crate::handler::Handler;

const FIRST: &str = include_str!("../../../events/first.json");
const RETRY: &str = include_str!("../../../events/retry.json");
/// A good message, one that nobody can read, one of a newer Holdfast, and a good one whose body is not plain text.
const MIXED: &str = include_str!("../../../events/mixed.json");

const POISON: &str = "not a message of ours";

async fn firsts() -> World {
    World::new(Trigger::Queue(QueueName::First)).await
}

/// The ids in an event, in its order.
fn ids(event: &str) -> Vec<String> {
    let event: Value = serde_json::from_str(event).unwrap();
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|record| record["messageId"].as_str().unwrap().to_owned()).collect()
}

fn changed(event: &str, change: impl Fn(&mut Value)) -> String {
    let mut event: Value = serde_json::from_str(event).unwrap();
    event["Records"].as_array_mut().unwrap().iter_mut().for_each(change);
    event.to_string()
}

#[tokio::test]
async fn what_was_delivered_is_not_reported() {
    let world = firsts().await;
    assert_eq!(world.invoke(FIRST).await, Ok(failures(&[])));
    let mut bodies = world.receiver.bodies.lock().unwrap().clone();
    bodies.sort();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].ends_with(r#""data":{"total":12.50,"total":1e400}}"#), "{bodies:?}");
    assert_eq!(world.handler.engine.take_counters().attempts_succeeded, 0, "the tally was published");
}

#[tokio::test]
async fn a_customers_failure_is_not_reported() {
    let world = firsts().await;
    world.answer_with(500);
    assert_eq!(world.invoke(FIRST).await, Ok(failures(&[])));
    assert_eq!(world.queue.len(QueueName::Retry), 2, "both have a ticket for their retry");
    assert!(world.leftovers.postponed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_retry_is_attempted_when_it_is_due() {
    let world = firsts().await;
    world.answer_with(500);
    world.invoke(FIRST).await.unwrap();
    world.answer_with(200);
    world.clock.advance(Duration::from_secs(85));
    let handler = Handler { trigger: Trigger::Queue(QueueName::Retry), ..world.handler };
    let retries = World { handler, ..world };
    assert_eq!(retries.invoke(RETRY).await, Ok(failures(&[])));
    assert_eq!(retries.receiver.bodies.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn what_cannot_be_read_becomes_a_dead_letter_and_what_is_newer_is_sent_again() {
    let world = firsts().await;
    assert_eq!(world.invoke(MIXED).await, Ok(failures(&[])));
    let bodies = world.receiver.bodies.lock().unwrap().clone();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().any(|body| body.ends_with("\"data\":\"\u{ffff}\"}")), "{bodies:?}");
    let dead_letters = world.leftovers.dead_letters.lock().unwrap().clone();
    assert_eq!(dead_letters.len(), 1);
    assert_eq!((dead_letters[0].0, dead_letters[0].1.as_str()), (QueueName::First, POISON));
    assert!(!dead_letters[0].2.is_empty(), "a person is told why");
    let again = SentAgain {
        queue: QueueName::First,
        text: r#"{"v":99,"kind":"unheard_of"}"#.to_owned(),
        group: Some("url_of_somebody".to_owned()),
        delay_s: 900,
    };
    assert_eq!(*world.leftovers.sent_again.lock().unwrap(), [again]);
}

#[tokio::test]
async fn what_can_neither_be_moved_nor_handled_is_reported_and_rests() {
    let world = firsts().await;
    world.leftovers.broken.store(true, Ordering::Relaxed);
    let ids = ids(MIXED);
    assert_eq!(world.invoke(MIXED).await, Ok(failures(&[&ids[1], &ids[2]])));
    let postponed = world.leftovers.postponed.lock().unwrap().clone();
    // Received for the third and for the first time.
    let expected =
        [(QueueName::First, "receipt-2".to_owned(), 20), (QueueName::First, "receipt-3".to_owned(), 5)];
    assert_eq!(postponed, expected);
}

#[tokio::test]
async fn what_could_not_end_in_time_is_given_back_before_it_begins() {
    let world = firsts().await;
    let ids = ids(FIRST);
    let reply = world.invoke_for(FIRST, Duration::from_secs(5)).await;
    assert_eq!(reply, Ok(failures(&[&ids[0], &ids[1]])));
    assert!(world.receiver.bodies.lock().unwrap().is_empty());
    assert_eq!(world.leftovers.postponed.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_does_not_end_is_given_back_whole() {
    let world = firsts().await;
    world.answer_with(0);
    let ids = ids(FIRST);
    let began = tokio::time::Instant::now();
    assert_eq!(world.invoke(FIRST).await, Ok(failures(&[&ids[0], &ids[1]])));
    assert_eq!(began.elapsed().as_secs(), 29, "with a second left for the answer");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_answer_does_not_hold_the_answer_up() {
    let world = firsts().await;
    world.leftovers.hangs.store(true, Ordering::Relaxed);
    let ids = ids(MIXED);
    let began = tokio::time::Instant::now();
    assert_eq!(world.invoke(MIXED).await, Ok(failures(&[&ids[1], &ids[2]])));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_message_without_a_count_is_taken_for_one_that_came_often() {
    let world = firsts().await;
    world.leftovers.broken.store(true, Ordering::Relaxed);
    let event = changed(MIXED, |record| {
        record["attributes"].as_object_mut().unwrap().remove("ApproximateReceiveCount");
    });
    world.invoke(&event).await.unwrap();
    let postponed = world.leftovers.postponed.lock().unwrap().clone();
    assert!(postponed.iter().all(|(_, _, wait_s)| *wait_s == 900), "{postponed:?}");
}

#[tokio::test]
async fn an_event_of_something_else_is_an_error() {
    let world = firsts().await;
    for event in ["{}", "[]", "7", r#"{"Records":[{"s3":{}}]}"#, include_str!("../../../events/sweep.json")] {
        let error = world.invoke(event).await.unwrap_err();
        assert!(error.starts_with("not an event of SQS: "), "{event}: {error}");
    }
    assert_eq!(world.invoke(r#"{"Records":[]}"#).await, Ok(failures(&[])));
}
