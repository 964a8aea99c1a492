//! Very many URLs and deliveries, as records that were written long before: for tests of what lists and pages cost when the store is large.

use std::time::Duration;

use holdfast_core::ids::{DeliveryKey, EventKey, JobId, SubscriptionId, Tenant, UrlId, new_event_id};
use holdfast_core::records::{
    Attempt, AttemptSummaries, AttemptSummary, DeliveryRecord, EventRecord, IdPhase, LoggedDelivery,
    MinuteRecord, NewDelivery, ParkedPointer, Record, ReplayOf, ReplayRecord, Subscription, TenantVersion,
    UrlListEntry, UrlRecord,
};
use holdfast_core::rules::activity::Counts;
use holdfast_core::rules::delivery::{AttemptOutcome, Reason};
use holdfast_core::rules::filter::Connector;
use holdfast_core::rules::health::{DISABLE_MIN_ATTEMPTS, FAILING_STREAK, OperatorAction, Outcome};
use holdfast_core::rules::last_failure::{AttemptError, ErrorKind};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::rules::signing::Secret;
use holdfast_core::time::{Now, Timestamp};

/// Half of all deliveries go to so many URLs.
const BUSY_URLS: usize = 8;
/// Of so many URLs, one is frozen, one disabled and one failing.
const TROUBLE_EVERY: usize = 20;
/// The default quota of a tenant.
const MAX_SUBSCRIPTIONS: usize = 10_000;
const MAX_SUMMARIES: usize = 3_500;
const MINUTES: i64 = 1_440;
const KEEP: Duration = Duration::from_secs(14 * 86_400);

/// How much there is, and when.
#[derive(Clone, Debug)]
pub struct Bulk {
    pub tenant: Tenant,
    pub urls: usize,
    pub deliveries: usize,
    pub now: Timestamp,
    /// How long ago the oldest delivery was accepted. Beyond 52 hours, some have expired and no sweep has found them.
    pub span: Duration,
}

/// The trouble of a URL, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Frozen,
    Disabled,
    Failing,
    None,
}

fn trouble(url: usize) -> Trouble {
    match url % TROUBLE_EVERY {
        0 => Trouble::Frozen,
        1 => Trouble::Disabled,
        2 => Trouble::Failing,
        _ => Trouble::None,
    }
}

/// Sixteen bytes that no other number of this kind has.
fn bytes(kind: u8, n: usize) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[8..].copy_from_slice(&(n as u64).to_be_bytes());
    bytes
}

fn error(url: usize) -> AttemptError {
    match (url / TROUBLE_EVERY) % 5 {
        0 => AttemptError::of_status(500),
        1 => AttemptError::of_status(410),
        2 => AttemptError::new(ErrorKind::Dns, "the name has no address"),
        3 => AttemptError::new(ErrorKind::Tls, "the certificate has expired"),
        _ => AttemptError::new(ErrorKind::Timeout, "no answer within 5 s"),
    }
}

impl Bulk {
    #[must_use]
    pub fn url(&self, n: usize) -> String {
        format!("https://customer-{n}.example/webhooks")
    }

    #[must_use]
    pub fn url_id(&self, n: usize) -> UrlId {
        UrlId::of(&self.url(n))
    }

    #[must_use]
    pub fn subscription_id(&self, n: usize) -> SubscriptionId {
        SubscriptionId::new(bytes(1, n))
    }

    /// The id of an event that was delivered to every subscription.
    pub const WIDE_EVENT: &str = "to-all";

    #[must_use]
    pub fn event_id(&self, n: usize) -> String {
        new_event_id(self.accepted_at(n), bytes(2, n))
    }

    #[must_use]
    pub fn delivery_id(&self, n: usize) -> String {
        self.new_delivery(n).key.id()
    }

    /// Everything, in no order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let subscriptions = self.urls.min(MAX_SUBSCRIPTIONS);
        let version = TenantVersion {
            version: subscriptions as u64,
            subscriptions: subscriptions as u64,
            urls: self.urls as u64,
            ..TenantVersion::new(&self.tenant)
        };
        std::iter::once(Record::TenantVersion(version))
            .chain((0..self.urls).flat_map(|n| self.records_of_url(n)))
            .chain((0..subscriptions).map(|n| Record::Subscription(self.subscription(n))))
            .chain((0..self.deliveries).flat_map(|n| self.records_of_delivery(n)))
            .chain(self.wide_event(subscriptions))
            .chain((0..self.deliveries / 100).map(|n| Record::Replay(self.replay(n))))
            .chain((0..MINUTES).map(|n| Record::Minute(self.minute(n))))
            .chain((0..MAX_SUMMARIES.min(self.deliveries / 20)).map(|n| self.summaries(n)))
    }

    fn records_of_url(&self, n: usize) -> Vec<Record> {
        let (tenant, id) = (self.tenant.clone(), self.url_id(n));
        let since = self.now - Duration::from_secs(60 * (10 + n as u64 % 1_000));
        let mut url = UrlRecord::new(tenant.clone(), id.clone(), self.url(n), since);
        url.subscriptions = Some(1);
        let failures = match trouble(n) {
            Trouble::None => 0,
            Trouble::Failing | Trouble::Frozen => FAILING_STREAK + 2,
            Trouble::Disabled => DISABLE_MIN_ATTEMPTS + 1,
        };
        let outcomes: Vec<Outcome> = (0..failures).map(|_| failure(n, since)).collect();
        let now = Now { schedule: since, real: since };
        let mut history = url.count(&outcomes, now);
        if trouble(n) == Trouble::Frozen {
            let frozen =
                url.apply_action(OperatorAction::Freeze, "It moves to another machine", "key_1", now);
            history.extend(frozen.ok().flatten());
        }
        // Nothing is to be done before the test is over.
        (url.look_at, url.announcement) = (None, None);
        url.health.next_probe_at = url.health.next_probe_at.map(|_| self.now + Duration::from_secs(9 * 60));
        let mut records = vec![Record::Url(url), Record::UrlListEntry(UrlListEntry { tenant, id })];
        records.extend(history.into_iter().map(Record::History));
        records
    }

    fn subscription(&self, n: usize) -> Subscription {
        Subscription {
            tenant: self.tenant.clone(),
            id: self.subscription_id(n),
            url: self.url(n),
            url_id: self.url_id(n),
            event_types: vec!["order.created".to_owned()],
            filters: Vec::new(),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active: true,
            secrets: vec![Secret {
                value: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
                until_real: None,
            }],
            created_at: self.now - self.span,
        }
    }

    fn accepted_at(&self, n: usize) -> Timestamp {
        let age = self.span.as_millis() as usize / self.deliveries.max(1) * (self.deliveries - n);
        self.now - Duration::from_millis(age as u64)
    }

    /// The number of the URL and of the subscription of delivery `n`.
    fn target(&self, n: usize) -> usize {
        if n.is_multiple_of(2) { n / 2 % BUSY_URLS.min(self.urls) } else { n / 2 % self.urls }
    }

    fn new_delivery(&self, n: usize) -> NewDelivery {
        self.delivery_of(self.event_id(n), self.accepted_at(n), self.target(n))
    }

    fn delivery_of(&self, event_id: String, accepted_at: Timestamp, url: usize) -> NewDelivery {
        NewDelivery {
            trace: None,
            key: DeliveryKey {
                tenant: self.tenant.clone(),
                event_key: EventKey::of(&event_id, accepted_at),
                subscription_id: self.subscription_id(url),
            },
            event_id,
            event_type: "order.created".to_owned(),
            accepted_at,
            url_id: self.url_id(url),
            url: self.url(url),
        }
    }

    fn records_of_delivery(&self, n: usize) -> Vec<Record> {
        let (new, url) = (self.new_delivery(n), self.target(n));
        let trouble = trouble(url);
        if trouble == Trouble::None || n.is_multiple_of(7) {
            let attempt = attempt(&new, None);
            return vec![Record::Logged(LoggedDelivery { delivery: new, attempt })];
        }
        let failed = attempt(&new, Some(error(url)));
        let schedule = Schedule::default();
        let mut record = DeliveryRecord::new(new, &schedule);
        // Due long after the test.
        for _ in 0..8 {
            record.progress.fail(&schedule, record.accepted_at, None, self.now, KEEP);
        }
        record.progress.due_at = self.now + Duration::from_secs(3_600);
        record.progress.look_at = Some(record.progress.due_at);
        let mut records = vec![Record::Attempt(failed)];
        if n % 7 == 1 {
            record.progress.die(Reason::Exhausted, self.now, KEEP);
        } else if trouble != Trouble::Failing {
            record.progress.park();
            records.push(Record::Parked(ParkedPointer::of(&record)));
        }
        records.push(Record::Delivery(record));
        records
    }

    fn wide_event(&self, subscriptions: usize) -> impl Iterator<Item = Record> + '_ {
        let accepted_at = self.now - Duration::from_secs(3_600);
        let event = EventRecord {
            tenant: self.tenant.clone(),
            id: Bulk::WIDE_EVENT.to_owned(),
            event_key: EventKey::of(Bulk::WIDE_EVENT, accepted_at),
            event_type: "order.created".to_owned(),
            subject: None,
            accepted_at,
            deliveries: subscriptions as u64,
            fingerprint: String::new(),
            phase: IdPhase::Done,
            remove_at: None,
        };
        let log = move |n| {
            let delivery = self.delivery_of(Bulk::WIDE_EVENT.to_owned(), accepted_at, n);
            let attempt = attempt(&delivery, None);
            Record::Logged(LoggedDelivery { delivery, attempt })
        };
        std::iter::once(Record::Event(event)).chain((0..subscriptions).map(log))
    }

    fn replay(&self, n: usize) -> ReplayRecord {
        let at = self.now - Duration::from_secs(n as u64);
        let of = ReplayOf::Delivery(self.new_delivery(n).key);
        let mut replay = ReplayRecord::new(&self.tenant, JobId::new(bytes(3, n)), of, at);
        replay.end(1, at, KEEP);
        replay
    }

    fn minute(&self, n: i64) -> MinuteRecord {
        let minute = Timestamp::from_millis((self.now.as_millis() / 60_000 - n) * 60_000);
        let mut counts = Counts { events: 3, ..Counts::default() };
        counts.count_attempt(AttemptOutcome::Success, 12);
        let engine = "bulk".to_owned();
        MinuteRecord { tenant: self.tenant.clone(), minute, engine, counts, remove_at: self.now + KEEP }
    }

    /// A second of the feed of attempts.
    fn summaries(&self, n: usize) -> Record {
        let at = self.now - Duration::from_secs(3 + n as u64);
        let summary = |k: usize| {
            let new = self.new_delivery((n * 20 + k) % self.deliveries);
            AttemptSummary {
                delivery_id: new.key.id(),
                event_id: new.event_id,
                event_type: new.event_type,
                subscription_id: new.key.subscription_id.to_string(),
                url_id: new.url_id.to_string(),
                epoch: 0,
                n: 0,
                at,
                outcome: AttemptOutcome::Success,
                status: Some(200),
                error: None,
                ms: 12,
            }
        };
        Record::AttemptSummaries(AttemptSummaries {
            tenant: self.tenant.clone(),
            at_real: at,
            engine: "bulk".to_owned(),
            number: n as u64,
            summaries: (0..20).map(summary).collect(),
            omitted: 0,
            remove_at: self.now + KEEP,
        })
    }
}

fn failure(url: usize, at: Timestamp) -> Outcome {
    Outcome {
        success: false,
        error: Some(error(url)),
        is_first: true,
        retry: 0,
        is_own_event: false,
        started_at: at,
        ended_at: at,
        generation: 0,
        recent_ms: 12,
    }
}

/// The first attempt: a failure if there is an error.
fn attempt(new: &NewDelivery, error: Option<AttemptError>) -> Attempt {
    Attempt {
        key: new.key.clone(),
        epoch: 0,
        n: 0,
        at: new.accepted_at,
        outcome: if error.is_some() { AttemptOutcome::Failure } else { AttemptOutcome::Success },
        status: error.as_ref().map_or(Some(200), |error| error.status),
        error: error.map(|error| format!("{}: {}", error.kind.as_str(), error.text)),
        ms: 12,
        excerpt: None,
        remove_at: new.accepted_at + KEEP,
    }
}
