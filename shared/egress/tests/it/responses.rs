//! Responses that arrive, whole or in part.

use std::time::Duration;

use holdfast_core::ports::{AttemptResponse, AttemptResult, FailureKind};
use holdfast_egress::{MAX_EXCERPT_BYTES, MAX_RESPONSE_PIECES};

use crate::receiver::{Receiver, Then};
use crate::{IMPATIENT, PATIENT, detail, request, send, sender};

async fn response_to(bytes: &str) -> AttemptResponse {
    let receiver = Receiver::start(bytes, Then::KeepsOpen).await;
    send(&sender(PATIENT), request(receiver.url())).await.response
}

#[tokio::test]
async fn a_200_is_success() {
    let response = response_to("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert!(response.is_success());
    assert_eq!(response, AttemptResponse::Status { status: 200, excerpt: "ok".into(), retry_after: None });
}

#[tokio::test]
async fn a_204_without_a_body_is_success() {
    assert!(response_to("HTTP/1.1 204 No Content\r\n\r\n").await.is_success());
}

#[tokio::test]
async fn a_500_is_kept_with_its_text() {
    let response = response_to("HTTP/1.1 500 Oh\r\ncontent-length: 12\r\n\r\nno\x1b database").await;
    assert!(!response.is_success());
    assert_eq!(
        response,
        AttemptResponse::Status { status: 500, excerpt: "no\u{fffd} database".into(), retry_after: None }
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::KeepsOpen).await;
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url());
    assert!(matches!(response_to(&head).await, AttemptResponse::Status { status: 302, .. }));
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    let with =
        |value: &str| format!("HTTP/1.1 503 Busy\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
    let seconds = response_to(&with("120")).await;
    assert_eq!(seconds.retry_after(), Some(Duration::from_secs(120)));
    let date = response_to(&with("Wed, 21 Oct 2015 07:29:00 GMT")).await;
    assert_eq!(date.retry_after(), Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn compressed_responses_are_not_decompressed() {
    let response =
        response_to("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain").await;
    assert_eq!(response, AttemptResponse::Status { status: 200, excerpt: "plain".into(), retry_after: None });
}

#[tokio::test]
async fn an_endless_response_is_read_in_part() {
    let mut receiver = Receiver::start("HTTP/1.1 200 OK\r\n\r\n", Then::Floods).await;
    let response = send(&sender(PATIENT), request(receiver.url())).await.response;
    assert_eq!(
        response,
        AttemptResponse::Status { status: 200, excerpt: "x".repeat(MAX_EXCERPT_BYTES), retry_after: None }
    );
    // The flood ends when the connection is dropped. What was not read fills the sockets' buffers.
    assert!(receiver.flooded_bytes().await < 64 * 1024 * 1024);
}

#[tokio::test]
async fn a_response_in_many_pieces_is_read_in_part() {
    let pieces = "1\r\nx\r\n".repeat(3 * MAX_RESPONSE_PIECES);
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let receiver = Receiver::start(format!("{head}{pieces}"), Then::Hangs).await;
    let response = send(&sender(PATIENT), request(receiver.url())).await.response;
    let excerpt = "x".repeat(64);
    assert_eq!(response, AttemptResponse::Status { status: 200, excerpt, retry_after: None });
}

fn assert_took_about(result: &AttemptResult, timeout: Duration) {
    assert!(result.took >= timeout, "took only {:?}", result.took);
    assert!(result.took < timeout + Duration::from_secs(5), "took {:?}", result.took);
}

#[tokio::test]
async fn no_response_is_a_timeout() {
    let receiver = Receiver::start("", Then::Hangs).await;
    let result = send(&sender(IMPATIENT), request(receiver.url())).await;
    assert_took_about(&result, IMPATIENT);
    assert_eq!(detail(result, FailureKind::Timeout), "no response within 200ms");
}

#[tokio::test]
async fn a_response_that_does_not_end_is_a_timeout() {
    let receiver = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Then::Hangs).await;
    let result = send(&sender(IMPATIENT), request(receiver.url())).await;
    assert_took_about(&result, IMPATIENT);
    assert_eq!(
        detail(result, FailureKind::Timeout),
        "the response started with 200 but did not end within 200ms"
    );
}
