//! The contract suite on the embedded store and queues.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Backlog, Clock, Inbox, Queue, Store};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::VirtualClock;
use holdfast_sim::contract::{Harness, VISIBILITY};

struct OnDisk {
    clock: Arc<VirtualClock>,
    embedded: Embedded,
    // Dropped last: the database lives in it.
    _dir: tempfile::TempDir,
}

fn with(options: Options) -> OnDisk {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let dir = tempfile::tempdir().unwrap();
    let options = Options { visibility: VISIBILITY, per_group_limit: 10_000, ..options };
    let embedded = Embedded::open(dir.path(), Arc::clone(&clock) as Arc<dyn Clock>, options).unwrap();
    OnDisk { clock, embedded, _dir: dir }
}

fn on_disk() -> OnDisk {
    with(Options::default())
}

impl Harness for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.embedded.store) as _
    }

    fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.embedded.queue) as _
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.embedded.queue) as _
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    fn backlog(&self) -> Arc<dyn Backlog> {
        Arc::clone(&self.embedded.backlog) as _
    }

    fn advance(&self, wait: Duration) {
        self.clock.advance(wait);
    }
}

holdfast_sim::contract_tests!(on_disk);
holdfast_sim::backlog_contract_tests!(on_disk);

/// The same with bodies that are stored apart from their messages.
mod bodies_apart {
    use super::*;

    fn on_disk() -> OnDisk {
        with(Options { keep_bodies: Some(Duration::from_secs(86_400)), ..Options::default() })
    }

    holdfast_sim::contract_tests!(on_disk);
    holdfast_sim::backlog_contract_tests!(on_disk);
}
