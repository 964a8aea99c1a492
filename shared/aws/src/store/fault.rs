use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Source, StoreError};
use holdfast_core::records::{Key, Unreadable};

use crate::call_error::{CallError, Cause};

/// What went wrong, without anything that was stored: a payload or a secret must not reach a log through an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{operation} left {count} items unprocessed, repeatedly")]
    Unprocessed { operation: &'static str, count: usize },
    #[error("writes of {0} were throttled, repeatedly")]
    Throttled(Key),
    #[error("other transactions kept writing {0}")]
    Contended(Key),
    #[error("a transaction was cancelled: {codes}")]
    Cancelled { codes: String },
    #[error("the outcomes could not be counted within {0:?}")]
    CountTimedOut(Duration),
    #[error("an item has no key")]
    WithoutKey,
    #[error("the item {key} cannot be read")]
    Unreadable { key: Key, source: Unreadable },
    #[error("{0}")]
    Invalid(String),
}

impl Fault {
    pub(super) fn corrupt(key: Key, why: &str) -> Fault {
        Fault::Unreadable { key, source: Unreadable::Corrupt(why.to_owned()) }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        let error: fn(Source) -> StoreError = match fault {
            Fault::Unreadable { key, source } => return StoreError::Unreadable { key, source },
            Fault::Invalid(why) => return StoreError::Invalid(why),
            Fault::Unprocessed { .. } | Fault::Throttled(_) => StoreError::Throttled,
            Fault::CountTimedOut(_) => StoreError::TimedOut,
            Fault::Contended(_) | Fault::Cancelled { .. } | Fault::WithoutKey => StoreError::Failed,
            Fault::Call(ref call) => match call.cause {
                Cause::Throttled => StoreError::Throttled,
                Cause::TimedOut => StoreError::TimedOut,
                Cause::Other => StoreError::Failed,
            },
        };
        error(Arc::new(fault))
    }
}
