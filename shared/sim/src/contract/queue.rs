use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ids::JobId;
use holdfast_core::ports::{Outgoing, QueueName, Receipt, Received, Settlement};
use holdfast_core::records::Message;

use super::concurrency::{EACH, THREADS, crowd};
use super::samples::{after, first_attempt, now, tenant, ticket, url_id};
use super::{Harness, receive_all};

const RETRY: QueueName = QueueName::Retry;

async fn send(h: &dyn Harness, messages: Vec<Outgoing>) {
    h.queue().send(RETRY, messages).await.unwrap();
}

async fn receive_one(h: &dyn Harness) -> Received {
    let mut all = receive_all(h, RETRY).await;
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// So that what was received does not come back in the middle of a case, where the visibility timeout is short.
async fn delete(h: &dyn Harness, received: &[Received]) {
    delete_receipts(h, RETRY, received.iter().map(|received| received.receipt.clone()).collect()).await;
}

async fn delete_receipts(h: &dyn Harness, queue: QueueName, receipts: Vec<Receipt>) {
    settle(h, queue, receipts.into_iter().map(|receipt| (receipt, Settlement::Delete)).collect()).await;
}

async fn settle(h: &dyn Harness, queue: QueueName, settlements: Vec<(Receipt, Settlement)>) {
    let count = settlements.len();
    let settled = h.inbox().settle(queue, settlements).await;
    assert_eq!(settled.len(), count, "each settlement has a result");
    settled.into_iter().for_each(|one| one.unwrap());
}

async fn nothing_is_ready(h: &dyn Harness) -> bool {
    receive_all(h, RETRY).await.is_empty()
}

pub async fn a_delayed_message_is_received_at_its_time_and_not_before(h: &dyn Harness) {
    let wait = h.real(Duration::from_secs(300));
    send(h, vec![after(600, ticket(1, 1)), after(300, ticket(2, 1))]).await;
    assert!(nothing_is_ready(h).await);
    h.advance(wait);
    let sooner = receive_one(h).await;
    assert_eq!(sooner.message, Ok(ticket(2, 1)));
    delete_receipts(h, RETRY, vec![sooner.receipt]).await;
    h.advance(wait - h.grain());
    assert!(nothing_is_ready(h).await);
    h.advance(h.grain());
    assert_eq!(receive_one(h).await.message, Ok(ticket(1, 1)));
}

pub async fn the_longest_delay_holds(h: &dyn Harness) {
    send(h, vec![after(900, ticket(1, 1))]).await;
    h.advance(h.real(Duration::from_secs(900)) - h.grain());
    assert!(nothing_is_ready(h).await);
    h.advance(h.grain());
    receive_one(h).await;
}

pub async fn a_received_message_is_invisible_and_then_received_again(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    for count in 1..=3 {
        let received = receive_one(h).await;
        assert_eq!((received.message, received.receive_count), (Ok(ticket(1, 1)), count));
        h.advance(h.visibility() - h.grain());
        assert!(nothing_is_ready(h).await);
        h.advance(h.grain());
    }
}

pub async fn a_deleted_message_is_gone(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let receipt = receive_one(h).await.receipt;
    // Twice: deleting is idempotent.
    for _ in 0..2 {
        delete_receipts(h, RETRY, vec![receipt.clone()]).await;
        h.advance(h.visibility());
        assert!(nothing_is_ready(h).await);
    }
}

pub async fn a_void_receipt_deletes_nothing(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let void = receive_one(h).await.receipt;
    h.advance(h.visibility());
    let current = receive_one(h).await.receipt;
    delete_receipts(h, RETRY, vec![void]).await;
    h.advance(h.visibility());
    let again = receive_one(h).await;
    assert_ne!(again.receipt, current);
    assert_eq!(again.receive_count, 3);
}

pub async fn a_late_delete_still_counts_if_the_message_was_not_received_again(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let receipt = receive_one(h).await.receipt;
    h.advance(h.visibility());
    delete_receipts(h, RETRY, vec![receipt]).await;
    assert!(nothing_is_ready(h).await);
}

pub async fn a_postponed_message_comes_back_after_its_wait(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let receipt = receive_one(h).await.receipt;
    let wait = Duration::from_secs(20);
    settle(h, RETRY, vec![(receipt, Settlement::RetryAfter(wait))]).await;
    h.advance(wait - h.grain());
    assert!(nothing_is_ready(h).await);
    h.advance(h.grain());
    assert_eq!(receive_one(h).await.receive_count, 2);
}

pub async fn a_void_receipt_postpones_nothing(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let void = receive_one(h).await.receipt;
    h.advance(h.visibility());
    receive_one(h).await;
    settle(h, RETRY, vec![(void, Settlement::RetryAfter(Duration::ZERO))]).await;
    assert!(nothing_is_ready(h).await);
}

/// Of two that wait, a queue may keep one.
pub async fn a_ticket_sent_while_the_same_one_is_handled_is_received_too(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    let first = receive_one(h).await;
    send(h, vec![now(ticket(1, 1))]).await;
    let second = receive_one(h).await;
    assert_eq!((&first.message, second.receive_count), (&second.message, 1));
    delete_receipts(h, RETRY, vec![second.receipt]).await;
    h.advance(h.visibility());
    assert_eq!(receive_one(h).await.receive_count, 2);
}

pub async fn no_more_are_received_than_asked_for(h: &dyn Harness) {
    send(h, (0..30).map(|n| now(ticket(n, (n % 3) as u8))).collect()).await;
    let mut total = 0;
    loop {
        let received = h.inbox().receive(RETRY, 4).await.unwrap();
        assert!(received.len() <= 4);
        if received.is_empty() {
            break;
        }
        total += received.len();
        delete(h, &received).await;
    }
    assert_eq!(total, 30);
    assert!(h.inbox().receive(RETRY, 0).await.unwrap().is_empty());
}

pub async fn concurrent_messages_are_each_received_once(h: &dyn Harness) {
    crowd(h, |n| async move {
        send(h, vec![now(ticket(n as i64, (n % 7) as u8))]).await;
    });
    let mut counts: HashMap<String, usize> = HashMap::new();
    loop {
        let received = h.inbox().receive(RETRY, 10).await.unwrap();
        if received.is_empty() {
            break;
        }
        delete(h, &received).await;
        for received in received {
            *counts.entry(format!("{:?}", received.message.unwrap())).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), THREADS * EACH);
    assert!(counts.values().all(|count| *count == 1));
}

pub async fn queues_do_not_mix(h: &dyn Harness) {
    send(h, vec![now(ticket(1, 1))]).await;
    assert!(receive_all(h, QueueName::First).await.is_empty());
    let receipt = receive_one(h).await.receipt;
    delete_receipts(h, QueueName::First, vec![receipt]).await;
    h.advance(h.visibility());
    receive_one(h).await;
}

pub async fn every_byte_of_a_body_survives(h: &dyn Harness) {
    let every_byte: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    for body in
        [None, Some(Bytes::new()), Some(Bytes::from(every_byte)), Some(Bytes::from(vec![b'\n'; 200_000]))]
    {
        let message = first_attempt(1, 1, body);
        send(h, vec![now(message.clone())]).await;
        let received = receive_one(h).await;
        assert!(received.message == Ok(message));
        delete_receipts(h, RETRY, vec![received.receipt]).await;
    }
}

pub async fn every_kind_of_message_survives(h: &dyn Harness) {
    let (tenant, url_id) = (tenant(), url_id(1));
    let messages = [
        ticket(1, 1),
        Message::Probe { tenant: tenant.clone(), url_id: url_id.clone() },
        Message::Release { tenant: tenant.clone(), url_id, step: u64::MAX, links: 0 },
        Message::Job { tenant, id: JobId::new([9; 16]), step: None, links: 0 },
    ];
    for message in messages {
        send(h, vec![now(message.clone())]).await;
        let received = receive_one(h).await;
        delete(h, std::slice::from_ref(&received)).await;
        assert_eq!(received.message, Ok(message));
    }
}
