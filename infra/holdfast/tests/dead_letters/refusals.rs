//! What cannot work says what to do.

use holdfast_core::ports::QueueName;
use holdfast_core::records::Message;

use crate::bench::{Bench, Said, first_attempt, probe, said, text_of};

fn refused(said: Said, expected: &str) {
    assert!(!said.ok && said.out.is_empty() && said.err.contains(expected), "{expected}\n{said:?}");
}

#[tokio::test]
async fn a_queue_must_be_named() {
    let bench = Bench::new().await;
    let mut command = bench.command(&["list"]);
    refused(said(command.env_remove("HOLDFAST_DEAD_LETTER_QUEUE_URL")), "--queue-url <URL>");
}

#[tokio::test]
async fn a_region_must_be_known() {
    let bench = Bench::new().await;
    refused(said(bench.command(&["list"]).env_remove("AWS_REGION")), "no AWS region: set AWS_REGION");
}

#[tokio::test]
async fn credentials_must_be_found() {
    let bench = Bench::new().await;
    let mut command = bench.command(&["list"]);
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    refused(said(&mut command), "the AWS region and the credentials");
}

#[tokio::test]
async fn an_unknown_queue_is_named() {
    let bench = Bench::new().await;
    let url = format!("{}-not", bench.urls.dead_letters);
    for args in [&["list"][..], &["show", "id"], &["requeue", "--all"]] {
        let said = bench.run(&[args, &["--queue-url", &url]].concat());
        assert!(said.err.contains(&url) && said.err.contains("does not exist"), "{said:?}");
        refused(said, "check --queue-url");
    }
}

#[tokio::test]
async fn it_must_be_said_which_messages_go_back_and_where() {
    let bench = Bench::new().await;
    refused(bench.run(&["requeue"]), "<ID|--all>");
    refused(bench.run(&["requeue", "id", "--all"]), "cannot be used with");
    let first = text_of(&Message::FirstAttempt(first_attempt("e1", "{}")));
    bench.queue.dead_letter(&first, "-", QueueName::First).await.unwrap();
    refused(bench.run(&["requeue", "--all"]), "say with --first-queue-url where it goes");
    refused(
        bench.run(&["requeue", &bench.id_of("first_attempt")]),
        "say with --first-queue-url where it goes",
    );
    bench.queue.dead_letter(&text_of(&probe()), "-", QueueName::Retry).await.unwrap();
    refused(bench.run(&["requeue", &bench.id_of("probe")]), "say with --retry-queue-url where it goes");
    assert_eq!(bench.list().len(), 2);
}
