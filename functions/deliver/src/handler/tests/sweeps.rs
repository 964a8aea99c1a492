use std::time::Duration;

use holdfast_aws::Deadline;
use holdfast_aws::config::Trigger;
use holdfast_core::ids::{JobId, SubscriptionId};
use holdfast_core::ports::{Clock, QueueName, Store};
use holdfast_core::records::{Job, JobRecord, Reassign, Record};
use holdfast_core::time::Timestamp;
use serde_json::Value;

use super::function::{Function, START, SUBSCRIPTION};

const SWEEP: &str = include_str!("../../../events/sweep.json");

async fn with_overdue_jobs(count: usize) -> Function {
    let function = Function::new(Trigger::Sweep).await;
    let job = |number: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        Record::Job(JobRecord {
            tenant: "default".into(),
            id: JobId::new(id),
            job: Job::Reassign(Reassign {
                subscription_id: SubscriptionId(SUBSCRIPTION.to_owned()),
                after: None,
                pass: 0,
                not_before_real: Timestamp::ZERO,
            }),
            look_at: START - Duration::from_secs(60),
            looks: 0,
        })
    };
    let unwritten = function.store.put_each((0..count).map(job).collect()).await.unwrap();
    assert!(unwritten.is_empty());
    function
}

#[tokio::test]
async fn an_overdue_record_gets_a_ticket() {
    let function = with_overdue_jobs(3).await;
    assert_eq!(function.invoke(SWEEP).await, Ok(Value::Null));
    assert_eq!(function.queue.len(QueueName::Retry), 3);
}

#[tokio::test]
async fn sweeps_continue_while_there_is_more() {
    // More than one sweep looks at, in at least one of the eight shards.
    let function = with_overdue_jobs(8 * 500 + 1).await;
    function.invoke(SWEEP).await.unwrap();
    assert_eq!(function.queue.len(QueueName::Retry), 8 * 500 + 1);
}

#[tokio::test]
async fn without_time_for_one_sweep_the_invocation_fails() {
    let function = with_overdue_jobs(1).await;
    let error = function.invoke_for(SWEEP, Duration::ZERO).await.unwrap_err();
    assert!(error.contains("did not end in time"), "{error}");
    assert_eq!(function.queue.len(QueueName::Retry), 0);
}

#[tokio::test]
async fn any_event_starts_a_sweep() {
    let function = with_overdue_jobs(1).await;
    assert_eq!(function.invoke("{}").await, Ok(Value::Null));
    assert_eq!(function.queue.len(QueueName::Retry), 1);
}

#[tokio::test]
async fn states_are_counted_every_five_minutes_and_never_fail_a_sweep() {
    let function = with_overdue_jobs(0).await;
    let deadline = |seconds| {
        let now = function.clock.now_real();
        Deadline::of(now, now + Duration::from_secs(seconds))
    };
    let handler = &function.handler;
    let counted = async |seconds| handler.states.count(&handler.engine, deadline(seconds)).await.is_some();
    assert!(counted(60).await, "the first time");
    function.clock.advance(Duration::from_secs(299));
    assert!(!counted(60).await, "it was counted less than five minutes ago");
    function.clock.advance(Duration::from_secs(1));
    assert!(!counted(0).await, "there is no time");
    assert!(counted(60).await, "five minutes later");
    assert_eq!(function.invoke(SWEEP).await, Ok(Value::Null));
}
