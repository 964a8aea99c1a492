//! Takes parked deliveries out of parked, many at a time.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::super::tickets::delivery_ticket;
use super::super::{Engine, Loaded, Result};
use super::release::{ReleaseStep, Released};
use crate::ports::{Delay, Outgoing, chain};
use crate::records::{DeliveryRecord, ParkedPointer};
use crate::rules::delivery::{DeliveryState, Reason};
use crate::rules::release::{STEP_INTERVAL, spread};
use crate::time::Timestamp;

/// How many are read, written and sent before the next: the first of a large step need not wait for the last.
const PAGE: usize = 500;
/// A small step looks at more than it releases, because some may have expired.
const MIN_PAGE: usize = 100;
/// How many deliveries are written in one transaction: two records each.
const PER_WRITE: usize = 25;
const CONCURRENT_WRITES: usize = 8;
/// How many pages of deliveries that take no place in the step are gone through, because they have expired.
const MAX_SPARE_PAGES: usize = 40;

/// A parked delivery and what it becomes.
struct Unparked {
    before: Loaded<DeliveryRecord>,
    after: DeliveryRecord,
}

impl Engine {
    /// Goes on as long as there is time. What could not be released is still parked, and the next step takes it first.
    pub(super) async fn release_step(&self, step: &ReleaseStep, until_real: Timestamp) -> Released {
        let mut released = Released::default();
        let (mut after, mut spare_pages) = (None, 0);
        loop {
            let limit = PAGE.min(MIN_PAGE.max((step.size - released.count) as usize));
            let page = match self.repository.list_parked(&step.tenant, &step.url_id, after, limit).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(error = chain(&error), url_id = %step.url_id, "a release could not go on");
                    return released;
                }
            };
            released.found_nothing = page.items.is_empty() && released.count == 0 && spare_pages == 0;
            let count_before = released.count;
            if let Err(error) = self.release_page(step, &page.items, &mut released).await {
                tracing::warn!(error = chain(&error), url_id = %step.url_id, "some deliveries could not be released yet");
                return released;
            }
            spare_pages += usize::from(released.count == count_before);
            after = page.next;
            let is_over = released.count >= step.size || after.is_none() || spare_pages > MAX_SPARE_PAGES;
            if is_over || self.check_time(until_real).is_err() {
                return released;
            }
        }
    }

    /// The records, then the tickets.
    async fn release_page(
        &self,
        step: &ReleaseStep,
        pointers: &[ParkedPointer],
        released: &mut Released,
    ) -> Result<()> {
        let now = self.ports.clock.now();
        let mut places = step.size - released.count;
        let mut takes_place = |pointer: &&ParkedPointer| {
            let has_place = places > 0;
            // What has expired is made dead, and takes none.
            let is_expired = now > pointer.expires_at;
            places -= u32::from(has_place && !is_expired);
            has_place || is_expired
        };
        let chosen = pointers.iter().filter(|pointer| takes_place(pointer));
        let keys: Vec<_> = chosen.map(|pointer| DeliveryRecord::key(&pointer.key)).collect();
        let found = self.repository.get_each::<DeliveryRecord>(&keys).await?;
        let mut failed = None;
        let mut unparked = Vec::new();
        for found in found {
            match found {
                Ok(Some(parked)) if parked.record.progress.state == DeliveryState::Parked => {
                    unparked.push(self.unpark(step, parked, now));
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        let mut groups = Vec::new();
        while !unparked.is_empty() {
            let rest = unparked.split_off(PER_WRITE.min(unparked.len()));
            groups.push(std::mem::replace(&mut unparked, rest));
        }
        // In their order, so that the oldest have the first tickets.
        let mut written = stream::iter(groups.into_iter().map(|group| self.write_unparked(group)))
            .buffered(CONCURRENT_WRITES);
        let mut tickets = Vec::new();
        while let Some(group) = written.next().await {
            match group {
                Ok(records) => {
                    let live = records.into_iter().filter(|record| record.progress.state.is_live());
                    tickets.extend(live.map(|record| self.ticket_in_step(step, &record, released)));
                }
                Err(error) => failed = Some(error),
            }
        }
        self.send_tickets(tickets).await;
        failed.map_or(Ok(()), Err)
    }

    fn unpark(&self, step: &ReleaseStep, before: Loaded<DeliveryRecord>, now: Timestamp) -> Unparked {
        let mut after = before.record.clone();
        if after.progress.is_expired(now) {
            after.progress.die(Reason::Expired, now, self.settings.keep);
        } else {
            after.progress.unpark(now);
            // One that is due later says nothing about this step.
            let is_due = after.progress.due_at <= step.began.schedule + STEP_INTERVAL;
            after.released_in = is_due.then(|| step.id.clone());
        }
        Unparked { before, after }
    }

    /// Returns those that were written. Others were changed by another writer in the meantime.
    async fn write_unparked(&self, group: Vec<Unparked>) -> Result<Vec<DeliveryRecord>> {
        let all: Vec<_> = group.iter().map(|one| (&one.before, one.after.clone())).collect();
        if self.repository.replace_deliveries(all).await? {
            return Ok(group.into_iter().map(|one| one.after).collect());
        }
        let mut written = Vec::new();
        for Unparked { before, after } in group {
            if self.repository.replace_delivery(&before, after.clone(), Vec::new()).await? {
                written.push(after);
            }
        }
        Ok(written)
    }

    /// Takes the next place of the step, which has its time.
    fn ticket_in_step(
        &self,
        step: &ReleaseStep,
        record: &DeliveryRecord,
        released: &mut Released,
    ) -> Outgoing {
        let at = step.began.schedule + spread(released.count, step.size);
        released.count += 1;
        released.judged_by += u32::from(record.released_in.is_some());
        let wait: Duration = at.max(record.progress.due_at).since(self.ports.clock.now());
        delivery_ticket(record, Delay::at_most(wait))
    }
}
