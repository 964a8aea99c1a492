//! The latest failure at a URL, as operators see it.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Error texts are cut here: a URL's record is read before every attempt.
pub const MAX_TEXT_CHARS: usize = 200;

/// What kind of failure an attempt ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The receiver responded with a status other than 2xx.
    Status,
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

impl ErrorKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Status => "status",
            ErrorKind::Blocked => "blocked",
            ErrorKind::Dns => "dns",
            ErrorKind::Connect => "connect",
            ErrorKind::Tls => "tls",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Body => "body",
        }
    }
}

/// Why an attempt failed. Never a part of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    pub kind: ErrorKind,
    /// Of a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// At most [`MAX_TEXT_CHARS`].
    pub text: String,
}

impl AttemptError {
    #[must_use]
    pub fn new(kind: ErrorKind, text: &str) -> AttemptError {
        AttemptError { kind, status: None, text: text.chars().take(MAX_TEXT_CHARS).collect() }
    }

    #[must_use]
    pub fn of_status(status: u16) -> AttemptError {
        let text = format!("the receiver answered {status}");
        AttemptError { kind: ErrorKind::Status, status: Some(status), text }
    }
}

/// When the latest failed attempt ended, and why it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    pub at: Timestamp,
    #[serde(flatten)]
    pub error: AttemptError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let error = AttemptError::new(ErrorKind::Tls, &"ü".repeat(MAX_TEXT_CHARS + 1));
        assert_eq!(error.text, "ü".repeat(MAX_TEXT_CHARS));
        assert_eq!(AttemptError::new(ErrorKind::Dns, "no address").text, "no address");
    }

    #[test]
    fn kinds_are_stored_under_the_names_that_are_shown() {
        use ErrorKind::{Blocked, Body, Connect, Dns, Status, Timeout, Tls};
        for kind in [Status, Blocked, Dns, Connect, Tls, Timeout, Body] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
