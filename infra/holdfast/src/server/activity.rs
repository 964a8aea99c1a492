//! What one connection is doing.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use holdfast_api::KeyUse;
use tokio::sync::Notify;

use super::holders::{Holders, MAX_PER_HOLDER};

/// So many requests without a valid key are answered on one connection. A stranger who keeps thousands busy would delay other strangers, and
/// every client is one until it has shown its key; to open new ones takes longer.
const MAX_REQUESTS_OF_STRANGER: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// No request has begun.
    Idle,
    /// The head of a request is arriving.
    Head,
    /// A request is being answered.
    Busy,
    /// The request cannot be answered before more of its body arrives.
    Body,
}

/// Shared by the stream, which sees when a head begins, by the service, which sees when it is complete and answered, and by the list of
/// open connections, which may close it. One task uses the stream and the service, so there is nothing to order.
pub(super) struct Activity {
    phase: AtomicU8,
    /// The step at which no request was in progress any more.
    idle_since: AtomicU64,
    /// The step at which the body of the request was first waited for.
    body_since: AtomicU64,
    /// Counts the steps of all connections, which tells without a clock which one has been idle longer.
    steps: Arc<AtomicU64>,
    key_use: KeyUse,
    /// All connections of each holder, and as whose this one is counted among them; 0: as no one's.
    holders: Arc<Holders>,
    counted_as: AtomicU64,
    /// Requests that were answered while no valid key had been used.
    requests_of_stranger: AtomicU32,
    is_displaced: AtomicBool,
    displaced: Notify,
}

impl Activity {
    /// Of a new connection.
    pub(super) fn new(steps: &Arc<AtomicU64>, holders: &Arc<Holders>) -> Activity {
        Activity {
            phase: AtomicU8::new(Phase::Idle as u8),
            idle_since: AtomicU64::new(steps.fetch_add(1, Ordering::Relaxed)),
            body_since: AtomicU64::new(0),
            steps: Arc::clone(steps),
            key_use: KeyUse::default(),
            holders: Arc::clone(holders),
            counted_as: AtomicU64::new(0),
            requests_of_stranger: AtomicU32::new(0),
            is_displaced: AtomicBool::new(false),
            displaced: Notify::new(),
        }
    }

    pub(super) fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    pub(super) fn head_begins(&self) {
        self.phase.store(Phase::Head as u8, Ordering::Relaxed);
    }

    pub(super) fn head_complete(&self) {
        self.phase.store(Phase::Busy as u8, Ordering::Relaxed);
    }

    /// The request waits for the first of its body, or again for more.
    pub(super) fn body_awaited(&self, is_first: bool) {
        if is_first {
            self.body_since.store(self.steps.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.phase.store(Phase::Body as u8, Ordering::Relaxed);
    }

    /// The body is complete, or no longer wanted.
    pub(super) fn body_ended(&self) {
        if self.is(Phase::Body) {
            self.phase.store(Phase::Busy as u8, Ordering::Relaxed);
        }
    }

    /// Whether the connection is to be closed after this request. `is_refused`: it had no valid key, and needed one. To look for a key takes
    /// a read, so there is one for each connection.
    pub(super) fn is_last_request(&self, is_refused: bool) -> bool {
        let is_stranger = self.holder().is_none();
        let requests =
            if is_stranger { self.requests_of_stranger.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        let has_too_many = self.connections_of_holder() > MAX_PER_HOLDER;
        has_too_many
            || requests >= MAX_REQUESTS_OF_STRANGER
            || (is_stranger && is_refused)
            || self.is_displaced()
    }

    /// How many connections the holder of this one has.
    fn connections_of_holder(&self) -> usize {
        let holder = self.holder();
        let before = self.counted_as.swap(holder.map_or(0, NonZeroU64::get), Ordering::Relaxed);
        self.holders.moved(NonZeroU64::new(before), holder)
    }

    pub(super) fn request_answered(&self) {
        self.idle_since.store(self.steps.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.phase.store(Phase::Idle as u8, Ordering::Relaxed);
    }

    /// `None`: a request is in progress. One whose head is not complete does not count, or a few bytes would keep a place.
    pub(super) fn idle_since(&self) -> Option<u64> {
        (self.is(Phase::Idle) || self.is(Phase::Head)).then(|| self.idle_since.load(Ordering::Relaxed))
    }

    /// `None`: no request is waiting for its body.
    pub(super) fn body_since(&self) -> Option<u64> {
        self.is(Phase::Body).then(|| self.body_since.load(Ordering::Relaxed))
    }

    /// For the extensions of its requests.
    pub(super) fn key_use(&self) -> KeyUse {
        self.key_use.clone()
    }

    /// Whose key was used last.
    pub(super) fn holder(&self) -> Option<NonZeroU64> {
        self.key_use.holder()
    }

    pub(super) fn displace(&self) {
        self.is_displaced.store(true, Ordering::Relaxed);
        self.displaced.notify_one();
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }

    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.holders.moved(NonZeroU64::new(*self.counted_as.get_mut()), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_with_too_many_connections_has_them_closed_after_a_response() {
        let (steps, holders) = (Arc::default(), Arc::default());
        let answered = || {
            let activity = Activity::new(&steps, &holders);
            activity.key_use().record(NonZeroU64::MIN);
            let is_last = activity.is_last_request(false);
            (activity, is_last)
        };
        let open: Vec<_> = (0..MAX_PER_HOLDER).map(|_| answered()).collect();
        assert!(open.iter().all(|(_, is_last)| !is_last));
        let (one_more, is_last) = answered();
        assert!(is_last);
        drop(one_more);
        assert!(!open[0].0.is_last_request(false), "there is room again");
    }
}
