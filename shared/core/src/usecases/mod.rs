//! What Holdfast does, one verb per file, over the ports.
//!
//! Architecture Invariant: state lives in records, tickets are only hints, and any lost hint is sent again. Every use-case may
//! be dropped at any await and run again: the order of writes is the body, the record, the ticket, the acknowledgement.

mod accept;
mod activity;
mod announce;
mod attempt;
mod bulk_replay;
mod conclude;
mod deliver;
mod enqueue;
mod expire;
mod fan_out;
mod follow;
mod handle;
mod inspect;
mod job;
mod keys;
mod new_url;
mod overview;
mod park;
mod ping;
mod probe;
mod release;
mod replay;
mod replayable;
mod resettle;
mod retry;
mod rotate;
mod steer;
mod subscribe;
mod subscriptions;
mod surroundings;
mod sweep;
mod tally;
mod target;
mod unsubscribe;
mod update;

use std::sync::Arc;
use std::time::Duration;

pub use accept::{AcceptError, Accepted, NewEvent};
pub use follow::{Followed, MOST_FOLLOWED};
pub use handle::Verdict;
pub use inspect::{DeliveryFilter, DeliveryView, EventView, ListError, ListPage, Scope, UrlView};
pub use keys::{DeleteKeyError, MadeKey, NewKey};
pub use overview::{MOST_MINUTES_SHOWN, Overview, UrlCounts};
pub use ping::PingError;
pub use replay::ReplayError;
pub use rotate::RotateError;
pub use steer::{SteerError, Steered};
pub use subscribe::{NewSubscription, SubscribeError};
pub use sweep::SweepReport;
pub use tally::Tally;
pub use update::{SubscriptionPatch, UpdateError};

use crate::ports::{
    Clock, Entropy, Queue, SendError, Sender, Store, StoreError, Versioned, Write, WriteError,
};
use crate::records::Key;
use crate::rules::schedule::Schedule;
use crate::time::Timestamp;
use activity::Activity;
use subscriptions::SubscriptionCache;
use tally::Counters;

/// How many first-attempt successes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryLog {
    /// Every delivery can be looked up, and replayed.
    All,
    /// Only deliveries that needed a record: the cheapest.
    Trouble,
}

/// What an operator can tune.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From the start of an attempt to its success.
    pub http_timeout: Duration,
    /// The longest that one function runs: how long a lease holds.
    pub function_timeout: Duration,
    /// How long delivered and dead deliveries are kept.
    pub keep: Duration,
    pub delivery_log: DeliveryLog,
    pub schedule: Schedule,
    /// Whether `http://` URLs may be subscribed.
    pub http_allowed: bool,
    /// For how long an old signing secret signs along after it was replaced.
    pub secret_overlap: Duration,
}

/// What Holdfast promises where nobody configured anything else.
impl Default for Settings {
    fn default() -> Settings {
        Settings {
            http_timeout: Duration::from_secs(5),
            function_timeout: Duration::from_secs(30),
            keep: Duration::from_secs(14 * 86_400),
            delivery_log: DeliveryLog::All,
            schedule: Schedule::default(),
            http_allowed: false,
            secret_overlap: Duration::from_secs(24 * 3600),
        }
    }
}

/// How long it may take to write down what came of an attempt.
const LONGEST_CONCLUSION: Duration = Duration::from_secs(2);

/// 30 days: a secret was replaced for a reason.
const LONGEST_OVERLAP: Duration = Duration::from_secs(720 * 3_600);

const SHORTEST_KEEP: Duration = Duration::from_secs(7 * 86_400);

impl Settings {
    /// What is kept of a function's time for writing down what came of its attempts.
    #[must_use]
    pub fn time_to_conclude(&self) -> Duration {
        LONGEST_CONCLUSION.min(self.function_timeout / 10)
    }

    /// All that is wrong with them, in sentences for the operator.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.http_timeout.is_zero() {
            faults.push("the HTTP timeout must be more than zero".to_owned());
        }
        if self.http_timeout >= self.function_timeout {
            let (http, function) = (self.http_timeout, self.function_timeout);
            faults.push(format!(
                "the HTTP timeout ({http:?}) must be less than the function timeout ({function:?})"
            ));
        }
        if self.keep < SHORTEST_KEEP {
            faults.push("deliveries must be kept for at least 7 days".to_owned());
        }
        if self.secret_overlap > LONGEST_OVERLAP {
            faults.push("a replaced signing secret may sign along for at most 720 hours".to_owned());
        }
        faults
    }
}

pub struct Ports {
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    pub sender: Arc<dyn Sender>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

/// All use-cases, over one set of ports. Holds no state that matters: any number may run beside each other.
pub struct Engine {
    ports: Ports,
    settings: Settings,
    subscriptions: SubscriptionCache,
    tally: Counters,
    activity: Activity,
}

/// The world did not answer. Nothing is lost: whoever asked asks again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl From<StoreError> for Unavailable {
    fn from(e: StoreError) -> Self {
        Unavailable(e.to_string())
    }
}

impl From<WriteError> for Unavailable {
    fn from(e: WriteError) -> Self {
        Unavailable(e.to_string())
    }
}

impl From<SendError> for Unavailable {
    fn from(e: SendError) -> Self {
        Unavailable(e.to_string())
    }
}

/// How often a write is tried again on fresher records before the caller is told to come back.
const MOST_CONFLICTS: usize = 16;

/// For how long a stored body outlives the records that need it.
const BODY_MARGIN: Duration = Duration::from_secs(86_400);

impl Engine {
    #[must_use]
    pub fn new(ports: Ports, settings: Settings) -> Engine {
        Engine {
            ports,
            settings,
            subscriptions: SubscriptionCache::default(),
            tally: Counters::default(),
            activity: Activity::default(),
        }
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.ports.clock
    }

    /// Whether an attempt that begins now ends before `until_real` and can be written down, come what may.
    fn check_time(&self, until_real: Timestamp) -> Result<(), Unavailable> {
        let needed = self.settings.http_timeout + self.settings.time_to_conclude();
        if self.ports.clock.now_real() + needed > until_real {
            return Err(Unavailable("there is not enough time left for it".to_owned()));
        }
        Ok(())
    }

    fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.ports.entropy.fill(&mut bytes);
        bytes
    }

    /// `false`: somebody else changed something first, and nothing was written.
    async fn try_write(&self, writes: Vec<Write>) -> Result<bool, Unavailable> {
        match self.ports.store.write(writes).await {
            Ok(()) => Ok(true),
            Err(WriteError::Conflict(_)) => Ok(false),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    async fn get_one(&self, key: Key) -> Result<Option<Versioned>, Unavailable> {
        Ok(self.ports.store.get(&[key]).await?.into_iter().next().flatten())
    }

    /// Until when a body is kept that is needed from now on.
    fn body_remove_at(&self) -> Timestamp {
        self.ports.clock.now() + self.settings.schedule.lifetime + self.settings.keep + BODY_MARGIN
    }
}
