//! Counts what the attacker's attempts do, so that the victim's deliveries can be compared with them without a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All clones are the same tally.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    started: AtomicU64,
    ended: AtomicU64,
}

/// How many of the attacker's attempts had started and ended at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) started: u64,
    pub(super) ended: u64,
}

impl Tally {
    /// An attempt of the attacker has arrived at a receiver. It ends when the returned value is dropped, which also happens when the
    /// server closes the connection.
    pub(super) fn start(&self) -> Running {
        self.0.started.fetch_add(1, Ordering::SeqCst);
        Running(self.clone())
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { started: self.0.started.load(Ordering::SeqCst), ended: self.0.ended.load(Ordering::SeqCst) }
    }
}

pub(super) struct Running(Tally);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Mark {
    /// What happened from an earlier mark to this one.
    pub(super) fn since(self, earlier: Mark) -> Mark {
        Mark {
            started: self.started.saturating_sub(earlier.started),
            ended: self.ended.saturating_sub(earlier.ended),
        }
    }
}
