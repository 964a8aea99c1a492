//! What the use-cases need of the world. Adapters: memory (`sim`), embedded (SQLite), AWS.

mod clock;
mod queue;
mod sender;
mod store;

pub use clock::{Clock, Entropy};
pub use queue::{
    Delay, DelayTooLong, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, Received, SendError,
};
pub use sender::{Answer, AttemptRequest, AttemptResult, FailureKind, Refused, Sender};
pub use store::{
    BodyKey, Count, Expect, IndexCount, IndexQuery, MOST_KEYS, MOST_WRITES, Order, Page, Query, Store,
    StoreError, Versioned, Write, WriteError,
};
