//! What Holdfast does, over the ports. The rooms are named after what happens to a delivery.
//!
//! | room | what happens there |
//! |---|---|
//! | `accept` | takes events: ids, matching, the first-attempt messages, fan-out |
//! | `deliver` | handles a batch of messages: first attempts, retries, and what follows from their outcomes |
//! | `recover` | parks deliveries, probes and releases URLs, sweeps, expires |
//! | `subscriptions` | creates and changes subscriptions, and moves their deliveries along |
//! | `replay` | gives finished deliveries a new epoch |
//! | `urls` | changes a URL's state on request, and announces changes |
//! | `tenants` | shows a tenant, and sets its quotas |
//! | `inspect` | what can be seen of all that |
//!
//! `steps` counts what the deliveries of a release or bulk replay came to.
//! `repository` has the typed reads and conditional writes that all of them share.
//!
//! Architecture Invariant: state lives in records, tickets are only hints, and any lost hint is sent again. (A first-attempt message is the
//! delivery itself until the delivery has a record.) Every use-case may be
//! dropped at any await and run again: the order of writes is the body, the record, the ticket, the acknowledgement.
//!
//! An engine over the ports in memory, from a post to a delivery:
//!
//! ```
//! # use std::sync::Arc;
//! # use holdfast_core::engine::{Engine, NewEvent, NewSubscription, Ports, Settings};
//! # use holdfast_core::ports::{Inbox, QueueName};
//! # use holdfast_core::rules::filter::Connector;
//! # use holdfast_core::time::Timestamp;
//! use holdfast_sim::{Memory, block_on, me};
//!
//! let memory = Memory::new();
//! let engine = Engine::new(memory.ports(), Settings { http_allowed: true, ..Settings::default() });
//! let tenant = "default".into();
//! block_on(async {
//!     engine.subscribe(&tenant, NewSubscription::to("http://shop.test/hook", "order.created"), me()).await?;
//!     let event = NewEvent::new("order.created", r#"{"total": 12}"#);
//!     let accepted = engine.accept(&tenant, vec![event]).await?;
//!     assert_eq!(accepted[0].deliveries, 1);
//!     // A host takes batches from the queues and settles them as the engine says.
//!     let batch = memory.queue.receive(QueueName::First, 10).await?;
//!     engine.handle(batch, Timestamp::MAX).await;
//!     assert_eq!(memory.receiver.requests().len(), 1);
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })
//! .unwrap();
//! ```

mod accept;
mod audit;
mod changes;
mod counters;
mod deliver;
mod error;
mod gate;
mod inspect;
mod jobs;
mod keys;
mod lately;
mod recover;
mod replay;
mod repository;
mod settings;
mod spans;
mod steps;
mod subscriptions;
mod tenants;
mod tickets;
mod urls;

use std::sync::Arc;

pub use crate::ports::Page;
pub use crate::records::Actor;
pub use accept::{AcceptError, Accepted, NewEvent, OverQuota, PostError, Posted};
pub use audit::AuditFilter;
pub use counters::{Counters, LATENCY_BOUNDS_MS, TenantCounters};
pub use error::Unavailable;
pub use gate::{Entering, Gate, GateLimits, Inside, StepTurns, yield_now};
pub use inspect::{
    AllAttemptsPage, AttemptFilter, AttemptsPage, DeliveryFilter, DeliveryView, EventFilter, EventView,
    Explanation, ListError, ListedEvent, MAX_FEED_ITEMS, MAX_MINUTES_SHOWN, Overview, Scope, StateCounts,
    TroubleSort, UrlCounts, UrlDetails, UrlFilter, UrlView, Verdict,
};
pub use keys::{CreatedKey, DeleteKeyError, NewKey};
pub use recover::SweepReport;
pub use replay::{ReplayError, ReplayUrlError};
pub use settings::{DeliveryLog, Settings};
pub use spans::{AcceptSpan, SPAN_TARGET};
pub use subscriptions::{
    MAX_PINGS, MAX_TRIED, NewSubscription, PingError, RotateError, SubscribeError, SubscriptionPatch,
    TooLarge, TooManyUrls, TriedEvent, TriedSubscription, UpdateError,
};
pub use tenants::{SetQuotasError, TenantView};
pub use urls::{ChangeUrlStateError, ChangedTooOften, UrlStateChange};

use crate::ids::Tenant;
use crate::ports::{Backlog, Clock, Entropy, Feed, Queue, Sender, Store};
use crate::time::Timestamp;
use accept::{Crowd, QuotaStates, SubscriptionCache};
use changes::TenantChanges;
use counters::{AtomicCounters, TenantTotals};
use deliver::{BodyCache, GivenBackLog, Outage, PacedLog};
use error::Result;
use inspect::Activity;
use repository::{Change, ConflictRetries, Loaded, Repository};
use urls::HandChanges;

pub struct Ports {
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    pub backlog: Arc<dyn Backlog>,
    pub sender: Arc<dyn Sender>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

/// All use-cases, over one set of ports. Holds no state that matters: any number of engines may run beside each other.
pub struct Engine {
    ports: Ports,
    feed: Option<Arc<dyn Feed>>,
    repository: Repository,
    settings: Settings,
    subscriptions: SubscriptionCache,
    quotas: QuotaStates,
    crowd: Crowd,
    hand_changes: HandChanges,
    tenant_changes: TenantChanges,
    bodies: BodyCache,
    outage: Outage,
    shortage_log: PacedLog,
    given_back_log: GivenBackLog,
    /// For work that keeps a thread busy for milliseconds.
    long_work: Gate<Tenant>,
    pings: Gate<Tenant>,
    counters: AtomicCounters,
    tenant_totals: Arc<TenantTotals>,
    activity: Activity,
}

impl Engine {
    #[must_use]
    pub fn new(ports: Ports, settings: Settings) -> Engine {
        let long_work =
            Gate::new(GateLimits { in_all: settings.max_long_work, per_holder: 1, one_each: false });
        let tenant_totals = Arc::new(TenantTotals::new(settings.count_by_tenant));
        let (store, clock) = (Arc::clone(&ports.store), Arc::clone(&ports.clock));
        Engine {
            repository: Repository::new(store, clock, Arc::clone(&tenant_totals)),
            tenant_totals,
            ports,
            feed: None,
            settings,
            subscriptions: SubscriptionCache::default(),
            quotas: QuotaStates::default(),
            crowd: Crowd::default(),
            hand_changes: HandChanges::default(),
            tenant_changes: TenantChanges::default(),
            bodies: BodyCache::default(),
            outage: Outage::default(),
            shortage_log: PacedLog::default(),
            given_back_log: GivenBackLog::default(),
            long_work,
            pings: Gate::new(subscriptions::PINGS),
            counters: AtomicCounters::default(),
            activity: Activity::default(),
        }
    }

    /// Publishes what is announced to tenants to operators too.
    #[must_use]
    pub fn with_feed(self, feed: Arc<dyn Feed>) -> Engine {
        Engine { feed: Some(feed), ..self }
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.ports.clock
    }

    /// Whether an attempt that starts now ends before `until_real` and can be recorded, even if it times out.
    fn check_time(&self, until_real: Timestamp) -> Result<()> {
        let needed = self.settings.http_timeout + self.settings.time_to_record();
        if self.ports.clock.now_real() + needed > until_real {
            return Err(Unavailable::OutOfTime);
        }
        Ok(())
    }

    /// Whether a lease was taken by a process that has ended, and of which there is no other. It need not be waited for.
    fn is_of_earlier_process(&self, lease_until_real: Timestamp) -> bool {
        let since = self.settings.only_process_since_real;
        since.is_some_and(|since| lease_until_real < since + self.settings.function_timeout)
    }

    fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.ports.entropy.fill(&mut bytes);
        bytes
    }

    /// Until when a body is kept that is needed from now on.
    fn body_remove_at(&self) -> Timestamp {
        self.ports.clock.now() + self.settings.body_lifetime()
    }
}
