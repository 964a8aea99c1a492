use std::error::Error;
use std::sync::Arc;

use super::queue::Outgoing;
use crate::records::{Key, Unreadable};
use crate::rules::backoff::Trouble;

/// What a dependency said, for the log. Shared, because one failed call may concern many messages.
pub type Source = Arc<dyn Error + Send + Sync>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the store is throttling requests")]
    Throttled(#[source] Source),
    #[error("the store did not respond in time")]
    TimedOut(#[source] Source),
    #[error("the store failed")]
    Failed(#[source] Source),
    #[error("the store is closed")]
    Closed,
    /// The record is left as it is.
    #[error("the record {key} cannot be read")]
    Unreadable {
        key: Key,
        #[source]
        source: Unreadable,
    },
    /// The caller asked for something that no store does: a bug, or a cursor of another list.
    #[error("invalid request to the store: {0}")]
    Invalid(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// What was expected of this key does not hold. Nothing was written.
    #[error("the record {0} was modified concurrently")]
    Conflict(Key),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    #[error("the queue is throttling requests")]
    Throttled(#[source] Source),
    #[error("the queue did not respond in time")]
    TimedOut(#[source] Source),
    #[error("the queue failed")]
    Failed(#[source] Source),
    #[error("the queue is closed")]
    Closed,
}

/// Some messages were not sent. The others were: a batch may fail in part.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} messages were not sent", .unsent.len())]
pub struct SendError {
    pub unsent: Vec<Outgoing>,
    #[source]
    pub source: QueueError,
}

impl StoreError {
    /// How long to wait before the same call is worth another try.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        match self {
            StoreError::Unreadable { source: Unreadable::Newer(_), .. } => Trouble::NewerVersion,
            StoreError::Throttled(_)
            | StoreError::TimedOut(_)
            | StoreError::Failed(_)
            | StoreError::Closed
            | StoreError::Unreadable { source: Unreadable::Corrupt(_), .. }
            | StoreError::Invalid(_) => Trouble::Dependency,
        }
    }
}

/// Returns an error and its sources in one line, for the log.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line.push_str(": ");
        line.push_str(&error.to_string());
        source = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the key cannot be read")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_sources_follow_the_error() {
        let error = Outer(std::io::Error::other("connection refused"));
        assert_eq!(chain(&error), "the key cannot be read: connection refused");
    }
}
