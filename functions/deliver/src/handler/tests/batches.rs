use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use holdfast_aws::config::Trigger;
use holdfast_core::ports::{Delay, QueueName, Settlement, UnreadableMessage};
use holdfast_core::records::Unreadable;
use holdfast_core::rules::backoff::RESEND_AFTER;
use serde_json::Value;

use super::function::{Function, failures};
use crate::handler::Handler;

const FIRST: &str = include_str!("../../../events/first.json");
const RETRY: &str = include_str!("../../../events/retry.json");
/// A valid message, a corrupt one, one of a newer release, and a valid one whose body is not plain text.
const MIXED: &str = include_str!("../../../events/mixed.json");

const CORRUPT: &str = "not a message of ours";

async fn firsts() -> Function {
    Function::new(Trigger::Queue(QueueName::First)).await
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
async fn a_delivered_message_is_not_reported() {
    let function = firsts().await;
    assert_eq!(function.invoke(FIRST).await, Ok(failures(&[])));
    let mut bodies = function.receiver.bodies.lock().unwrap().clone();
    bodies.sort();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].ends_with(r#""data":{"total":12.50,"total":1e400}}"#), "{bodies:?}");
    assert_eq!(function.handler.engine.take_counters().attempts_succeeded, 0, "the counters were published");
}

#[tokio::test]
async fn a_customers_failure_is_not_reported() {
    let function = firsts().await;
    function.respond_with(500);
    assert_eq!(function.invoke(FIRST).await, Ok(failures(&[])));
    assert_eq!(function.queue.len(QueueName::Retry), 2, "both have a ticket for their retry");
    assert!(function.inbox.settlements.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_retry_is_attempted_when_it_is_due() {
    let function = firsts().await;
    function.respond_with(500);
    function.invoke(FIRST).await.unwrap();
    function.respond_with(200);
    function.clock.advance(Duration::from_secs(85));
    let handler = Handler { trigger: Trigger::Queue(QueueName::Retry), ..function.handler };
    let retries = Function { handler, ..function };
    assert_eq!(retries.invoke(RETRY).await, Ok(failures(&[])));
    assert_eq!(retries.receiver.bodies.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_corrupt_message_becomes_a_dead_letter_and_a_newer_one_is_sent_again() {
    let function = firsts().await;
    assert_eq!(function.invoke(MIXED).await, Ok(failures(&[])));
    let bodies = function.receiver.bodies.lock().unwrap().clone();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().any(|body| body.ends_with("\"data\":\"\u{ffff}\"}")), "{bodies:?}");
    let settlements = function.inbox.settlements.lock().unwrap().clone();
    let [(QueueName::First, _, Settlement::DeadLetter(dead)), newer] = &settlements[..] else {
        panic!("{settlements:?}");
    };
    assert_eq!(dead.payload, CORRUPT);
    assert!(matches!(dead.why, Unreadable::Corrupt(_)), "{dead:?}");
    let message = UnreadableMessage {
        why: Unreadable::Newer(99),
        payload: Bytes::from_static(br#"{"v":99,"kind":"unheard_of"}"#),
        group: Some("url_of_another".to_owned()),
    };
    let delay = Delay::new(RESEND_AFTER).unwrap();
    let expected = (QueueName::First, "receipt-3".to_owned(), Settlement::Resend { message, delay });
    assert_eq!(*newer, expected);
}

#[tokio::test]
async fn a_message_that_cannot_be_moved_is_reported_and_postponed() {
    let function = firsts().await;
    function.inbox.fails.store(true, Ordering::Relaxed);
    let ids = ids(MIXED);
    assert_eq!(function.invoke(MIXED).await, Ok(failures(&[&ids[1], &ids[2]])));
    let postponed = function.inbox.postponed();
    // Received for the third and for the first time.
    let expected =
        [(QueueName::First, "receipt-2".to_owned(), 20), (QueueName::First, "receipt-3".to_owned(), 5)];
    assert_eq!(postponed, expected);
}

#[tokio::test]
async fn an_attempt_that_might_not_end_in_time_is_not_started() {
    let function = firsts().await;
    let ids = ids(FIRST);
    let reply = function.invoke_for(FIRST, Duration::from_secs(5)).await;
    assert_eq!(reply, Ok(failures(&[&ids[0], &ids[1]])));
    assert!(function.receiver.bodies.lock().unwrap().is_empty());
    assert_eq!(function.inbox.postponed().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_does_not_end_is_given_back_whole() {
    let function = firsts().await;
    function.respond_with(0);
    let ids = ids(FIRST);
    let started = tokio::time::Instant::now();
    assert_eq!(function.invoke(FIRST).await, Ok(failures(&[&ids[0], &ids[1]])));
    assert_eq!(started.elapsed().as_secs(), 29, "with a second left for the response");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_respond_does_not_delay_the_response() {
    let function = firsts().await;
    function.inbox.hangs.store(true, Ordering::Relaxed);
    let ids = ids(MIXED);
    let started = tokio::time::Instant::now();
    assert_eq!(function.invoke(MIXED).await, Ok(failures(&[&ids[1], &ids[2]])));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_message_without_a_receive_count_is_treated_as_received_often() {
    let function = firsts().await;
    function.inbox.fails.store(true, Ordering::Relaxed);
    let event = changed(MIXED, |record| {
        record["attributes"].as_object_mut().unwrap().remove("ApproximateReceiveCount");
    });
    function.invoke(&event).await.unwrap();
    let postponed = function.inbox.postponed();
    assert!(postponed.iter().all(|(_, _, wait_s)| *wait_s == 900), "{postponed:?}");
}

#[tokio::test]
async fn an_event_of_something_else_is_an_error() {
    let function = firsts().await;
    for event in ["{}", "[]", "7", r#"{"Records":[{"s3":{}}]}"#, include_str!("../../../events/sweep.json")] {
        let error = function.invoke(event).await.unwrap_err();
        assert!(error.starts_with("not an event of SQS: "), "{event}: {error}");
    }
    assert_eq!(function.invoke(r#"{"Records":[]}"#).await, Ok(failures(&[])));
}
