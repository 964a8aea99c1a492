//! SQS's errors as those of the port.

use std::sync::Arc;

use aws_sdk_sqs::types::BatchResultErrorEntry;
use holdfast_core::ports::QueueError;

use crate::call_error::{CallError, Cause};

impl From<CallError> for QueueError {
    fn from(error: CallError) -> QueueError {
        match error.cause {
            Cause::Throttled => QueueError::Throttled(Arc::new(error)),
            Cause::TimedOut => QueueError::TimedOut(Arc::new(error)),
            Cause::Other => QueueError::Failed(Arc::new(error)),
        }
    }
}

/// Whether the receipt is void: its message was deleted, is visible again or was received again.
pub(super) fn is_void(failed: &BatchResultErrorEntry) -> bool {
    let message = failed.message.as_deref().unwrap_or_default();
    // Some codes have a prefix of an older protocol.
    failed.code.ends_with("ReceiptHandleIsInvalid")
        || failed.code.ends_with("MessageNotInflight")
        || (failed.code.ends_with("InvalidParameterValue") && message.contains("ReceiptHandle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_receipt_is_distinguished_from_other_errors() {
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
