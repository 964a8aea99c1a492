//! Which of the posted ids are new, and which are repeats.

use std::collections::HashMap;
use std::time::Duration;

use super::subscription_cache::{Recipients, WORK_AT_ONCE};
use super::{AcceptError, Accepted, Incoming, NewEvent, Resolved};
use crate::engine::repository::typed;
use crate::engine::{Engine, Loaded, Result};
use crate::ids::{EventKey, Tenant, new_event_id};
use crate::ports::{Expect, Versioned};
use crate::records::{EventRecord, IdPhase, Record};
use crate::rules::matching::SubscriptionIndex;
use crate::time::Timestamp;

/// How long a given id is remembered.
const ID_REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What is known of a given id.
enum KnownId {
    /// Never used, or used so long ago that it is a new event. `Expect` is what its record must still be when it is written.
    Unused(Expect),
    /// Accepted before.
    Done(EventRecord),
    /// The request that was accepting it died. It is finished with the acceptance time that it had.
    Unfinished(EventRecord, Expect),
}

/// It was accepted so long ago that another event may have its id.
fn is_forgotten(event: &EventRecord, now: Timestamp) -> bool {
    now.since(event.accepted_at) >= ID_REMEMBERED
}

/// Where the acceptance of an event begins.
struct Start {
    id: String,
    accepted_at: Timestamp,
    /// `None`: the id is generated, so there is no record to protect.
    expect: Option<Expect>,
    again: bool,
}

impl Engine {
    pub(super) async fn resolve_ids(
        &self,
        tenant: &Tenant,
        events: &[NewEvent],
        found: Vec<Option<Versioned>>,
        subscriptions: &SubscriptionIndex,
    ) -> Result<Vec<Resolved>, AcceptError> {
        let mut known = self.known_ids(events, found)?.into_iter();
        let mut in_this_post: HashMap<&str, (String, u64)> = HashMap::new();
        let mut at_once = WORK_AT_ONCE;
        let mut resolved = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let Some(id) = &event.id else {
                resolved.push(self.generated_id(tenant, event, subscriptions, &mut at_once).await);
                continue;
            };
            let known = known.next().unwrap_or(KnownId::Unused(Expect::Absent));
            let print = event.fingerprint();
            if let Some((first, deliveries)) = in_this_post.get(id.as_str()) {
                if *first != print {
                    return Err(AcceptError::IdTaken { index, id: id.clone() });
                }
                resolved.push(duplicate(id, *deliveries));
                continue;
            }
            let (expect, accepted_at, again) = match known {
                KnownId::Done(record) | KnownId::Unfinished(record, _) if record.fingerprint != print => {
                    return Err(AcceptError::IdTaken { index, id: id.clone() });
                }
                KnownId::Done(record) => {
                    in_this_post.insert(id, (print, record.deliveries));
                    resolved.push(duplicate(id, record.deliveries));
                    continue;
                }
                KnownId::Unused(expect) => (expect, self.ports.clock.now(), false),
                KnownId::Unfinished(record, expect) => (expect, record.accepted_at, true),
            };
            let start = Start { id: id.clone(), accepted_at, expect: Some(expect), again };
            let incoming = self.new_event(tenant, event, start, (subscriptions, &mut at_once)).await;
            in_this_post.insert(id, (print, incoming.record.deliveries));
            resolved.push(Resolved::New(Box::new(incoming)));
        }
        Ok(resolved)
    }

    async fn generated_id(
        &self,
        tenant: &Tenant,
        event: &NewEvent,
        subscriptions: &SubscriptionIndex,
        at_once: &mut usize,
    ) -> Resolved {
        let accepted_at = self.ports.clock.now();
        let id = new_event_id(accepted_at, self.random());
        let start = Start { id, accepted_at, expect: None, again: false };
        Resolved::New(Box::new(self.new_event(tenant, event, start, (subscriptions, at_once)).await))
    }

    /// What is known of each given id. If one is being accepted by another request, nothing else is done, because the caller asks again
    /// and again.
    fn known_ids(
        &self,
        events: &[NewEvent],
        found: Vec<Option<Versioned>>,
    ) -> Result<Vec<KnownId>, AcceptError> {
        let given = events.iter().enumerate().filter_map(|(index, event)| Some((index, event.id.as_ref()?)));
        let known = given.zip(found).map(|((index, id), found)| {
            self.known_id(found)?.ok_or_else(|| AcceptError::Busy { index, id: id.clone() })
        });
        known.collect()
    }

    /// Whether another request is accepting an event with this id.
    pub async fn is_being_accepted(&self, tenant: &Tenant, id: &str) -> Result<bool> {
        let found = self.repository.get_all(&[EventRecord::key(tenant, id)]).await?.into_iter().next();
        Ok(self.known_id(found.flatten())?.is_none())
    }

    /// Whether this id was found and a post of it is a repeat.
    pub(super) fn is_remembered(&self, found: &Option<Versioned>) -> bool {
        let record = found.as_ref().map(|found| &found.record);
        matches!(record, Some(Record::Event(event)) if !is_forgotten(event, self.ports.clock.now()))
    }

    /// `None`: another request is accepting it.
    fn known_id(&self, found: Option<Versioned>) -> Result<Option<KnownId>> {
        let Some(Loaded { record, version }) = typed::<EventRecord>(found)? else {
            return Ok(Some(KnownId::Unused(Expect::Absent)));
        };
        let now = self.ports.clock.both();
        let being_accepted = matches!(record.phase, IdPhase::Pending { lease_until_real }
            if lease_until_real > now.real && !self.is_of_earlier_process(lease_until_real));
        if !being_accepted && is_forgotten(&record, now.schedule) {
            return Ok(Some(KnownId::Unused(Expect::Version(version))));
        }
        Ok(match record.phase {
            IdPhase::Done => Some(KnownId::Done(record)),
            IdPhase::Pending { .. } if being_accepted => None,
            IdPhase::Pending { .. } => Some(KnownId::Unfinished(record, Expect::Version(version))),
        })
    }

    async fn new_event(
        &self,
        tenant: &Tenant,
        event: &NewEvent,
        start: Start,
        (subscriptions, at_once): (&SubscriptionIndex, &mut usize),
    ) -> Incoming {
        let Start { id, accepted_at, expect, again } = start;
        let body = event.body(&id, accepted_at);
        let Recipients { members: recipients, are_refused: is_refused } =
            self.find_recipients(tenant, subscriptions, (&event.event_type, &body), at_once).await;
        let lease_until_real = self.ports.clock.now_real() + self.settings.function_timeout;
        let record = EventRecord {
            tenant: tenant.clone(),
            event_key: EventKey::of(&id, accepted_at),
            event_type: event.event_type.clone(),
            subject: event.subject.clone(),
            accepted_at,
            deliveries: recipients.len() as u64,
            fingerprint: if expect.is_some() { event.fingerprint() } else { String::new() },
            phase: if expect.is_some() { IdPhase::Pending { lease_until_real } } else { IdPhase::Done },
            remove_at: Some(accepted_at + self.settings.schedule.lifetime + self.settings.keep),
            id,
        };
        Incoming { record, body, recipients, is_refused, expect, again, trace: event.trace.clone() }
    }
}

fn duplicate(id: &str, deliveries: u64) -> Resolved {
    Resolved::Duplicate(Accepted { id: id.to_owned(), deliveries, duplicate: true })
}
