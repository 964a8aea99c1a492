//! What is made of answers that arrive.

use std::time::Duration;

use holdfast_core::ports::{Answer, AttemptResult, FailureKind};
use holdfast_egress::MAX_KEPT;

use crate::receiver::{Receiver, Then};
use crate::{IMPATIENT, PATIENT, detail, request, send, sender};

async fn answer_to(response: &str) -> Answer {
    let receiver = Receiver::start(response, Then::Goes).await;
    send(&sender(PATIENT), request(receiver.url())).await.answer
}

#[tokio::test]
async fn a_200_is_success() {
    let answer = answer_to("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert!(answer.is_success());
    assert_eq!(answer, Answer::Status { status: 200, excerpt: "ok".into(), retry_after: None });
}

#[tokio::test]
async fn a_204_without_a_body_is_success() {
    assert!(answer_to("HTTP/1.1 204 No Content\r\n\r\n").await.is_success());
}

#[tokio::test]
async fn a_500_is_kept_with_what_it_says() {
    let answer = answer_to("HTTP/1.1 500 Oh\r\ncontent-length: 12\r\n\r\nno\x1b database").await;
    assert!(!answer.is_success());
    assert_eq!(
        answer,
        Answer::Status { status: 500, excerpt: "no\u{fffd} database".into(), retry_after: None }
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::Goes).await;
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url());
    assert!(matches!(answer_to(&head).await, Answer::Status { status: 302, .. }));
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    let with =
        |value: &str| format!("HTTP/1.1 503 Busy\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
    let seconds = answer_to(&with("120")).await;
    assert_eq!(seconds.asked_to_wait(), Some(Duration::from_secs(120)));
    let date = answer_to(&with("Wed, 21 Oct 2015 07:29:00 GMT")).await;
    assert_eq!(date.asked_to_wait(), Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn compressed_answers_are_left_as_they_are() {
    let answer =
        answer_to("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain").await;
    assert_eq!(answer, Answer::Status { status: 200, excerpt: "plain".into(), retry_after: None });
}

#[tokio::test]
async fn no_more_than_a_part_of_an_endless_answer_is_read() {
    let mut receiver = Receiver::start("HTTP/1.1 200 OK\r\n\r\n", Then::Floods).await;
    let answer = send(&sender(PATIENT), request(receiver.url())).await.answer;
    assert_eq!(answer, Answer::Status { status: 200, excerpt: "x".repeat(MAX_KEPT), retry_after: None });
    // The flood ends only when the connection is dropped. What was not read fills the buffers of the sockets.
    assert!(receiver.flooded_bytes().await < 64 * 1024 * 1024);
}

fn assert_took_about(result: &AttemptResult, timeout: Duration) {
    assert!(result.took >= timeout, "took only {:?}", result.took);
    assert!(result.took < timeout + Duration::from_secs(5), "took {:?}", result.took);
}

#[tokio::test]
async fn no_answer_is_a_timeout() {
    let receiver = Receiver::start("", Then::Hangs).await;
    let result = send(&sender(IMPATIENT), request(receiver.url())).await;
    assert_took_about(&result, IMPATIENT);
    assert_eq!(detail(result, FailureKind::Timeout), "there was no answer within 200ms");
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_a_timeout() {
    let receiver = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Then::Hangs).await;
    let result = send(&sender(IMPATIENT), request(receiver.url())).await;
    assert_took_about(&result, IMPATIENT);
    assert_eq!(
        detail(result, FailureKind::Timeout),
        "the answer began with 200, but did not end within 200ms"
    );
}
