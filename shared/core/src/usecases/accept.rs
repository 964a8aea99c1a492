//! Takes events from producers. Answers only when all is safe.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use serde::Serialize;
use serde_json::value::RawValue;

use super::fan_out::{first_attempt, wanted_key, wanted_list};
use super::{DeliveryLog, Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{EventKey, JobId, Tenant, fingerprint, new_event_id};
use crate::messages::Message;
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Versioned, Write};
use crate::records::{EventRecord, FanOut, IdPhase, Job, Record, Subscription, TenantVersion, VERSION};
use crate::rules::matching::SubscriptionIndex;
use crate::time::Timestamp;

/// Above either of these the body is stored once and one fan-out job makes the deliveries.
const MOST_INLINE_DELIVERIES: usize = 100;
const MOST_INLINE_BYTES: usize = 150_000;
/// How long a given id is remembered.
const ID_REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// An event as it was posted, checked by the API.
#[derive(Clone)]
pub struct NewEvent {
    pub id: Option<String>,
    pub event_type: String,
    pub subject: Option<String>,
    /// Arrives byte for byte as posted.
    pub data: Box<RawValue>,
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

/// One event on its way in.
struct Incoming {
    record: EventRecord,
    body: Bytes,
    wanted_by: Vec<Arc<Subscription>>,
    expect: Option<Expect>,
    /// Its deliveries may have been queued before.
    again: bool,
}

impl Incoming {
    /// As a fan-out that has not begun.
    fn fan_out(&self) -> FanOut {
        FanOut {
            event_id: self.record.id.clone(),
            event_key: self.record.event_key.clone(),
            event_type: self.record.event_type.clone(),
            accepted_at: self.record.accepted_at,
            after: None,
            started: self.again,
        }
    }

    /// Few and small enough to be queued at once, body and all.
    fn first_attempts(&self) -> impl Iterator<Item = Outgoing> {
        let fan_out = self.fan_out();
        self.wanted_by.iter().map(move |s| {
            let body = Some(self.body.clone());
            first_attempt(&self.record.tenant, &fan_out, (&s.id, &s.url_id), body, self.again)
        })
    }
}

enum Seen {
    New(Box<Incoming>),
    Duplicate(Accepted),
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

/// Made once, at acceptance; the same bytes on every attempt.
pub(super) fn body_of(event: &NewEvent, id: &str, accepted_at: Timestamp) -> Bytes {
    let body = Body {
        id,
        r#type: &event.event_type,
        timestamp: accepted_at.to_string(),
        subject: event.subject.as_deref(),
        data: &event.data,
    };
    serde_json::to_vec(&body).expect("checked JSON can be written").into()
}

fn fingerprint_of(event: &NewEvent) -> String {
    let parts = (&event.event_type, &event.subject, &event.data);
    fingerprint(&serde_json::to_vec(&parts).expect("checked JSON can be written"))
}

impl Engine {
    /// All or none: an error means that nothing of this was accepted, though some may still be delivered.
    pub async fn accept(&self, tenant: &Tenant, events: Vec<NewEvent>) -> Result<Vec<Accepted>, AcceptError> {
        for _ in 0..MOST_CONFLICTS {
            let (subscriptions, earlier) = self.read_before(tenant, &events).await?;
            let seen = self.meet_ids(tenant, &events, earlier, &subscriptions)?;
            if self.lease_ids(&seen).await? {
                self.queue_deliveries(&seen).await?;
                self.note_events(tenant, new_ones(&seen).count() as u64);
                return Ok(seen.into_iter().map(answer).collect());
            }
        }
        Err(Unavailable("the ids of these events are being used by others".to_owned()).into())
    }

    /// The subscriptions as of now, and what is known of the given ids, in their order: by one read.
    async fn read_before(
        &self,
        tenant: &Tenant,
        events: &[NewEvent],
    ) -> Result<(Arc<SubscriptionIndex>, Vec<Option<Versioned>>), Unavailable> {
        let ids = events.iter().filter_map(|e| e.id.as_ref()).map(|id| EventRecord::key(tenant, id));
        let keys: Vec<_> = std::iter::once(TenantVersion::key(tenant)).chain(ids).collect();
        let mut found = self.get_all(&keys).await?.into_iter();
        let version = TenantVersion::found(tenant, found.next().flatten().map(|v| v.record));
        let subscriptions = self.subscriptions_at(tenant, version.version).await?;
        Ok((subscriptions, found.collect()))
    }

    /// Finds out which ids are new, and which are repeats.
    fn meet_ids(
        &self,
        tenant: &Tenant,
        events: &[NewEvent],
        found: Vec<Option<Versioned>>,
        subscriptions: &SubscriptionIndex,
    ) -> Result<Vec<Seen>, AcceptError> {
        let mut found = found.into_iter();
        let mut here: HashMap<&str, (String, u64)> = HashMap::new();
        let mut seen = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let Some(id) = &event.id else {
                let now = self.ports.clock.now();
                let id = new_event_id(now, self.random());
                seen.push(self.incoming(tenant, event, id, None, (now, false), subscriptions));
                continue;
            };
            let earlier = found.next().flatten();
            let print = fingerprint_of(event);
            if let Some((first, deliveries)) = here.get(id.as_str()) {
                if *first != print {
                    return Err(AcceptError::IdTaken { index, id: id.clone() });
                }
                seen.push(Seen::Duplicate(Accepted {
                    id: id.clone(),
                    deliveries: *deliveries,
                    duplicate: true,
                }));
                continue;
            }
            let earlier = earlier.and_then(|v| match v.record {
                Record::Event(record) => Some((record, v.version)),
                _ => None,
            });
            let one = self.meet_id(tenant, index, event, id, &print, earlier, subscriptions)?;
            here.insert(id, (print, deliveries_of(&one)));
            seen.push(one);
        }
        Ok(seen)
    }

    #[expect(clippy::too_many_arguments, reason = "all of them say something about one event")]
    fn meet_id(
        &self,
        tenant: &Tenant,
        index: usize,
        event: &NewEvent,
        id: &str,
        print: &str,
        earlier: Option<(EventRecord, u64)>,
        subscriptions: &SubscriptionIndex,
    ) -> Result<Seen, AcceptError> {
        let now = self.ports.clock.both();
        let remembered = earlier.as_ref().filter(|(r, _)| {
            let being_accepted =
                matches!(r.phase, IdPhase::Pending { lease_until_real } if lease_until_real > now.real);
            being_accepted || now.schedule.since(r.accepted_at) < ID_REMEMBERED
        });
        let Some((record, version)) = remembered else {
            let expect = earlier.as_ref().map_or(Expect::Absent, |(_, version)| Expect::Version(*version));
            let begins = (now.schedule, false);
            return Ok(self.incoming(tenant, event, id.to_owned(), Some(expect), begins, subscriptions));
        };
        if record.fingerprint != print {
            return Err(AcceptError::IdTaken { index, id: id.to_owned() });
        }
        match record.phase {
            IdPhase::Done => Ok(Seen::Duplicate(Accepted {
                id: id.to_owned(),
                deliveries: record.deliveries,
                duplicate: true,
            })),
            IdPhase::Pending { lease_until_real } if lease_until_real > now.real => {
                Err(AcceptError::Busy { index, id: id.to_owned() })
            }
            // Whoever began this died: it is finished with the acceptance time that it had.
            IdPhase::Pending { .. } => {
                let expect = Some(Expect::Version(*version));
                let goes_on = (record.accepted_at, true);
                Ok(self.incoming(tenant, event, id.to_owned(), expect, goes_on, subscriptions))
            }
        }
    }

    /// `again`: it was accepted before, and whoever did so may have queued its deliveries.
    fn incoming(
        &self,
        tenant: &Tenant,
        event: &NewEvent,
        id: String,
        expect: Option<Expect>,
        (accepted_at, again): (Timestamp, bool),
        subscriptions: &SubscriptionIndex,
    ) -> Seen {
        let body = body_of(event, &id, accepted_at);
        let wanted_by = subscriptions.matching(&event.event_type, &body);
        let lease_until_real = self.ports.clock.now_real() + self.settings.function_timeout;
        let record = EventRecord {
            v: VERSION,
            tenant: tenant.clone(),
            event_key: EventKey::of(&id, accepted_at),
            event_type: event.event_type.clone(),
            subject: event.subject.clone(),
            accepted_at,
            deliveries: wanted_by.len() as u64,
            fingerprint: if expect.is_some() { fingerprint_of(event) } else { String::new() },
            phase: if expect.is_some() { IdPhase::Pending { lease_until_real } } else { IdPhase::Done },
            remove_at: Some(accepted_at + self.settings.schedule.lifetime + self.settings.keep),
            id,
        };
        Seen::New(Box::new(Incoming { record, body, wanted_by, expect, again }))
    }

    /// `false`: somebody else was faster with one of the ids.
    async fn lease_ids(&self, seen: &[Seen]) -> Result<bool, Unavailable> {
        let leases: Vec<Write> = new_ones(seen)
            .filter_map(|new| Some(Write::put(Record::Event(new.record.clone()), new.expect?)))
            .collect();
        if leases.is_empty() {
            return Ok(true);
        }
        self.try_write(leases).await
    }

    async fn queue_deliveries(&self, seen: &[Seen]) -> Result<(), Unavailable> {
        let mut messages = Vec::new();
        let mut records = Vec::new();
        let mut finished = Vec::new();
        for new in new_ones(seen) {
            let done = Record::Event(EventRecord { phase: IdPhase::Done, ..new.record.clone() });
            // The key of a generated id can be worked out, so the cheapest log does without a record of the event.
            match (new.expect.is_some(), self.settings.delivery_log) {
                (true, _) => finished.push(done),
                (false, DeliveryLog::All) => records.push(done),
                (false, DeliveryLog::Trouble) => {}
            }
            let count = new.wanted_by.len();
            if count > MOST_INLINE_DELIVERIES || (count > 0 && new.body.len() > MOST_INLINE_BYTES) {
                messages.push(self.start_fan_out(new).await?);
            } else {
                messages.extend(new.first_attempts());
            }
        }
        // At the same time, because an embedded store then needs only one flush for both.
        let (sent, kept) = join(self.send_first_attempts(messages), self.keep_events(records)).await;
        sent?;
        kept?;
        self.keep_events(finished).await
    }

    async fn keep_events(&self, records: Vec<Record>) -> Result<(), Unavailable> {
        if records.is_empty() {
            return Ok(());
        }
        let left = self.ports.store.put_each(records).await?;
        if left.is_empty() {
            Ok(())
        } else {
            Err(Unavailable(format!("{} events were not stored", left.len())))
        }
    }

    async fn start_fan_out(&self, new: &Incoming) -> Result<Outgoing, Unavailable> {
        let EventRecord { tenant, event_key, .. } = &new.record;
        let body_key = BodyKey::new(tenant, event_key);
        let remove_at = self.body_remove_at();
        let wanted = (wanted_key(&body_key), wanted_list(&new.wanted_by));
        self.ports.store.put_bodies(vec![(body_key, new.body.clone()), wanted], remove_at).await?;
        let id = JobId::derived(&["fan-out", tenant.as_str(), event_key.as_str()]);
        let job = self.new_job(tenant, id.clone(), Job::FanOut(new.fan_out()));
        // If it is there already, it was started before and goes on from where it is.
        self.try_write(vec![Write::put(Record::Job(job), Expect::Absent)]).await?;
        Ok(Outgoing { message: Message::Job { tenant: tenant.clone(), id }, delay: Delay::NONE })
    }
}

fn new_ones(seen: &[Seen]) -> impl Iterator<Item = &Incoming> {
    seen.iter().filter_map(|one| match one {
        Seen::New(new) => Some(&**new),
        Seen::Duplicate(_) => None,
    })
}

fn deliveries_of(seen: &Seen) -> u64 {
    match seen {
        Seen::New(new) => new.record.deliveries,
        Seen::Duplicate(accepted) => accepted.deliveries,
    }
}

fn answer(seen: Seen) -> Accepted {
    match seen {
        Seen::New(new) => Accepted { id: new.record.id, deliveries: new.record.deliveries, duplicate: false },
        Seen::Duplicate(accepted) => accepted,
    }
}
