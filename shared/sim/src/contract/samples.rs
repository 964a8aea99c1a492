//! Records and messages to try things with.

use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ids::{DeliveryKey, EventKey, JobId, KeyId, SubscriptionId, Tenant, UrlId};
use holdfast_core::ports::{Delay, Outgoing};
use holdfast_core::records::{
    Actor, Attempt, AttemptSummaries, AttemptSummary, AuditAction, AuditEntry, BulkReplay, DeathNote,
    DeliveryRecord, EventRecord, IdPhase, Job, JobRecord, KeyRecord, LoggedDelivery, MinuteRecord,
    NewDelivery, ParkedPointer, ReplayOf, ReplayRecord, StepBatch, SubjectEntry, Subscription, TenantVersion,
    UrlRecord, UrlReplay,
};
use holdfast_core::records::{DeliveryTicket, FirstAttempt, Message};
use holdfast_core::rules::access::Role;
use holdfast_core::rules::activity::Counts;
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState, Reason};
use holdfast_core::rules::filter::{Connector, Filter, Op};
use holdfast_core::rules::health::Outcome;
use holdfast_core::rules::last_failure::AttemptError;
use holdfast_core::rules::quota::{MAX_QUOTA, Quotas};
use holdfast_core::rules::release::{AttemptEnded, Release, StepOutcomes};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::rules::signing::Secret;
use holdfast_core::rules::trace::TraceContext;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;

pub(super) fn tenant() -> Tenant {
    "default".into()
}

pub(super) fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + secs * 1000)
}

pub(super) fn url_id(n: u8) -> UrlId {
    UrlId::of(&format!("https://example.com/{n}"))
}

pub(super) fn subscription(n: u8) -> SubscriptionId {
    SubscriptionId::new([n; 16])
}

pub(super) fn delivery_key(event: i64, to: u8) -> DeliveryKey {
    DeliveryKey {
        tenant: tenant(),
        event_key: EventKey::of(&format!("evt_{event}"), at(event)),
        subscription_id: subscription(to),
    }
}

fn trace() -> Option<Box<TraceContext>> {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    TraceContext::parse([parent].into_iter(), ["a=1, b = \"2\""].into_iter()).map(Box::new)
}

/// Event number `event`, accepted at `at(event)`, on its way to subscription and URL `to`.
pub(super) fn delivery(event: i64, to: u8) -> DeliveryRecord {
    let new = NewDelivery {
        key: delivery_key(event, to),
        event_id: format!("evt_{event}"),
        event_type: "order.created".into(),
        accepted_at: at(event),
        url_id: url_id(to),
        url: format!("https://example.com/{to}"),
        trace: trace(),
    };
    DeliveryRecord::new(new, &Schedule::default())
}

pub(super) fn attempt(event: i64, to: u8) -> Attempt {
    Attempt {
        key: delivery_key(event, to),
        epoch: 0,
        n: 0,
        at: at(event),
        outcome: AttemptOutcome::Success,
        status: Some(200),
        error: None,
        ms: 12,
        excerpt: Some("ok \u{1f980}\n\"quoted\"".into()),
        remove_at: at(event) + Duration::from_secs(86_400),
    }
}

pub(super) fn logged(event: i64, to: u8) -> LoggedDelivery {
    LoggedDelivery::new(&delivery(event, to), attempt(event, to))
}

/// Event number `event` is parked at URL `to`, due at `at(due)`.
pub(super) fn parked(event: i64, to: u8, due: i64) -> ParkedPointer {
    let mut record = delivery(event, to);
    record.progress.due_at = at(due);
    ParkedPointer::of(&record)
}

pub(super) fn tenant_version(tenant: &str, version: u64) -> TenantVersion {
    // Off and on.
    let quotas = Quotas { subscriptions: Some(1), waiting_bytes: Some(MAX_QUOTA), ..Quotas::default() };
    TenantVersion { version, subscriptions: 1, urls: 1, quotas, ..TenantVersion::new(&tenant.into()) }
}

/// What one engine did in a minute.
pub(super) fn minute(n: i64, engine: &str) -> MinuteRecord {
    let mut counts = Counts { events: 3, ..Counts::default() };
    counts.count_attempt(AttemptOutcome::Success, 12);
    counts.count_attempt(AttemptOutcome::Failure, 50_000);
    MinuteRecord {
        tenant: tenant(),
        minute: at(n * 60),
        engine: engine.to_owned(),
        counts,
        remove_at: at(n * 60 + 90_000),
    }
}

pub(super) fn attempt_summaries() -> AttemptSummaries {
    let summary = |n, error: Option<&str>| AttemptSummary {
        delivery_id: delivery_key(1, 1).id(),
        event_id: "evt \u{1f980}".into(),
        event_type: "order.created".into(),
        subscription_id: subscription(1).to_string(),
        url_id: url_id(1).to_string(),
        epoch: 0,
        n,
        at: at(1),
        outcome: AttemptOutcome::Failure,
        status: error.is_none().then_some(500),
        error: error.map(str::to_owned),
        ms: 12,
    };
    AttemptSummaries {
        tenant: tenant(),
        at_real: at(2),
        engine: "engine".into(),
        number: 1,
        summaries: vec![summary(0, None), summary(1, Some("dns: \"nobody\""))],
        omitted: 7,
        remove_at: at(3_600),
    }
}

pub(super) fn url(n: u8) -> UrlRecord {
    UrlRecord::new(tenant(), url_id(n), format!("https://example.com/{n}"), at(0))
}

/// A URL whose release has made a step.
pub(super) fn releasing_url() -> UrlRecord {
    let mut url = url(3);
    let now = Now { schedule: at(2), real: at(2) };
    url.start_release(now);
    url.claim_release_step(now, Duration::from_secs(5)).expect("a step");
    url
}

pub(super) fn outcome(success: bool, generation: u64) -> Outcome {
    let error = (!success).then(|| AttemptError::of_status(500));
    Outcome {
        success,
        error,
        is_first: true,
        retry: 0,
        is_own_event: false,
        started_at: at(1),
        ended_at: at(2),
        generation,
        recent_ms: 0,
    }
}

/// A ticket for event number `event` and URL `to`.
pub(super) fn ticket(event: i64, to: u8) -> Message {
    Message::Delivery(DeliveryTicket {
        key: delivery_key(event, to),
        url_id: url_id(to),
        epoch: 0,
        n: 1,
        links: 0,
    })
}

pub(super) fn ticket_of(tenant: &str, event: i64, to: u8) -> Message {
    let key = DeliveryKey { tenant: tenant.into(), ..delivery_key(event, to) };
    Message::Delivery(DeliveryTicket { key, url_id: url_id(to), epoch: 0, n: 1, links: 0 })
}

pub(super) fn first_attempt(event: i64, to: u8, body: Option<Bytes>) -> Message {
    Message::FirstAttempt(FirstAttempt {
        key: delivery_key(event, to),
        event_id: format!("evt_{event}"),
        event_type: "order.created".into(),
        accepted_at: at(event),
        url_id: url_id(to),
        body,
        again: false,
        trace: trace(),
    })
}

pub(super) fn now(message: Message) -> Outgoing {
    Outgoing { message, delay: Delay::NONE }
}

pub(super) fn after(secs: u64, message: Message) -> Outgoing {
    Outgoing { message, delay: Delay::new(Duration::from_secs(secs)).unwrap() }
}

pub(super) fn event() -> EventRecord {
    EventRecord {
        tenant: tenant(),
        id: "strange # id / \u{1f980} \0 \n".into(),
        event_key: EventKey::of("e", at(0)),
        event_type: "a.b".into(),
        subject: None,
        accepted_at: at(0),
        deliveries: u64::MAX,
        fingerprint: "f".into(),
        phase: IdPhase::Pending { lease_until_real: at(9) },
        remove_at: None,
    }
}

pub(super) fn subject_entry() -> SubjectEntry {
    let subject = Some("strange # subject / \u{1f980} \0".to_owned());
    SubjectEntry::of(&EventRecord { subject, remove_at: Some(at(9)), ..event() })
        .expect("an event with a subject")
}

pub(super) fn audit_entry(tenant: Option<&Tenant>) -> AuditEntry {
    let by = Actor::new("key_1", Role::Admin);
    AuditEntry::new(tenant, AuditAction::SubscriptionUpdated, "sub_1", &by, (at(1), [1; 16]))
        .because(Some("\u{1f980}"))
        .changing(&["url"])
}

pub(super) fn subscription_record() -> Subscription {
    // A customer's value is any JSON.
    let mut nested = serde_json::json!({"": [1.5, -0.0, 1e300, u64::MAX, i64::MIN, null, {"a": null}]});
    for _ in 0..40 {
        nested = serde_json::json!([nested]);
    }
    let filter = |value| Filter { field: "data.a".into(), op: Op::Eq, value };
    Subscription {
        tenant: tenant(),
        id: subscription(1),
        url: "https://example.com/1".into(),
        url_id: url_id(1),
        event_types: vec!["a".into(), "b".into()],
        filters: vec![filter(Some(nested)), filter(Some(serde_json::Value::Null)), filter(None)],
        filter_connector: Connector::Or,
        auth_token: Some(String::new()),
        description: None,
        active: true,
        secrets: vec![Secret { value: "whsec_a".into(), until_real: None }],
        created_at: at(1),
    }
}

fn url_replay() -> UrlReplay {
    UrlReplay {
        url_id: url_id(1),
        since: None,
        until: Some(at(1)),
        states: vec![DeliveryState::Dead],
        expired_since: None,
    }
}

pub(super) fn replay() -> ReplayRecord {
    ReplayRecord::new(&tenant(), JobId::new([2; 16]), ReplayOf::Url(url_replay()), at(2))
}

/// A bulk replay in the middle of its work.
pub(super) fn replay_job() -> JobRecord {
    let now = Now { schedule: at(2), real: at(2) };
    let mut pace = Release::begin(0, now);
    pace.claim_step(now, Duration::from_secs(5));
    pace.first_steps.latencies.count(Duration::from_millis(50));
    let work = BulkReplay {
        wanted: url_replay(),
        shown: replay(),
        place: Some("a place".into()),
        matched: u64::MAX,
        pace,
        left: 256,
        replayed_in_step: 3,
    };
    let job = Job::Replay(Box::new(work));
    JobRecord { tenant: tenant(), id: replay().id, job, look_at: at(3), looks: 0 }
}

/// The outcomes of one batch of a step.
pub(super) fn death_note() -> DeathNote {
    let mut dead = delivery(1, 1);
    dead.progress.die(Reason::Exhausted, at(2), Duration::from_secs(1));
    DeathNote::of(None, &dead, at(2)).expect("it died")
}

pub(super) fn deaths_job() -> JobRecord {
    death_note().job("https://example.com/1")
}

pub(super) fn step_batch() -> StepBatch {
    let mut outcomes = StepOutcomes::default();
    for (success, took_ms) in [(true, 12), (false, 5_000)] {
        let took = Duration::from_millis(took_ms);
        outcomes.add_attempt(AttemptEnded { success, is_overload: !success, took });
    }
    StepBatch {
        tenant: tenant(),
        step: Release::begin(0, Now { schedule: at(2), real: at(2) }).step_id(url_id(1).as_str(), 7),
        batch: delivery_key(1, 1).id(),
        outcomes,
        remove_at: at(3_600),
    }
}

pub(super) fn operator_key() -> KeyRecord {
    KeyRecord {
        id: KeyId("key_1".into()),
        tenant: None,
        role: Role::Operator,
        hash: "f".repeat(64),
        description: Some("\u{1f980}".into()),
        created_at_real: at(1),
        expires_at_real: None,
    }
}
