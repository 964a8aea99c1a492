use std::error::Error;
use std::io;
use std::time::Duration;

use holdfast_core::ports::{Answer, FailureKind};
use holdfast_core::rules::guard::Refusal;
use rustls::InvalidMessage;

use crate::resolver::Unresolved;

/// A sentence for the operator has no use for more.
const MAX_DETAIL_CHARS: usize = 300;

pub(crate) fn failed(kind: FailureKind, detail: impl AsRef<str>) -> Answer {
    Answer::Failed { kind, detail: detail.as_ref().chars().take(MAX_DETAIL_CHARS).collect() }
}

/// Nothing was sent, because what was to be sent is no request.
pub(crate) fn not_a_request(why: impl std::fmt::Display) -> Answer {
    failed(FailureKind::Connect, format!("no request can be made: {why}"))
}

/// Nothing was sent, because of where it would have gone.
pub(crate) fn blocked(refusal: &Refusal) -> Answer {
    failed(FailureKind::Blocked, format!("the URL {refusal}"))
}

/// No connection was begun, because there is no address for one.
pub(crate) fn unresolved(error: &Unresolved) -> Answer {
    match error {
        Unresolved::NoAddress { .. } => failed(FailureKind::Dns, error.to_string()),
        Unresolved::Refused(refusal) => blocked(refusal),
    }
}

pub(crate) fn no_answer_within(timeout: Duration) -> Answer {
    failed(FailureKind::Timeout, format!("there was no answer within {timeout:?}"))
}

pub(crate) fn no_end_within(timeout: Duration, status: u16) -> Answer {
    failed(
        FailureKind::Timeout,
        format!("the answer began with {status}, but did not end within {timeout:?}"),
    )
}

/// What the HTTP client's error means. The client's own text is never used, because it holds the URL; the texts below it do not.
pub(crate) fn from_client(error: &reqwest::Error, timeout: Duration) -> Answer {
    let causes = Causes::of(error);
    if let Some(answer) = causes.unresolved {
        return answer;
    }
    if let Some(detail) = causes.tls {
        return failed(FailureKind::Tls, format!("TLS failed: {detail}"));
    }
    if error.is_timeout() {
        return no_answer_within(timeout);
    }
    let deepest = causes.deepest.as_deref().unwrap_or("the cause is not known");
    if error.is_builder() {
        return not_a_request(deepest);
    }
    if error.is_connect() {
        return match causes.io {
            // A connection that is being made is only ever refused or unreachable. One that breaks was made already, and the
            // handshake was under way.
            Some(
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe,
            ) => failed(FailureKind::Tls, "the connection was closed during the TLS handshake"),
            _ => failed(FailureKind::Connect, format!("could not connect: {deepest}")),
        };
    }
    failed(FailureKind::Body, format!("there was no complete HTTP answer: {deepest}"))
}

/// What was found on the way down the chain of an error.
#[derive(Default)]
struct Causes {
    unresolved: Option<Answer>,
    tls: Option<String>,
    io: Option<io::ErrorKind>,
    deepest: Option<String>,
}

impl Causes {
    fn of(error: &reqwest::Error) -> Causes {
        let mut causes = Causes::default();
        let mut next = error.source();
        while let Some(link) = next {
            causes.note(link);
            next = below(link);
        }
        causes
    }

    fn note(&mut self, link: &(dyn Error + 'static)) {
        if let Some(error) = link.downcast_ref::<Unresolved>() {
            self.unresolved = Some(unresolved(error));
        } else if let Some(error) = link.downcast_ref::<rustls::Error>() {
            self.tls = Some(describe_tls(error));
        } else if let Some(error) = link.downcast_ref::<io::Error>() {
            self.io = Some(error.kind());
        }
        self.deepest = Some(link.to_string());
    }
}

/// An `io::Error` that wraps another error leaves that one out of its chain.
fn below<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match link.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => link.source(),
    }
}

fn describe_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the receiver does not speak TLS on this port".to_owned()
        }
        other => other.to_string(),
    }
}
