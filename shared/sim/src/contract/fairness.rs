use holdfast_core::ports::QueueName;

use super::Harness;
use super::samples::{now, ticket, ticket_of};

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

pub async fn a_tenant_with_many_groups_does_not_hold_up_another(h: &dyn Harness) {
    h.queue().send(RETRY, (0..250).map(|n| now(ticket_of("many", n, n as u8))).collect()).await.unwrap();
    h.queue().send(RETRY, vec![now(ticket_of("one", 5000, 0))]).await.unwrap();
    let mut soon = Vec::new();
    for _ in 0..5 {
        soon.extend(h.inbox().receive(RETRY, 10).await.unwrap());
    }
    assert!(soon.iter().any(|received| received.message == Ok(ticket_of("one", 5000, 0))));
}

pub async fn two_tenants_with_the_same_url_are_two(h: &dyn Harness) {
    h.queue().send(RETRY, (0..1000).map(|n| now(ticket_of("many", n, 1))).collect()).await.unwrap();
    h.queue().send(RETRY, vec![now(ticket_of("one", 5000, 1))]).await.unwrap();
    let mut soon = Vec::new();
    for _ in 0..5 {
        soon.extend(h.inbox().receive(RETRY, 10).await.unwrap());
    }
    assert!(soon.iter().any(|received| received.message == Ok(ticket_of("one", 5000, 1))));
}
