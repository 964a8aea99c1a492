//! Posts an event for each change of a URL's state and for its trouble, for the tenant's own subscriptions. A URL that changes all the time
//! has only its newest changes announced, so the last one always is.

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::super::{AcceptError, Change, ConflictRetries, Engine, Loaded, NewEvent, Result, Unavailable};
use crate::ids::{Tenant, UrlId, change_event_id, trouble_event_id};
use crate::records::{HistoryEntry, TroubleChange, TroubleNote, UrlRecord};
use crate::rules::health::UrlState;
use crate::rules::last_failure::AttemptError;
use crate::rules::{event_type, look_at};
use crate::time::Timestamp;

/// What the event says about the change.
#[derive(Serialize)]
struct Data<'a> {
    url_id: &'a UrlId,
    url: &'a str,
    from: UrlState,
    to: UrlState,
    at: String,
    by: &'a str,
    why: &'a str,
}

fn event_of(entry: &HistoryEntry, url: &UrlRecord) -> NewEvent {
    let data = Data {
        url_id: &url.id,
        url: &url.url,
        from: entry.from,
        to: entry.to,
        at: entry.at.to_string(),
        by: &entry.by,
        why: &entry.why,
    };
    NewEvent {
        // The same change always has the same id, so that announcing it twice posts it once.
        id: Some(change_event_id(&url.id, entry.generation, entry.at)),
        event_type: format!("{}url.{}", event_type::RESERVED, entry.to.as_str()),
        subject: None,
        data: to_raw_value(&data).expect("plain data can be written"),
        trace: None,
    }
}

/// What the event says about the trouble of a URL.
#[derive(Serialize)]
struct TroubleData<'a> {
    url_id: &'a UrlId,
    url: &'a str,
    at: String,
    /// When the first of the consecutive failures was attempted.
    failing_since: Option<String>,
    #[serde(flatten)]
    failing: Option<FailingData<'a>>,
}

/// Left out in recoveries.
#[derive(Serialize)]
struct FailingData<'a> {
    streak: u64,
    last_error: Option<&'a AttemptError>,
}

fn trouble_event_of(note: &TroubleNote, url: &UrlRecord) -> NewEvent {
    let (name, failing) = match &note.change {
        TroubleChange::Failing { streak, error } => {
            ("failing", Some(FailingData { streak: *streak, last_error: error.as_ref() }))
        }
        TroubleChange::Recovered => ("recovered", None),
    };
    let data = TroubleData {
        url_id: &url.id,
        url: &url.url,
        at: note.at.to_string(),
        failing_since: note.failing_since.map(|since| since.to_string()),
        failing,
    };
    NewEvent {
        id: Some(trouble_event_id(&url.id, note.number, note.at)),
        event_type: format!("{}url.{name}", event_type::RESERVED),
        subject: None,
        data: to_raw_value(&data).expect("plain data can be written"),
        trace: None,
    }
}

/// The events about so many of the newest changes and notes, in the order in which they happened.
fn newest_events(changes: &[HistoryEntry], url: &UrlRecord, most: usize) -> Vec<NewEvent> {
    let changes = changes.iter().map(|entry| (entry.at, event_of(entry, url)));
    let notes = url.trouble.pending().iter().map(|note| (note.at, trouble_event_of(note, url)));
    let mut events: Vec<(Timestamp, NewEvent)> = changes.rev().chain(notes).collect();
    events.sort_by_key(|(at, _)| *at);
    events.drain(..events.len().saturating_sub(most));
    events.into_iter().map(|(_, event)| event).collect()
}

/// The changes that are announced now.
struct Claimed {
    tenant: Tenant,
    url_id: UrlId,
    events: Vec<NewEvent>,
    /// All changes up to this generation are among them, or replaced by newer ones.
    up_to: u64,
    /// The same for the notes of its trouble, by their numbers.
    up_to_note: u64,
}

impl Engine {
    /// A change that comes meanwhile sends no ticket, because this one finds it.
    pub(crate) async fn announce(&self, tenant: &Tenant, url_id: &UrlId) -> Result<()> {
        while let Some(claimed) = self.claim_announcements(tenant, url_id).await? {
            self.post_changes(&claimed).await?;
            self.end_announcements(&claimed).await?;
        }
        Ok(())
    }

    /// Takes the changes from what the URL and its tenant may announce, before any is posted: a change that comes meanwhile must not have
    /// them announced again and again. `None`: there is nothing to announce, or not now.
    async fn claim_announcements(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<Claimed>> {
        let mut retries = ConflictRetries::new();
        loop {
            let Some(url) = self.repository.get_url(tenant, url_id).await? else { return Ok(None) };
            let Loaded { record: mut url, version } = url;
            let Some(pending) = url.announcement else { return Ok(None) };
            let now = self.ports.clock.now();
            let available = url.announced.available(now) as usize;
            let newest = self.repository.list_history(tenant, url_id, available.max(1)).await?;
            let changes: Vec<_> =
                newest.into_iter().filter(|entry| entry.generation >= pending.from_generation).collect();
            let events = newest_events(&changes, &url, available.max(1));
            let count = events.len() as u64;
            let is_due = if available == 0 {
                let wait = url.announced.wait(now);
                url.announce_after(now + wait);
                false
            } else if let Err(wait) = self.take_own_events(tenant, count).await? {
                url.announce_after(look_at::after_look(now).max(now + wait));
                false
            } else {
                url.claim_announcements(count as u32, now);
                true
            };
            let up_to = url.health.generation;
            let up_to_note = url.trouble.pending().last().map_or(0, |note| note.number);
            let is_written = self.repository.replace(url, version).await;
            if is_due && !matches!(is_written, Ok(true)) {
                self.give_back_events(tenant, count);
            }
            if is_written? {
                let (tenant, url_id) = (tenant.clone(), url_id.clone());
                return Ok(is_due.then_some(Claimed { tenant, url_id, events, up_to, up_to_note }));
            }
            retries.again(url_id)?;
        }
    }

    async fn post_changes(&self, claimed: &Claimed) -> Result<()> {
        let Claimed { tenant, url_id, events, .. } = claimed;
        let mut events = events.clone();
        while !events.is_empty() {
            match self.accept(tenant, events.clone()).await {
                Ok(_) => {
                    self.publish(tenant, &events).await;
                    return Ok(());
                }
                // Only the tenant itself can have used an id that is derived from a hash, so this change stays unannounced.
                Err(AcceptError::IdTaken { index, id }) => {
                    tracing::warn!(%tenant, %url_id, id, "the id of a change is taken");
                    events.remove(index);
                }
                Err(AcceptError::Busy { id, .. }) => return Err(Unavailable::Busy(id)),
                Err(AcceptError::Unavailable(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// What changed since the claim stays to be announced.
    async fn end_announcements(&self, claimed: &Claimed) -> Result<()> {
        let decide = |Loaded { record: mut url, .. }: Loaded<UrlRecord>| {
            url.end_announcements(claimed.up_to, claimed.up_to_note);
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), ()))
        };
        self.repository.update(UrlRecord::key(&claimed.tenant, &claimed.url_id), decide).await?;
        Ok(())
    }
}
