//! A deploy in the middle: for a while processes of two releases run, and the older one cannot read what the newer one has written.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_core::ports::{Outgoing, Received, StoreError, UnreadableMessage, Versioned};
use holdfast_core::records::{Key, Record, Unreadable, VERSION};
use holdfast_core::time::Timestamp;

const NEWER: u32 = VERSION + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    Older,
    Newer,
}

/// What the newer release has written and sent.
#[derive(Default)]
pub(super) struct Versions(Mutex<State>);

#[derive(Default)]
struct State {
    records: BTreeSet<Key>,
    messages: BTreeSet<Vec<u8>>,
}

/// When both releases run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deploy {
    pub(super) begins: Timestamp,
    pub(super) ends: Timestamp,
}

impl Versions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wrote(&self, by: Release, keys: impl IntoIterator<Item = Key>) {
        if by == Release::Newer {
            self.lock().records.extend(keys);
        }
    }

    pub(super) fn sent(&self, by: Release, messages: &[Outgoing]) {
        if by == Release::Newer {
            self.lock().messages.extend(messages.iter().map(|one| one.message.encode()));
        }
    }

    pub(super) fn is_unreadable(&self, by: Release, key: &Key) -> bool {
        by == Release::Older && self.lock().records.contains(key)
    }

    /// What this release is told about a record that it cannot read.
    pub(super) fn refusal(&self, by: Release, key: &Key) -> Option<StoreError> {
        let source = Unreadable::Newer(NEWER);
        self.is_unreadable(by, key).then(|| StoreError::Unreadable { key: key.clone(), source })
    }

    /// A record as this release reads it.
    pub(super) fn read(&self, by: Release, found: Versioned) -> Versioned {
        let key = found.record.key();
        if !self.is_unreadable(by, &key) {
            return found;
        }
        Versioned { record: Record::Newer { key, version: NEWER }, version: found.version }
    }

    /// A message as this release reads it.
    pub(super) fn receive(&self, by: Release, received: Received) -> Received {
        let Ok(message) = &received.message else { return received };
        let payload = message.encode();
        if by == Release::Newer || !self.lock().messages.contains(&payload) {
            return received;
        }
        let group = Some(message.group().to_owned());
        let unreadable = UnreadableMessage { why: Unreadable::Newer(NEWER), payload: payload.into(), group };
        Received { message: Err(unreadable), ..received }
    }
}
