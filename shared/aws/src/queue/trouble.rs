//! What SQS says when it does not do what it was asked.

use std::error::Error;
use std::fmt::Display;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;

/// In one line. Only what the errors say of themselves: their debug form has the whole response in it.
pub(super) fn why<E>(error: &SdkError<E>) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if let Some(code) = error.code() {
        return said(code, error.message());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

pub(super) fn why_entry(failed: &BatchResultErrorEntry) -> String {
    said(&failed.code, failed.message.as_deref())
}

fn said(code: impl Display, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{code}: {message}"),
        None => code.to_string(),
    }
}

/// Whether the receipt named no message that could still be named by it: it was deleted, came back, or was received again.
pub(super) fn is_void(failed: &BatchResultErrorEntry) -> bool {
    let message = failed.message.as_deref().unwrap_or_default();
    // Some codes come with a prefix of the older protocol.
    failed.code.ends_with("ReceiptHandleIsInvalid")
        || failed.code.ends_with("MessageNotInflight")
        || (failed.code.ends_with("InvalidParameterValue") && message.contains("ReceiptHandle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_receipt_is_told_from_other_faults() {
        let failed = |code: &str, message: &str| {
            BatchResultErrorEntry::builder()
                .id("0")
                .sender_fault(true)
                .code(code)
                .message(message)
                .build()
                .unwrap()
        };
        let gone = "Value x for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
                    for visibility timeout change.";
        assert!(is_void(&failed("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")));
        assert!(is_void(&failed("AWS.SimpleQueueService.MessageNotInflight", "")));
        assert!(is_void(&failed("InvalidParameterValue", gone)));
        assert!(!is_void(&failed(
            "InvalidParameterValue",
            "Total VisibilityTimeout for the message is beyond the limit"
        )));
        assert!(!is_void(&failed("AccessDenied", "")));
    }
}
