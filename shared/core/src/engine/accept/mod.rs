//! Takes events from producers. Returns only when every delivery is safe.

mod crowd;
mod event_id;
mod fan_out;
mod quotas;
mod snapshot;
mod subscription_cache;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join3;
use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use crowd::Crowd;
use crowd::is_large;
pub use quotas::OverQuota;
pub(super) use quotas::QuotaStates;
pub(super) use subscription_cache::SubscriptionCache;

use super::repository::typed;
use super::tickets::job_ticket;
use super::{ConflictRetries, DeliveryLog, Engine, Result, Unavailable};
use crate::ids::{DeliveryKey, JobId, SubscriptionId, Tenant, UrlId, fingerprint};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, QueueName, Versioned, Write};
use crate::records::{
    EventRecord, FanOut, FirstAttempt, IdPhase, Job, Message, Record, SubjectEntry, TenantVersion,
};
use crate::rules::matching::Member;
use crate::rules::quota::QuotaWarning;
use crate::rules::trace::TraceContext;
use crate::time::Timestamp;
use fan_out::{encode_recipients, recipients_key};

/// Above either of these the body is stored once and one fan-out job makes the deliveries.
const MAX_INLINE_DELIVERIES: usize = 100;
const MAX_INLINE_BYTES: usize = 150_000;
/// The bodies in all messages of one post: beyond it, events with several deliveries are fanned out. So no post is a large piece of
/// work for the queue, which others would have to wait for.
const MAX_POST_BYTES: usize = 4_000_000;

/// An event as it was posted, validated by the API.
#[derive(Clone)]
pub struct NewEvent {
    pub id: Option<String>,
    pub event_type: String,
    pub subject: Option<String>,
    /// Arrives byte for byte as posted.
    pub data: Box<RawValue>,
    /// The trace that the post belongs to: attempts go on with it. No part of the event, so a repeat may have another.
    pub trace: Option<Box<TraceContext>>,
}

impl NewEvent {
    /// An event without an id or a subject.
    ///
    /// # Panics
    /// If `data` is not JSON.
    #[must_use]
    pub fn new(event_type: &str, data: &str) -> NewEvent {
        NewEvent {
            id: None,
            event_type: event_type.to_owned(),
            subject: None,
            data: RawValue::from_string(data.to_owned()).expect("the data of an event is JSON"),
            trace: None,
        }
    }

    /// The body of every attempt. Made once, at acceptance, and the same bytes each time.
    pub(super) fn body(&self, id: &str, accepted_at: Timestamp) -> Bytes {
        let body = Body {
            id,
            r#type: &self.event_type,
            timestamp: accepted_at.to_string(),
            subject: self.subject.as_deref(),
            data: &self.data,
        };
        serde_json::to_vec(&body).expect("validated JSON can be written").into()
    }

    /// Tells a repeated post from another event under the same id.
    fn fingerprint(&self) -> String {
        let parts = (&self.event_type, &self.subject, &self.data);
        fingerprint(&serde_json::to_vec(&parts).expect("validated JSON can be written"))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    r#type: &'a str,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    data: &'a RawValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accepted {
    pub id: String,
    pub deliveries: u64,
    pub duplicate: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the id {id:?} was used for another event within the last 24 hours")]
    IdTaken { index: usize, id: String },
    #[error("an event with the id {id:?} is being accepted right now")]
    Busy { index: usize, id: String },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a producer's post was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error(transparent)]
    OverQuota(#[from] OverQuota),
    #[error(transparent)]
    NotAccepted(#[from] AcceptError),
}

impl From<Unavailable> for PostError {
    fn from(error: Unavailable) -> PostError {
        PostError::NotAccepted(error.into())
    }
}

/// What became of a producer's post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// In the order of the events.
    pub accepted: Vec<Accepted>,
    /// The tenant's quotas that are nearly used up.
    pub warnings: Vec<QuotaWarning>,
}

/// What is read first, by one read.
struct Known {
    tenant: TenantVersion,
    /// What is known of the given ids, in their order.
    ids: Vec<Option<Versioned>>,
}

/// A new event on its way in.
struct Incoming {
    record: EventRecord,
    body: Bytes,
    recipients: Vec<Arc<Member>>,
    /// Filters alone kept it from all subscriptions.
    is_refused: bool,
    /// What the event's record must be before it is written. `None`: the producer gave no id, so there is none to protect.
    expect: Option<Expect>,
    /// Its deliveries may have been queued before.
    again: bool,
    trace: Option<Box<TraceContext>>,
}

impl Incoming {
    /// As a fan-out that has not begun.
    fn fan_out(&self, list: Option<String>) -> FanOut {
        FanOut {
            event_id: self.record.id.clone(),
            event_key: self.record.event_key.clone(),
            event_type: self.record.event_type.clone(),
            accepted_at: self.record.accepted_at,
            list,
            after: None,
            started: self.again,
            trace: self.trace.clone(),
        }
    }

    fn needs_fan_out(&self) -> bool {
        let count = self.recipients.len();
        count > MAX_INLINE_DELIVERIES || (count > 0 && self.body.len() > MAX_INLINE_BYTES)
    }

    /// How many messages it is queued with.
    fn message_count(&self) -> usize {
        if self.needs_fan_out() { 1 } else { self.recipients.len() }
    }

    /// The body, as often as it is to be delivered.
    fn inline_bytes(&self) -> usize {
        self.recipients.len() * self.body.len()
    }

    /// One message for each delivery, with the body in it.
    fn first_attempts(&self) -> impl Iterator<Item = Outgoing> {
        let fan_out = self.fan_out(None);
        self.recipients.iter().map(move |member| {
            let body = Some(self.body.clone());
            let recipient = (&member.id, &member.url_id);
            first_attempt(&self.record.tenant, &fan_out, recipient, body, self.again)
        })
    }
}

/// What a posted event turns out to be, once its id was looked up.
enum Resolved {
    New(Box<Incoming>),
    Duplicate(Accepted),
}

impl Resolved {
    fn incoming(&self) -> Option<&Incoming> {
        match self {
            Resolved::New(incoming) => Some(incoming),
            Resolved::Duplicate(_) => None,
        }
    }

    fn answer(&self) -> Accepted {
        match self {
            Resolved::New(incoming) => Accepted {
                id: incoming.record.id.clone(),
                deliveries: incoming.record.deliveries,
                duplicate: false,
            },
            Resolved::Duplicate(accepted) => accepted.clone(),
        }
    }
}

impl Engine {
    /// Accepts what a producer posts, within the quotas of its tenant. All or none: an error means that none of these events was
    /// accepted, though some may still be delivered. Over a quota, nothing is written.
    pub async fn post(&self, tenant: &Tenant, events: &[NewEvent]) -> Result<Posted, PostError> {
        let known = self.read_before_accepting(tenant, events).await?;
        let is_repeat = known.ids.len() == events.len() && known.ids.iter().all(|id| self.is_remembered(id));
        let warnings = self.admit(&known.tenant, events.len() as u64, is_repeat).await?;
        match self.accept_known(tenant, events, known).await {
            Ok(accepted) => Ok(Posted { accepted, warnings }),
            Err(error) => {
                self.give_back_events(tenant, events.len() as u64);
                Err(error.into())
            }
        }
    }

    /// The same without quotas, for Holdfast's own events, which are never refused: `announce` makes them wait instead.
    pub async fn accept(&self, tenant: &Tenant, events: Vec<NewEvent>) -> Result<Vec<Accepted>, AcceptError> {
        let known = self.read_before_accepting(tenant, &events).await?;
        self.accept_known(tenant, &events, known).await
    }

    async fn accept_known(
        &self,
        tenant: &Tenant,
        events: &[NewEvent],
        mut known: Known,
    ) -> Result<Vec<Accepted>, AcceptError> {
        let mut retries = ConflictRetries::new();
        // Before anything is matched, and until all of it is queued.
        let recipients = known.tenant.subscriptions.saturating_mul(events.len() as u64);
        let _held = self.crowd.to_hold(tenant, recipients).await;
        loop {
            let resolved = self.match_events(&known.tenant, events, known.ids).await?;
            // Before ids are leased: it may take longer than a lease until there is a place.
            let messages = new_events(&resolved).map(Incoming::message_count).sum();
            let bytes = new_events(&resolved).filter(|new| !new.needs_fan_out()).map(Incoming::inline_bytes);
            let _place = self.crowd.to_send(tenant, messages, bytes.sum::<usize>().min(MAX_POST_BYTES)).await;
            if self.lease_ids(&resolved).await? {
                self.queue_deliveries(&resolved).await?;
                self.count_events(tenant, new_events(&resolved).count() as u64);
                let bytes: usize = new_events(&resolved).map(Incoming::inline_bytes).sum();
                self.add_waiting(tenant, bytes as u64);
                return Ok(resolved.iter().map(Resolved::answer).collect());
            }
            retries.again("an id of these events")?;
            known = self.read_before_accepting(tenant, events).await?;
        }
    }

    async fn match_events(
        &self,
        current: &TenantVersion,
        events: &[NewEvent],
        ids: Vec<Option<Versioned>>,
    ) -> Result<Vec<Resolved>, AcceptError> {
        let tenant = &current.tenant;
        let mut place = self.crowd.to_match(tenant, self.subscriptions.bytes_of(tenant)).await;
        let mut subscriptions = self.subscriptions_at(current).await?;
        if place.is_none() && is_large(&subscriptions) {
            // Its size was not known before it was read. It is not held while this post waits.
            let bytes = subscriptions.bytes();
            drop(subscriptions);
            place = self.crowd.to_match(tenant, bytes).await;
            subscriptions = self.subscriptions_at(current).await?;
        }
        let resolved = self.resolve_ids(tenant, events, ids, &subscriptions).await;
        // The next post may change the index, which must not make a copy of it.
        drop(subscriptions);
        drop(place);
        resolved
    }

    async fn read_before_accepting(&self, tenant: &Tenant, events: &[NewEvent]) -> Result<Known> {
        let ids = events.iter().filter_map(|e| e.id.as_ref()).map(|id| EventRecord::key(tenant, id));
        let keys: Vec<_> = std::iter::once(TenantVersion::key(tenant)).chain(ids).collect();
        let mut found = self.repository.get_all(&keys).await?.into_iter();
        let known = typed::<TenantVersion>(found.next().flatten())?;
        let known = known.map_or_else(|| TenantVersion::new(tenant), |loaded| loaded.record);
        Ok(Known { tenant: known, ids: found.collect() })
    }

    /// Phase one of a given id: pending, before its deliveries are queued. `false`: another request took one of the ids.
    async fn lease_ids(&self, resolved: &[Resolved]) -> Result<bool> {
        let leases: Vec<Write> = new_events(resolved)
            .filter_map(|new| Some(Write::put(new.record.clone(), new.expect?)))
            .collect();
        if leases.is_empty() {
            return Ok(true);
        }
        self.repository.try_write(leases).await
    }

    async fn queue_deliveries(&self, resolved: &[Resolved]) -> Result<()> {
        let mut messages = Vec::new();
        let mut inline_bytes = 0;
        let mut unleased = Vec::new();
        let mut leased = Vec::new();
        let mut refused = Vec::new();
        for new in new_events(resolved) {
            // The key of a generated id can be computed, so the cheapest log does without a record of the event.
            match (new.expect.is_some(), self.settings.delivery_log) {
                (true, _) => leased.extend(done_records(new)),
                (false, DeliveryLog::All) => unleased.extend(done_records(new)),
                (false, DeliveryLog::Trouble) => {}
            }
            if new.is_refused && self.settings.delivery_log == DeliveryLog::All {
                refused.push((BodyKey::new(&new.record.tenant, &new.record.event_key), new.body.clone()));
            }
            let fits = inline_bytes + new.inline_bytes() <= MAX_POST_BYTES || new.recipients.len() == 1;
            if new.needs_fan_out() || !fits {
                messages.push(self.start_fan_out(new).await?);
            } else {
                inline_bytes += new.inline_bytes();
                messages.extend(new.first_attempts());
            }
        }
        // At the same time, because an embedded store then needs only one flush for both.
        let (sent, stored, kept) = join3(
            self.send_first_attempts(messages),
            self.store_events(unleased),
            self.keep_refused(refused),
        )
        .await;
        sent?;
        stored?;
        kept?;
        // Phase two of a given id: done, only now that its deliveries are queued.
        self.store_events(leased).await
    }

    /// For messages that are not hints: they are the only trace of a delivery.
    async fn send_first_attempts(&self, messages: Vec<Outgoing>) -> Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        Ok(self.ports.queue.send(QueueName::First, messages).await?)
    }

    async fn store_events(&self, records: Vec<Record>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        match self.ports.store.put_each(records).await?.len() {
            0 => Ok(()),
            unstored => Err(Unavailable::EventsNotStored(unstored)),
        }
    }

    /// Bodies that are not sent to anyone, so that a caller who asks why can be told which filter refused them.
    async fn keep_refused(&self, bodies: Vec<(BodyKey, Bytes)>) -> Result<()> {
        if bodies.is_empty() {
            return Ok(());
        }
        Ok(self.ports.store.put_bodies(bodies, self.body_remove_at()).await?)
    }

    async fn start_fan_out(&self, new: &Incoming) -> Result<Outgoing> {
        let EventRecord { tenant, event_key, .. } = &new.record;
        let list = format!("{:016x}", u64::from_be_bytes(self.random()));
        let fan_out = new.fan_out(Some(list));
        let recipients = (recipients_key(tenant, &fan_out), encode_recipients(&new.recipients));
        let bodies = vec![(BodyKey::new(tenant, event_key), new.body.clone()), recipients];
        self.ports.store.put_bodies(bodies, self.body_remove_at()).await?;
        let id = JobId::derived(&["fan-out", tenant.as_str(), event_key.as_str()]);
        let job = self.new_job(tenant, id.clone(), Job::FanOut(fan_out));
        // If the job exists, it was started before and goes on from where it is.
        self.repository.try_write(vec![Write::put(job, Expect::Absent)]).await?;
        Ok(job_ticket(tenant, &id, std::time::Duration::ZERO))
    }
}

/// The event as it is when its deliveries are queued, and its entry in the list of its subject.
fn done_records(new: &Incoming) -> impl Iterator<Item = Record> {
    let done = EventRecord { phase: IdPhase::Done, ..new.record.clone() };
    let subject = SubjectEntry::of(&done).map(Record::Subject);
    std::iter::once(Record::Event(done)).chain(subject)
}

fn new_events(resolved: &[Resolved]) -> impl Iterator<Item = &Incoming> {
    resolved.iter().filter_map(Resolved::incoming)
}

/// The message that starts one delivery of the event.
fn first_attempt(
    tenant: &Tenant,
    event: &FanOut,
    (subscription_id, url_id): (&SubscriptionId, &UrlId),
    body: Option<Bytes>,
    again: bool,
) -> Outgoing {
    let message = Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: tenant.clone(),
            event_key: event.event_key.clone(),
            subscription_id: subscription_id.clone(),
        },
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        accepted_at: event.accepted_at,
        url_id: url_id.clone(),
        body,
        again,
        trace: event.trace.clone(),
    });
    Outgoing { message, delay: Delay::NONE }
}
