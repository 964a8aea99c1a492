//! The deliveries of a URL that a bulk replay goes through, oldest first.

use super::{Engine, Unavailable};
use crate::ids::{DeliveryKey, Tenant};
use crate::ports::{IndexQuery, Order};
use crate::records::{BulkReplay, DeliveryRecord, ListIndex, LoggedDelivery, Record, Turn};

/// One delivery of the list.
pub(super) struct Listed {
    /// Where it stands in the list.
    pub(super) place: String,
    /// As it is now, with the version of its record if it has one. `None`: it was removed meanwhile.
    pub(super) delivery: Option<(DeliveryRecord, Option<u64>)>,
}

pub(super) struct Replayable {
    pub(super) deliveries: Vec<Listed>,
    pub(super) more: bool,
}

/// How many deliveries are counted before a replay begins.
const MOST_COUNTED: u64 = 10_000;
/// How many are looked at for that, so that rare ones do not make one request read everything.
const MOST_LOOKED_AT: usize = 20_000;
const COUNT_PAGE: usize = 500;
/// A delivery stands in the list by its record and by its log.
const ENTRIES_OF_ONE: usize = 2;

impl Engine {
    /// The next deliveries behind the place that the replay has come to.
    pub(super) async fn replayable(
        &self,
        tenant: &Tenant,
        work: &BulkReplay,
        limit: usize,
    ) -> Result<Replayable, Unavailable> {
        let query = IndexQuery {
            index: ListIndex::ByUrl,
            partition: DeliveryRecord::url_list(tenant, &work.wanted.url_id),
            from: work.place.clone().or(work.wanted.since.map(|since| since.sort_key())),
            to: Some(work.accepted_before().sort_key()),
            after: None,
            order: Order::Ascending,
            // The page begins with the delivery that was looked at last.
            limit: limit + ENTRIES_OF_ONE,
        };
        let page = self.ports.store.query_index(query).await?;
        let mut listed: Vec<(String, DeliveryKey, Option<LoggedDelivery>)> = Vec::new();
        for item in page.items {
            let Some(place) = item.record.index_entries().listed.map(|listed| listed.sort) else { continue };
            let (key, logged) = match item.record {
                Record::Delivery(record) => (record.key, None),
                Record::Logged(logged) => (logged.key.clone(), Some(logged)),
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
        let records = self.get_all(&keys).await?;
        let deliveries = listed.into_iter().zip(records).map(|((place, _, logged), found)| {
            let delivery = match found.map(|v| (v.record, v.version)) {
                Some((Record::Delivery(record), version)) => Some((record, Some(version))),
                _ => logged.map(|logged| (self.record_of(logged), None)),
            };
            Listed { place, delivery }
        });
        Ok(Replayable { deliveries: deliveries.collect(), more: page.next.is_some() })
    }

    /// How many deliveries a replay that has not begun will find, and whether there are more than could be counted.
    pub(super) async fn count_replayable(
        &self,
        tenant: &Tenant,
        work: &BulkReplay,
    ) -> Result<(u64, bool), Unavailable> {
        let mut ahead = work.clone();
        let (mut matched, mut looked_at) = (0, 0);
        loop {
            let page = self.replayable(tenant, &ahead, COUNT_PAGE).await?;
            let now = self.ports.clock.now();
            for listed in &page.deliveries {
                if matched >= MOST_COUNTED || looked_at >= MOST_LOOKED_AT {
                    return Ok((matched, true));
                }
                looked_at += 1;
                let turn = listed.delivery.as_ref().map(|(d, _)| work.turn(d, now, self.settings.keep));
                matched += u64::from(turn == Some(Turn::Replay));
            }
            if !page.more {
                return Ok((matched, false));
            }
            ahead.place = page.deliveries.into_iter().next_back().map(|last| last.place).or(ahead.place);
        }
    }
}
