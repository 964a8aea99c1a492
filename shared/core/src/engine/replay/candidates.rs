//! The deliveries of a URL that a bulk replay goes through, oldest first.

use super::super::{Engine, Loaded, Result};
use crate::ids::{DeliveryKey, Tenant};
use crate::ports::IndexQuery;
use crate::records::{BulkReplay, DeliveryRecord, ListIndex, LoggedDelivery, Record, ReplayDecision};

/// One delivery of the list.
pub(super) struct Candidate {
    /// Where it stands in the list.
    pub(super) place: String,
    /// As it is now. `None`: it was removed in the meantime.
    pub(super) delivery: Option<Loaded<DeliveryRecord>>,
}

pub(super) struct Candidates {
    pub(super) deliveries: Vec<Candidate>,
    pub(super) more: bool,
}

/// How many deliveries are counted before a replay begins.
const MAX_COUNTED: u64 = 10_000;
/// How many are looked at for that, so that rare ones do not make one request read everything.
const MAX_SCANNED: usize = 20_000;
const COUNT_PAGE: usize = 100;
/// A delivery stands in the list by its record and by its log.
const ENTRIES_OF_ONE: usize = 2;

impl Engine {
    /// The next deliveries behind the place that the replay has come to.
    pub(super) async fn list_candidates(
        &self,
        tenant: &Tenant,
        work: &BulkReplay,
        limit: usize,
    ) -> Result<Candidates> {
        let partition = DeliveryRecord::url_list(tenant, &work.wanted.url_id);
        let from = work.place.clone().or(work.wanted.since.map(|since| since.sort_key()));
        // The page begins with the delivery that was looked at last.
        let query = IndexQuery::of(ListIndex::ByUrl, partition, limit + ENTRIES_OF_ONE)
            .between(from, Some(work.accepted_before().sort_key()));
        let page = self.repository.list_index::<Record>(query).await?;
        let mut listed: Vec<(String, DeliveryKey, Option<LoggedDelivery>)> = Vec::new();
        for item in page.items {
            let Some(place) = item.index_entries().listed.map(|listed| listed.sort) else { continue };
            let (key, logged) = match item {
                Record::Delivery(record) => (record.key, None),
                Record::Logged(logged) => (logged.delivery.key.clone(), Some(logged)),
                _ => continue,
            };
            match listed.last_mut() {
                _ if work.place.as_ref() == Some(&place) => {}
                Some((last, _, log)) if *last == place => *log = logged.or(log.take()),
                _ => listed.push((place, key, logged)),
            }
        }
        // The record may stand on the next page, and the index may lag: the record itself is asked.
        let keys: Vec<_> = listed.iter().map(|(_, key, _)| DeliveryRecord::key(key)).collect();
        let records = self.repository.get_each::<DeliveryRecord>(&keys).await?;
        let deliveries = listed.into_iter().zip(records).map(|((place, _, logged), record)| {
            Ok(Candidate { place, delivery: self.finished(record?, logged) })
        });
        let deliveries = deliveries.collect::<Result<_>>()?;
        Ok(Candidates { deliveries, more: page.next.is_some() })
    }

    /// How many deliveries a replay that has not begun will find, and whether there are more than could be counted.
    pub(super) async fn count_candidates(&self, tenant: &Tenant, work: &BulkReplay) -> Result<(u64, bool)> {
        let mut ahead = work.clone();
        let (mut matched, mut scanned) = (0, 0);
        loop {
            let page = self.list_candidates(tenant, &ahead, COUNT_PAGE).await?;
            let now = self.ports.clock.now();
            for candidate in &page.deliveries {
                if matched >= MAX_COUNTED || scanned >= MAX_SCANNED {
                    return Ok((matched, true));
                }
                scanned += 1;
                let decision = candidate
                    .delivery
                    .as_ref()
                    .map(|delivery| work.decide(&delivery.record, now, self.settings.keep));
                matched += u64::from(decision == Some(ReplayDecision::Replay));
            }
            if !page.more {
                return Ok((matched, false));
            }
            ahead.place = page.deliveries.into_iter().next_back().map(|last| last.place).or(ahead.place);
        }
    }
}
