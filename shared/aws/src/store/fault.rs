use std::error::Error;

use holdfast_core::ports::StoreError;
use holdfast_core::records::Key;

/// What went wrong, without anything that was stored: a payload or a secret must not reach a log through an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{operation} failed: {chain}")]
    Call { operation: &'static str, chain: String },
    #[error("{operation} left {count} items undone, again and again")]
    LeftUndone { operation: &'static str, count: usize },
    #[error("a transaction was cancelled: {codes}")]
    Cancelled { codes: String },
    #[error("{} / {} is too busy", .0.partition, .0.sort)]
    Busy(Key),
    #[error("the item {} / {} cannot be read", .0.partition, .0.sort)]
    Unreadable(Key),
    #[error("an item without a key")]
    WithoutKey,
    #[error("a record cannot be written as an item")]
    Unwritable,
    #[error("{count} {what} are more than {most}")]
    TooMany { what: &'static str, count: usize, most: usize },
    #[error("a transaction writes each key once")]
    KeyTwice,
    #[error("not a cursor of this list")]
    NotACursor,
}

impl Fault {
    /// The SDK says "service error" and keeps what happened in the chain of causes.
    pub(super) fn call(operation: &'static str, error: &(dyn Error + 'static)) -> Fault {
        let causes = std::iter::successors(Some(error), |e: &&(dyn Error + 'static)| (*e).source());
        let chain = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        Fault::Call { operation, chain }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        StoreError(fault.to_string())
    }
}
