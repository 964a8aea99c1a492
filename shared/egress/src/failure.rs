use std::error::Error;
use std::io;
use std::time::Duration;

use holdfast_core::ports::{AttemptResponse, FailureKind};
use holdfast_core::rules::guard::Refusal;
use holdfast_core::rules::shortage::Shortage;
use hyper_util::client::legacy;
use rustls::{CertificateError, InvalidMessage, OtherError};

use crate::connector::TooManyTickets;
use crate::meter::TooManyBytes;
use crate::resolver::Unresolved;
use crate::text;

const MAX_DETAIL_CHARS: usize = 300;

pub(crate) fn failed(kind: FailureKind, detail: impl AsRef<str>) -> AttemptResponse {
    let detail: String = detail.as_ref().chars().take(MAX_DETAIL_CHARS).collect();
    // A detail may quote the receiver, such as the names of its certificate.
    AttemptResponse::Failed { kind, detail: text::to_visible(&detail, usize::MAX), is_silent: false }
}

/// Not a byte came back.
fn silent(kind: FailureKind, detail: impl AsRef<str>) -> AttemptResponse {
    match failed(kind, detail) {
        AttemptResponse::Failed { kind, detail, .. } => {
            AttemptResponse::Failed { kind, detail, is_silent: true }
        }
        response @ AttemptResponse::Status { .. } => response,
    }
}

/// Nothing was sent: the URL or a header is invalid.
pub(crate) fn invalid_request(why: impl std::fmt::Display) -> AttemptResponse {
    failed(FailureKind::Connect, format!("the request is invalid: {why}"))
}

/// Nothing was sent: the guard refuses the URL.
pub(crate) fn blocked(refusal: &Refusal) -> AttemptResponse {
    failed(FailureKind::Blocked, format!("the URL {refusal}"))
}

/// No connection was started: the name has no address, or one that is refused.
pub(crate) fn unresolved(error: &Unresolved) -> Result<AttemptResponse, Shortage> {
    match error {
        Unresolved::NoAddress { .. } | Unresolved::Hangs { .. } => {
            Ok(silent(FailureKind::Dns, error.to_string()))
        }
        Unresolved::NoIpv6 => Ok(silent(FailureKind::Connect, format!("could not connect: {error}"))),
        Unresolved::Refused(refusal) => Ok(blocked(refusal)),
        Unresolved::Shortage(shortage) => Err(*shortage),
    }
}

pub(crate) fn no_response_within(timeout: Duration) -> AttemptResponse {
    silent(FailureKind::Timeout, format!("no response within {timeout:?}"))
}

pub(crate) fn incomplete_within(timeout: Duration, status: u16) -> AttemptResponse {
    failed(
        FailureKind::Timeout,
        format!("the response started with {status} but did not end within {timeout:?}"),
    )
}

/// Classifies an error from before the response's head.
pub(crate) fn from_client(error: &legacy::Error, timeout: Duration) -> Result<AttemptResponse, Shortage> {
    let causes = Causes::of(error.source());
    if !error.is_connect() {
        return Ok(describe(&causes, timeout));
    }
    if let Some(unresolved) = causes.unresolved {
        return unresolved;
    }
    // What stops a connection from being opened is not the receiver's doing. One that broke later was made, and counts.
    match causes.shortage {
        Some(shortage) => Err(shortage),
        None => Ok(describe_connect(&causes, timeout)),
    }
}

/// Classifies an error from within the response's body.
pub(crate) fn from_body(error: &hyper::Error, timeout: Duration) -> AttemptResponse {
    describe(&Causes::of(Some(error)), timeout)
}

fn describe_connect(causes: &Causes, timeout: Duration) -> AttemptResponse {
    if let Some(detail) = &causes.tls {
        return failed(FailureKind::Tls, format!("TLS failed: {detail}"));
    }
    match causes.io {
        Some(io::ErrorKind::TimedOut) => no_response_within(timeout),
        // Connecting fails as refused or unreachable. A connection that breaks was established already, so this is the handshake.
        Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            failed(FailureKind::Tls, "the connection was closed during the TLS handshake")
        }
        _ => silent(FailureKind::Connect, format!("could not connect: {}", causes.deepest())),
    }
}

fn describe(causes: &Causes, timeout: Duration) -> AttemptResponse {
    if let Some(detail) = &causes.tls {
        return failed(FailureKind::Tls, format!("TLS failed: {detail}"));
    }
    if causes.timed_out || causes.io == Some(io::ErrorKind::TimedOut) {
        return no_response_within(timeout);
    }
    if causes.too_many_bytes {
        return failed(FailureKind::Body, TooManyBytes.to_string());
    }
    failed(FailureKind::Body, format!("no complete HTTP response: {}", causes.deepest()))
}

/// What an error's chain of sources says.
#[derive(Default)]
struct Causes {
    unresolved: Option<Result<AttemptResponse, Shortage>>,
    tls: Option<String>,
    io: Option<io::ErrorKind>,
    shortage: Option<Shortage>,
    timed_out: bool,
    too_many_bytes: bool,
    deepest: Option<String>,
}

impl Causes {
    fn of(first: Option<&(dyn Error + 'static)>) -> Causes {
        let mut causes = Causes::default();
        let mut next = first;
        while let Some(link) = next {
            causes.deepest = Some(link.to_string());
            next = link.source();
            causes.too_many_bytes |= link.is::<TooManyBytes>();
            if let Some(error) = link.downcast_ref::<Unresolved>() {
                causes.unresolved = Some(unresolved(error));
            } else if let Some(error) = link.downcast_ref::<rustls::Error>() {
                causes.tls = Some(describe_tls(error));
            } else if link.is::<TooManyTickets>() {
                causes.tls = Some(link.to_string());
            } else if let Some(error) = link.downcast_ref::<hyper::Error>() {
                causes.timed_out |= error.is_timeout();
            } else if let Some(error) = link.downcast_ref::<io::Error>() {
                causes.io = Some(error.kind());
                causes.shortage = error.raw_os_error().and_then(Shortage::of_os_error).or(causes.shortage);
                // The `source` of an `io::Error` skips the error that it wraps.
                if let Some(wrapped) = error.get_ref() {
                    next = Some(wrapped);
                }
            }
        }
        causes
    }

    fn deepest(&self) -> &str {
        self.deepest.as_deref().unwrap_or("unknown cause")
    }
}

fn describe_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the receiver does not speak TLS on this port".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(error))) => error.to_string(),
        other => other.to_string(),
    }
}
