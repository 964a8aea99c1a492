//! What must hold for anything that a receiver answers. The property tests here and the targets in `infra/fuzz` call the same functions.

pub mod response {
    use std::time::Duration;

    use bytes::Bytes;
    use holdfast_core::ports::AttemptResponse;
    use holdfast_core::time::Timestamp;
    use http::Request;
    use http_body_util::Full;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use crate::client::MAX_HEAD_BYTES;
    use crate::response::{MAX_EXCERPT_BYTES, read_excerpt};
    use crate::{failure, retry_after};

    const TIMEOUT: Duration = Duration::from_secs(5);
    /// As many bytes as the connection holds of each direction: an answer comes in pieces.
    const PIECE: usize = 64;
    const MAX_DETAIL_BYTES: usize = 300 * 10;

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            b"HTTP/1.1 503 Busy\r\nretry-after: 120\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n",
            b"HTTP/1.1 429 \r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nconnection: close\r\n\r\nwait \x1b[31m",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 301 Moved\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n\xe2\x80\xae\xff",
            b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n",
        ]
    }

    /// Whatever bytes come back, the attempt ends with a status or a failure, and little is kept: text in which nothing is invisible.
    pub fn check(input: &[u8]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        match runtime.block_on(attempt(input.to_vec())) {
            AttemptResponse::Status { status, excerpt, retry_after: _ } => {
                assert!((100..=999).contains(&status), "{status}");
                assert!(excerpt.len() <= MAX_EXCERPT_BYTES && is_visible(&excerpt), "{excerpt:?}");
            }
            AttemptResponse::Failed { detail, .. } => {
                assert!(detail.len() <= MAX_DETAIL_BYTES && is_visible(&detail), "{detail:?}");
            }
        }
    }

    /// As the sender reads a response, on a connection in memory.
    async fn attempt(answer: Vec<u8>) -> AttemptResponse {
        let (ours, theirs) = tokio::io::duplex(PIECE);
        let handshake = http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(TokioIo::new(ours));
        let (mut sender, connection) = handshake.await.expect("nothing is sent yet");
        let request = Request::post("/").body(Full::new(Bytes::from_static(b"{}"))).expect("a request");
        let receive = async {
            let response = match sender.send_request(request).await {
                Ok(response) => response,
                Err(error) => return failure::from_body(&error, TIMEOUT),
            };
            let status = response.status().as_u16();
            let retry_after =
                retry_after::parse(response.headers(), Timestamp::from_millis(1_769_860_800_000));
            match read_excerpt(response.into_body()).await {
                Ok((excerpt, _)) => AttemptResponse::Status { status, excerpt, retry_after },
                Err(error) => failure::from_body(&error, TIMEOUT),
            }
        };
        tokio::pin!(receive);
        let others = async {
            let (_, _) = tokio::join!(connection, answer_with(theirs, answer));
        };
        tokio::select! {
            biased;
            received = &mut receive => received,
            () = others => receive.await,
        }
    }

    /// Reads the request, answers and closes the connection.
    async fn answer_with(stream: DuplexStream, answer: Vec<u8>) {
        let (mut read, mut write) = tokio::io::split(stream);
        let ignored = async {
            let mut bytes = [0; PIECE];
            while read.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        };
        let answered = async {
            // Refused when the client has seen enough.
            let _ = write.write_all(&answer).await;
            let _ = write.shutdown().await;
        };
        tokio::join!(ignored, answered);
    }

    fn is_visible(text: &str) -> bool {
        let hides = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
        !text.chars().any(|c| hides(c) || (c.is_control() && !matches!(c, '\n' | '\t')))
    }
}

pub mod text {
    use std::time::Duration;

    use holdfast_core::time::Timestamp;
    use http::HeaderValue;
    use http::header::{HeaderMap, RETRY_AFTER};

    use crate::retry_after;
    use crate::text::to_visible;

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            b"120",
            b"Wed, 21 Oct 2026 07:28:00 GMT",
            b"Wednesday, 21-Oct-26 07:28:00 GMT",
            b"Wed Oct 21 07:28:00 2026",
            b"18446744073709551615",
            "paid \u{202e}on \u{1b}[31m\u{e0041}".as_bytes(),
        ]
    }

    /// A `retry-after` is a wait or nothing, and text is cut and made visible, whatever it is.
    pub fn check(input: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(input) {
            let in_seconds = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
            let wait = retry_after::parse(&HeaderMap::from_iter([(RETRY_AFTER, value)]), Timestamp::ZERO);
            match wait {
                Some(wait) if in_seconds.is_none() => assert!(wait <= retry_after::MAX_WAIT, "{wait:?}"),
                // A plus sign is read by Rust, and is no part of HTTP.
                wait => {
                    let expected =
                        in_seconds.map(|secs| Duration::from_secs(secs).min(retry_after::MAX_WAIT));
                    assert!(wait == expected || input.contains(&b'+'), "{wait:?}");
                }
            }
        }
        let text = String::from_utf8_lossy(input);
        for max_bytes in [0, 1, 7, 64, usize::MAX] {
            let visible = to_visible(&text, max_bytes);
            assert!(visible.len() <= max_bytes);
            assert_eq!(to_visible(&visible, max_bytes), visible, "what is visible stays as it is");
            assert!(to_visible(&text, usize::MAX).starts_with(&visible));
        }
    }
}

pub mod certificates {
    use rustls::pki_types::CertificateDer;

    use crate::certificates::useful;

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![include_bytes!("../vectors/certificate.der"), b"\x30\x00", b"\x30\x82\xff\xff"]
    }

    /// Certificates are used in the order in which they were sent, none of them twice, and none that cannot be read. The input is cut into
    /// four of them.
    pub fn check(input: &[u8]) {
        let whole = CertificateDer::from(input);
        let mut sent: Vec<CertificateDer<'_>> = vec![whole.clone(), whole];
        sent.extend(input.chunks(input.len().div_ceil(2).max(1)).map(CertificateDer::from));
        let used = useful(&sent);
        assert!(used.len() < sent.len(), "one was sent twice");
        let mut rest = sent.iter();
        assert!(used.iter().all(|one| rest.any(|other| other == one)), "another order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    holdfast_sim::test_hostile_input! {
        500,
        answers_of_receivers => response,
        retry_after_and_text => text,
        certificates_of_receivers => certificates,
    }
}
