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
async fn a_first_attempt_goes_back_marked_as_sent_again() {
    let bench = Bench::new().await;
    // U+0000 does not pass through SQS as it is: the text is encoded, and stays so.
    let first = first_attempt("e1", "{\"data\": \"\0\"}");
    let dead = Message::FirstAttempt(first.clone());
    bench.queue.dead_letter(&text_of(&dead), "a bug", QueueName::First).await.unwrap();
    bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    let id = bench.id_of("first_attempt");
    let said = bench.requeue(&[&id]);
    assert!(said.ok && said.out.contains(&id) && said.err.contains("requeued: 1"), "{said:?}");
    let back = bench.on(&bench.urls.first).await;
    assert_eq!(back.len(), 1);
    assert_eq!(group(&back[0]), dead.group());
    let message = read_message(back[0].body().unwrap()).unwrap();
    assert!(message == Message::FirstAttempt(FirstAttempt { again: true, ..first }));
    // The other one stays, and is not hidden.
    assert!(bench.on(&bench.urls.retry).await.is_empty());
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), [text_of(&probe())]);
}

#[tokio::test]
async fn all_go_back_but_what_cannot_be_read() {
    let bench = Bench::new().await;
    let newer = r#"{"v":99}"#;
    for n in 0..12 {
        let first = Message::FirstAttempt(first_attempt(&format!("e{n}"), "{}"));
        bench.queue.dead_letter(&text_of(&first), "a bug", QueueName::First).await.unwrap();
    }
    bench.queue.dead_letter(newer, "newer", QueueName::First).await.unwrap();
    bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    let said = bench.requeue(&["--all"]);
    assert!(!said.ok && said.err.contains("requeued: 13"), "{said:?}");
    assert!(said.err.contains("cannot read it: say with --to"), "{said:?}");
    assert_eq!(bench.on(&bench.urls.first).await.len(), 12);
    let tickets = bench.on(&bench.urls.retry).await;
    assert_eq!(texts(&tickets), [text_of(&probe())]);
    assert_eq!(group(&tickets[0]), probe().group());
    // Given back, and with a destination it goes too, unchanged.
    let said = bench.requeue(&["--all", "--to", &bench.urls.retry]);
    assert!(said.ok && said.err.contains("requeued: 1"), "{said:?}");
    assert_eq!(texts(&bench.on(&bench.urls.retry).await), [newer]);
    assert!(bench.list().is_empty());
}

#[tokio::test]
async fn some_go_back_by_their_ids_wherever_they_are_told_to() {
    let bench = Bench::new().await;
    for text in ["one", "two", "three"] {
        bench.queue.dead_letter(text, text, QueueName::First).await.unwrap();
    }
    let (one, three) = (bench.id_of("why: one"), bench.id_of("why: three"));
    let said = bench.requeue(&[&three, &one, "no-such-id", "--to", &bench.urls.first]);
    assert!(!said.ok && said.err.contains("no message no-such-id among the 3"), "{said:?}");
    assert!(said.err.contains("requeued: 2"), "{said:?}");
    assert_eq!(texts(&bench.on(&bench.urls.first).await), ["one", "three"]);
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), ["two"]);
}

#[tokio::test]
async fn no_more_go_back_than_asked_for() {
    let bench = Bench::new().await;
    for _ in 0..15 {
        bench.queue.dead_letter(&text_of(&probe()), "a bug", QueueName::Retry).await.unwrap();
    }
    let said = bench.requeue(&["--all", "--limit", "11"]);
    assert!(said.ok && said.err.contains("there may be more"), "{said:?}");
    assert_eq!(bench.on(&bench.urls.retry).await.len(), 11);
    assert_eq!(bench.on(&bench.urls.dead_letters).await.len(), 4);
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_deleted_nor_hidden() {
    let bench = Bench::new().await;
    for text in ["one", "two"] {
        bench.queue.dead_letter(text, "-", QueueName::First).await.unwrap();
    }
    let nowhere = format!("{}-not", bench.urls.first);
    let said = bench.requeue(&["--all", "--to", &nowhere]);
    assert!(!said.ok && said.err.contains("requeued: 0") && said.err.contains(&nowhere), "{said:?}");
    assert_eq!(texts(&bench.on(&bench.urls.dead_letters).await), ["one", "two"]);
}
