use holdfast_core::ports::QueueName;

use super::Harness;
use super::samples::{now, ticket};

const RETRY: QueueName = QueueName::Retry;

pub async fn a_backlog_of_one_group_does_not_hold_up_another(h: &dyn Harness) {
    h.queue().send(RETRY, (0..1000).map(|n| now(ticket(n, 1))).collect()).await.unwrap();
    h.queue().send(RETRY, vec![now(ticket(5000, 2))]).await.unwrap();
    let mut soon = Vec::new();
    for _ in 0..5 {
        soon.extend(h.inbox().receive(RETRY, 10).await.unwrap());
    }
    assert!(soon.iter().any(|received| received.message == Ok(ticket(5000, 2))));
}
