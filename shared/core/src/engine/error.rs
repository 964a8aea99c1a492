use crate::ids::EventKey;
use crate::ports::{SendError, StoreError, WriteError};
use crate::rules::backoff::Trouble;
use crate::rules::shortage::Shortage;

/// What most of the engine returns.
pub(crate) type Result<T, E = Unavailable> = std::result::Result<T, E>;

/// The engine could not do what it was asked. Nothing is lost: the caller tries again later.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("{0} was modified concurrently; try again")]
    Conflict(String),
    #[error("not enough time is left to make an attempt")]
    OutOfTime,
    /// The attempt was not made, and counts nowhere.
    #[error("the attempt was not made: {0}")]
    Shortage(#[from] Shortage),
    #[error("the URL or its subscription changed before the attempt started")]
    Changed,
    #[error("the body of the event {0} is missing")]
    BodyMissing(EventKey),
    #[error("{0} events were not stored")]
    EventsNotStored(usize),
    #[error("the event {0} is being accepted by another request")]
    Busy(String),
    /// No handler took the message, so it must not count as done.
    #[error("the message was not handled")]
    NotHandled,
}

impl Unavailable {
    /// What to do about it: how long a message rests before it is handled again.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        match self {
            Unavailable::Store(error) => error.trouble(),
            Unavailable::Shortage(_) => Trouble::Shortage,
            Unavailable::Conflict(_)
            | Unavailable::OutOfTime
            | Unavailable::Changed
            | Unavailable::Busy(_)
            | Unavailable::NotHandled => Trouble::Contention,
            Unavailable::Send(_) | Unavailable::BodyMissing(_) | Unavailable::EventsNotStored(_) => {
                Trouble::Dependency
            }
        }
    }
}

impl From<WriteError> for Unavailable {
    fn from(error: WriteError) -> Unavailable {
        match error {
            WriteError::Conflict(key) => Unavailable::Conflict(key.to_string()),
            WriteError::Store(error) => Unavailable::Store(error),
        }
    }
}
