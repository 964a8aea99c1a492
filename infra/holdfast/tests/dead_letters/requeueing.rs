//! `requeue`: receive, send, delete.

use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName};
use holdfast_aws::queue::read_message;
use holdfast_core::ports::QueueName;
use holdfast_core::records::{FirstAttempt, Message};

use crate::bench::{Bench, first_attempt, probe, text_of};

fn texts(messages: &[SqsMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.body().unwrap()).collect()
}

fn group(message: &SqsMessage) -> &str {
    &message.attributes.as_ref().unwrap()[&MessageSystemAttributeName::MessageGroupId]
}

#[tokio::test]
async fn a_first_attempt_is_requeued_marked_as_sent_again() {
    let bench = Bench::new().await;
    // SQS does not accept U+0000, so the text is encoded, and stays encoded.
    let first = first_attempt("e1", "{\"data\": \"\0\"}");
    let dead = Message::FirstAttempt(first.clone());
    bench.queue.dead_letter(&text_of(&dead), "a bug", QueueName::First).await.unwrap();
    bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    let id = bench.id_of("first_attempt");
    let output = bench.requeue(&[&id]);
    assert!(output.ok && output.out.contains(&id) && output.err.contains("requeued: 1"), "{output:?}");
    let back = bench.on(&bench.urls.first).await;
    assert_eq!(back.len(), 1);
    assert_eq!(group(&back[0]), dead.tenant().as_str());
    let message = read_message(back[0].body().unwrap()).unwrap();
    assert!(message == Message::FirstAttempt(FirstAttempt { again: true, ..first }));
    // The other message stays visible.
    assert!(bench.on(&bench.urls.retry).await.is_empty());
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), [text_of(&probe())]);
}

#[tokio::test]
async fn all_are_requeued_except_unreadable_messages() {
    let bench = Bench::new().await;
    let newer = r#"{"v":99}"#;
    for n in 0..12 {
        let first = Message::FirstAttempt(first_attempt(&format!("e{n}"), "{}"));
        bench.queue.dead_letter(&text_of(&first), "a bug", QueueName::First).await.unwrap();
    }
    bench.queue.dead_letter(newer, "newer", QueueName::First).await.unwrap();
    bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    let output = bench.requeue(&["--all"]);
    assert!(!output.ok && output.err.contains("requeued: 13"), "{output:?}");
    assert!(output.err.contains("cannot read it: give its queue with --to"), "{output:?}");
    assert_eq!(bench.on(&bench.urls.first).await.len(), 12);
    let tickets = bench.on(&bench.urls.retry).await;
    assert_eq!(texts(&tickets), [text_of(&probe())]);
    assert_eq!(group(&tickets[0]), probe().tenant().as_str());
    // It is visible again, and is requeued unchanged once its queue is given.
    let output = bench.requeue(&["--all", "--to", &bench.urls.retry]);
    assert!(output.ok && output.err.contains("requeued: 1"), "{output:?}");
    assert_eq!(texts(&bench.on(&bench.urls.retry).await), [newer]);
    assert!(bench.list().is_empty());
}

#[tokio::test]
async fn messages_are_requeued_by_id_to_a_given_queue() {
    let bench = Bench::new().await;
    for text in ["one", "two", "three"] {
        bench.queue.dead_letter(text, text, QueueName::First).await.unwrap();
    }
    let (one, three) = (bench.id_of("why: one"), bench.id_of("why: three"));
    let output = bench.requeue(&[&three, &one, "no-such-id", "--to", &bench.urls.first]);
    assert!(!output.ok && output.err.contains("no message no-such-id among the 3"), "{output:?}");
    assert!(output.err.contains("requeued: 2"), "{output:?}");
    assert_eq!(texts(&bench.on(&bench.urls.first).await), ["one", "three"]);
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), ["two"]);
}

#[tokio::test]
async fn the_limit_is_respected() {
    let bench = Bench::new().await;
    for _ in 0..15 {
        bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    }
    let output = bench.requeue(&["--all", "--limit", "11"]);
    assert!(output.ok && output.err.contains("there may be more"), "{output:?}");
    assert_eq!(bench.on(&bench.urls.retry).await.len(), 11);
    assert_eq!(bench.on(&bench.urls.dead_letters).await.len(), 4);
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_is_neither_deleted_nor_hidden() {
    let bench = Bench::new().await;
    for text in ["one", "two"] {
        bench.queue.dead_letter(text, "-", QueueName::First).await.unwrap();
    }
    let nowhere = format!("{}-not", bench.urls.first);
    let output = bench.requeue(&["--all", "--to", &nowhere]);
    assert!(!output.ok && output.err.contains("requeued: 0") && output.err.contains(&nowhere), "{output:?}");
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), ["one", "two"]);
}
