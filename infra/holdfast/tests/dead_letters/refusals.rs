//! Errors say what to do.

use holdfast_core::ports::QueueName;
use holdfast_core::records::Message;

use crate::bench::{Bench, CommandOutput, first_attempt, output, probe, text_of};

fn refused(output: CommandOutput, expected: &str) {
    assert!(!output.ok && output.out.is_empty() && output.err.contains(expected), "{expected}\n{output:?}");
}

#[tokio::test]
async fn a_queue_must_be_given() {
    let bench = Bench::new().await;
    let mut command = bench.command(&["list"]);
    refused(output(command.env_remove("HOLDFAST_DEAD_LETTER_QUEUE_URL")), "--queue-url <URL>");
}

#[tokio::test]
async fn a_region_must_be_configured() {
    let bench = Bench::new().await;
    refused(output(bench.command(&["list"]).env_remove("AWS_REGION")), "no AWS region: set AWS_REGION");
}

#[tokio::test]
async fn credentials_must_be_found() {
    let bench = Bench::new().await;
    let mut command = bench.command(&["list"]);
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    refused(output(&mut command), "the AWS region and the credentials");
}

#[tokio::test]
async fn an_unknown_queue_is_named() {
    let bench = Bench::new().await;
    let url = format!("{}-not", bench.urls.dead_letters);
    for args in [&["list"][..], &["show", "id"], &["requeue", "--all"]] {
        let output = bench.run(&[args, &["--queue-url", &url]].concat());
        assert!(output.err.contains(&url) && output.err.contains("does not exist"), "{output:?}");
        refused(output, "check --queue-url");
    }
}

#[tokio::test]
async fn messages_and_their_queues_must_be_given() {
    let bench = Bench::new().await;
    refused(bench.run(&["requeue"]), "<ID|--all>");
    refused(bench.run(&["requeue", "id", "--all"]), "cannot be used with");
    let first = text_of(&Message::FirstAttempt(first_attempt("e1", "{}")));
    bench.queue.dead_letter(&first, "-", QueueName::First).await.unwrap();
    refused(bench.run(&["requeue", "--all"]), "give its queue with --first-queue-url");
    refused(bench.run(&["requeue", &bench.id_of("first_attempt")]), "give its queue with --first-queue-url");
    bench.queue.dead_letter(&text_of(&probe()), "-", QueueName::Retry).await.unwrap();
    refused(bench.run(&["requeue", &bench.id_of("probe")]), "give its queue with --retry-queue-url");
    assert_eq!(bench.list().len(), 2);
}
