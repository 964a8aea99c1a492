//! What the engine needs from its host. Adapters: memory (`sim`), embedded (SQLite) and AWS.

mod backlog;
mod clock;
mod error;
mod feed;
mod queue;
mod sender;
mod store;

pub use backlog::{Backlog, NotCounted, Waiting};
pub use clock::{Clock, Entropy};
pub use error::{QueueError, SendError, Source, StoreError, WriteError, chain};
pub use feed::{Feed, FeedEvent};
pub use queue::{Inbox, Outgoing, Queue, QueueName, Receipt, Received, Settlement, UnreadableMessage};
pub use sender::{AttemptRequest, AttemptResponse, AttemptResult, FailureKind, Refused, Sender};
pub use store::{
    BodyKey, Count, Expect, IndexCount, IndexQuery, MAX_KEYS, MAX_WRITES, Order, Page, Query, Store,
    Versioned, Write,
};

pub use crate::rules::delay::{Delay, DelayTooLong};
