use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::ids::Tenant;
use crate::rules::last_failure::ErrorKind;
use crate::rules::shortage::Shortage;

/// Makes attempts. A failed attempt is data, not an error of ours. The error is a shortage of ours: nothing was sent, or we were too
/// busy to see the response.
#[async_trait]
pub trait Sender: Send + Sync {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage>;

    /// Whether this URL may be subscribed, as far as is known now. Every attempt is checked again, because the
    /// addresses of a name may change.
    async fn check(&self, _tenant: &Tenant, _url: &str) -> Result<(), Refused> {
        Ok(())
    }
}

/// The rule that a URL breaks, as what follows "the URL".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// One POST. Not `Debug`: it carries a payload and perhaps a token.
#[derive(Clone)]
pub struct AttemptRequest {
    /// Whose attempt this is, so that no tenant takes more than its share of what attempts need.
    pub tenant: Tenant,
    pub url: String,
    pub body: Bytes,
    /// Names in lower case.
    pub headers: Vec<(&'static str, String)>,
}

/// How the POST ended, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    pub response: AttemptResponse,
    pub took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptResponse {
    /// The receiver responded in time; 2xx is success, everything else is not.
    Status {
        status: u16,
        /// At most 4 KiB of the response body, as text.
        excerpt: String,
        /// From a `retry-after` header, in either of its forms, as a wait from now.
        retry_after: Option<Duration>,
    },
    /// There was no complete response.
    Failed {
        kind: FailureKind,
        detail: String,
        /// Not a byte came back: the receiver may never have been reached.
        is_silent: bool,
    },
}

impl AttemptResponse {
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, AttemptResponse::Status { status: 200..=299, .. })
    }

    /// Whether not a byte came back, so that it may be our network that failed.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self, AttemptResponse::Failed { is_silent: true, .. })
    }

    /// How long the receiver asked to be left alone. Only 429 and 503 may ask.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            AttemptResponse::Status { status: 429 | 503, retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It was not sent, because it leads to where attempts may not go.
    Blocked,
    /// The name has no address.
    Dns,
    Connect,
    Tls,
    Timeout,
    /// The connection broke, or what came back is not HTTP.
    Body,
}

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> ErrorKind {
        match kind {
            FailureKind::Blocked => ErrorKind::Blocked,
            FailureKind::Dns => ErrorKind::Dns,
            FailureKind::Connect => ErrorKind::Connect,
            FailureKind::Tls => ErrorKind::Tls,
            FailureKind::Timeout => ErrorKind::Timeout,
            FailureKind::Body => ErrorKind::Body,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ErrorKind::from(*self).as_str())
    }
}
