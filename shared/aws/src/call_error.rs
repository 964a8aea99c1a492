//! What the SDK's errors mean to the ports.

use std::error::Error;
use std::fmt::Display;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use holdfast_core::ports::chain;

/// Why a request to AWS failed. Only what the error says about itself: its debug form holds the whole response.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed: {reason}")]
pub(crate) struct CallError {
    operation: &'static str,
    pub(crate) cause: Cause,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Throttled,
    TimedOut,
    Other,
}

impl CallError {
    pub(crate) fn new<E>(operation: &'static str, error: &SdkError<E>) -> CallError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let cause = match error {
            SdkError::TimeoutError(_) => Cause::TimedOut,
            SdkError::DispatchFailure(failure) if failure.is_timeout() => Cause::TimedOut,
            _ => error.code().map_or(Cause::Other, Cause::of_code),
        };
        let reason = match error.code() {
            Some(code) => describe(code, error.message()),
            None => chain(error),
        };
        CallError { operation, cause, reason }
    }

    /// One entry of a batch, of which the request itself succeeded.
    pub(crate) fn of_entry(operation: &'static str, code: &str, message: Option<&str>) -> CallError {
        CallError { operation, cause: Cause::of_code(code), reason: describe(code, message) }
    }
}

impl Cause {
    fn of_code(code: &str) -> Cause {
        // Some codes have a prefix of an older protocol, and some end in `Exception`.
        let throttled =
            ["Throttl", "ProvisionedThroughputExceeded", "RequestLimitExceeded", "TooManyRequests"];
        if throttled.iter().any(|part| code.contains(part)) { Cause::Throttled } else { Cause::Other }
    }
}

fn describe(code: impl Display, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{code}: {message}"),
        None => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_recognised_by_its_code() {
        let throttled = [
            "ThrottlingException",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "AWS.SimpleQueueService.RequestThrottled",
            "KmsThrottled",
        ];
        for code in throttled {
            assert_eq!(Cause::of_code(code), Cause::Throttled, "{code}");
        }
        for code in ["ResourceNotFoundException", "AccessDenied", "InternalError"] {
            assert_eq!(Cause::of_code(code), Cause::Other, "{code}");
        }
    }
}
