//! The indexes. They hold keys only and may lag behind, so the records are read from the base table and checked.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::Select;
use futures_util::future::join_all;
use holdfast_core::ports::{Count, IndexCount, IndexQuery, Order, Page, Versioned, chain};
use holdfast_core::records::{Key, ListIndex, Record};
use holdfast_core::time::Timestamp;

use super::DynamoStore;
use super::fault::Fault;
use super::items::{
    Item, LIST_SHARDS, LIST_STATE, LIST_SUBSCRIPTION, LIST_TENANT, LIST_URL, LISTED, LOOK_AT, STATE_SORT,
    SWEEP_SHARD, key_of, list_partition, read, text_of,
};
use super::terms::Terms;
use super::values::{number, text};
use crate::call_error::CallError;

/// A position in a list. Two records may have the same sort key there, so it names the record too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    listed: String,
    key: Key,
}

impl Place {
    fn of(item: &Item, list: &List) -> Result<Place, Fault> {
        let listed = text_of(item, list.range).ok_or(Fault::WithoutKey)?;
        Ok(Place { listed: listed.to_owned(), key: key_of(item)? })
    }

    fn cursor(&self) -> String {
        serde_json::json!([self.listed, self.key.partition, self.key.sort]).to_string()
    }

    fn read(cursor: &str) -> Result<Place, Fault> {
        let (listed, partition, sort) = serde_json::from_str::<(String, String, String)>(cursor)
            .map_err(|_| Fault::Invalid("the cursor belongs to another list".to_owned()))?;
        Ok(Place { listed, key: Key::new(partition, sort) })
    }
}

/// The requested part of a list, from a place on.
struct Range<'a> {
    query: &'a IndexQuery,
    after: Option<Place>,
}

impl Range<'_> {
    fn contains(&self, place: &Place) -> bool {
        let query = self.query;
        query.from.as_ref().is_none_or(|from| place.listed >= *from)
            && query.to.as_ref().is_none_or(|to| place.listed < *to)
            && self.after.as_ref().is_none_or(|after| match query.order {
                Order::Ascending => place > after,
                Order::Descending => place < after,
            })
    }

    /// Inclusive bounds of `listed`, as DynamoDB takes them; `contains` is exact. `None`: the range is empty.
    fn bounds(&self) -> Option<(Option<&str>, Option<&str>)> {
        let after = |order| {
            self.after.as_ref().filter(|_| self.query.order == order).map(|after| after.listed.as_str())
        };
        let lower = self.query.from.as_deref().max(after(Order::Ascending)).filter(|from| !from.is_empty());
        let upper = match (self.query.to.as_deref(), after(Order::Descending)) {
            (Some(to), Some(after)) => Some(to.min(after)),
            (to, after) => to.or(after),
        };
        let empty = upper.is_some_and(|upper| upper.is_empty() || lower.is_some_and(|lower| lower > upper));
        (!empty).then_some((lower, upper))
    }

    fn condition(&self, shard: u8, terms: &mut Terms) -> Option<String> {
        let list = List::of(self.query.index);
        let partition = text(list_partition(&self.query.partition, shard));
        let partition = terms.compare(list.hash, "=", "partition", partition);
        let bounds = match self.bounds()? {
            (None, None) => return Some(partition),
            (Some(lower), None) => terms.compare(list.range, ">=", "lower", text(lower)),
            (None, Some(upper)) => terms.compare(list.range, "<=", "upper", text(upper)),
            (Some(lower), Some(upper)) => {
                let between = terms.compare(list.range, "BETWEEN", "lower", text(lower));
                format!("{between} AND {}", terms.value("upper", text(upper)))
            }
        };
        Some(format!("{partition} AND {bounds}"))
    }

    fn sort(&self, places: &mut [Place]) {
        places.sort();
        if self.query.order == Order::Descending {
            places.reverse();
        }
    }
}

/// An index and its attributes.
struct List {
    index: &'static str,
    hash: &'static str,
    range: &'static str,
}

impl List {
    fn of(index: ListIndex) -> List {
        let (index, hash, range) = match index {
            ListIndex::ByTenant => ("by-tenant", LIST_TENANT, LISTED),
            ListIndex::ByUrl => ("by-url", LIST_URL, LISTED),
            ListIndex::BySubscription => ("by-subscription", LIST_SUBSCRIPTION, LISTED),
            ListIndex::ByState => ("by-state", LIST_STATE, STATE_SORT),
        };
        List { index, hash, range }
    }
}

/// Whether a record is still where its index says. Only its own release knows where a newer record belongs, so it is kept.
fn belongs(found: &Versioned, query: &IndexQuery, place: &Place) -> bool {
    let listed = found.record.index_entries().in_list(query.index);
    matches!(found.record, Record::Newer { .. })
        || listed.is_some_and(|(list, sort)| list == query.partition && sort == place.listed)
}

impl DynamoStore {
    pub(super) async fn list_page(&self, query: &IndexQuery) -> Result<Page, Fault> {
        let after = query.after.as_deref().map(Place::read).transpose()?;
        let mut range = Range { query, after };
        let mut kept: Vec<(Place, Versioned)> = Vec::new();
        // One more than the limit shows whether there is more. Stale entries must not end a page early.
        loop {
            let wanted = query.limit.saturating_add(1) - kept.len();
            let (places, all) = self.places(&range, wanted).await?;
            let keys: Vec<Key> = places.iter().map(|place| place.key.clone()).collect();
            let mut items = self.get_items(&keys).await?;
            for place in &places {
                let Some(item) = items.remove(&place.key) else { continue };
                let found = read(item)?;
                if belongs(&found, query, place) {
                    kept.push((place.clone(), found));
                }
            }
            if all || kept.len() > query.limit {
                break;
            }
            range.after = places.into_iter().next_back().or(range.after);
        }
        let more = kept.len() > query.limit;
        kept.truncate(query.limit);
        let next = kept.last().filter(|_| more).map(|(place, _)| place.cursor());
        Ok(Page { items: kept.into_iter().map(|(_, found)| found).collect(), next })
    }

    /// The next `wanted` places of all shards, in order, and whether there are no others.
    async fn places(&self, range: &Range<'_>, wanted: usize) -> Result<(Vec<Place>, bool), Fault> {
        let shards = (0..LIST_SHARDS).map(|shard| self.places_in_shard(range, shard, wanted));
        let mut places = Vec::new();
        let mut all = true;
        for answer in join_all(shards).await {
            let (found, all_of_shard) = answer?;
            places.extend(found);
            all &= all_of_shard;
        }
        range.sort(&mut places);
        all &= places.len() <= wanted;
        places.truncate(wanted);
        Ok((places, all))
    }

    async fn places_in_shard(
        &self,
        range: &Range<'_>,
        shard: u8,
        wanted: usize,
    ) -> Result<(Vec<Place>, bool), Fault> {
        let mut terms = Terms::default();
        let Some(condition) = range.condition(shard, &mut terms) else { return Ok((Vec::new(), true)) };
        let list = List::of(range.query.index);
        // Some more, for those with the same sort key as the last one of the page before.
        let limit = wanted.saturating_add(3);
        let mut places: Vec<Place> = Vec::new();
        let mut start = None;
        loop {
            let request = self.query_from(start, &condition, &terms, limit).index_name(list.index);
            let request = request.scan_index_forward(range.query.order == Order::Ascending);
            let answer = request.send().await.map_err(|error| CallError::new("Query", &error))?;
            for item in answer.items() {
                places.push(Place::of(item, &list)?);
            }
            start = answer.last_evaluated_key;
            let complete = complete(&places, range, start.is_none());
            if complete.len() >= wanted || start.is_none() {
                return Ok((complete, start.is_none()));
            }
        }
    }

    /// All shards at once, keys only.
    pub(super) async fn count_list(&self, count: &IndexCount) -> Result<Count, Fault> {
        let shards = (0..LIST_SHARDS).map(|shard| self.count_in_shard(count, shard));
        let mut all = 0;
        for counted in join_all(shards).await {
            all += counted?;
        }
        Ok(Count { count: all.min(count.limit) as u64, more: all > count.limit })
    }

    /// Up to one more than the limit, which shows that there is more.
    async fn count_in_shard(&self, count: &IndexCount, shard: u8) -> Result<usize, Fault> {
        let query =
            IndexQuery::of(count.index, &count.partition, count.limit).between(count.from.clone(), None);
        let range = Range { query: &query, after: None };
        let mut terms = Terms::default();
        let Some(condition) = range.condition(shard, &mut terms) else { return Ok(0) };
        let wanted = count.limit.saturating_add(1);
        let (mut counted, mut start) = (0, None);
        loop {
            let request = self.query_from(start, &condition, &terms, wanted - counted);
            let request = request.index_name(List::of(count.index).index).select(Select::Count);
            let answer = request.send().await.map_err(|error| CallError::new("Query", &error))?;
            counted += usize::try_from(answer.count()).unwrap_or_default();
            start = answer.last_evaluated_key;
            if counted >= wanted || start.is_none() {
                return Ok(counted);
            }
        }
    }

    pub(super) async fn overdue_in_shard(
        &self,
        shard: u8,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Versioned>, Fault> {
        let mut terms = Terms::default();
        let in_shard = terms.compare(SWEEP_SHARD, "=", "shard", text(shard.to_string()));
        let is_due = terms.compare(LOOK_AT, "<=", "until", number(until.as_millis()));
        let condition = format!("{in_shard} AND {is_due}");
        let mut kept: Vec<(Timestamp, Versioned)> = Vec::new();
        let mut seen = HashSet::new();
        let mut start = None;
        while kept.len() < limit {
            let request = self.query_from(start, &condition, &terms, limit - kept.len()).index_name("sweep");
            let answer = request.send().await.map_err(|error| CallError::new("Query", &error))?;
            let mut keys = answer.items().iter().map(key_of).collect::<Result<Vec<Key>, Fault>>()?;
            // An entry that moves in the index while it is read is found again.
            keys.retain(|key| seen.insert(key.clone()));
            let mut items = self.get_items(&keys).await?;
            for item in keys.iter().filter_map(|key| items.remove(key)) {
                match read(item) {
                    // Without records of a newer release: that release looks at them, and here they would hide the others.
                    Ok(found) => {
                        let look_at =
                            found.record.index_entries().look_at.filter(|look_at| *look_at <= until);
                        kept.extend(look_at.map(|look_at| (look_at, found)));
                    }
                    // One corrupt record must not keep the sweep from all the others.
                    Err(fault) => tracing::error!(error = chain(&fault), "record.unreadable"),
                }
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                break;
            }
        }
        kept.sort_by_key(|(look_at, _)| *look_at);
        Ok(kept.into_iter().map(|(_, found)| found).collect())
    }
}

/// The places of a shard in the range, in order. DynamoDB returns equal sort keys in any order, so unless these are all places, those
/// with the last sort key may be incomplete and are left out.
fn complete(places: &[Place], range: &Range<'_>, all: bool) -> Vec<Place> {
    let last = places.last().map(|place| place.listed.as_str());
    let certain = |place: &&Place| all || Some(place.listed.as_str()) != last;
    let in_range = places.iter().filter(certain).filter(|place| range.contains(place));
    let mut complete: Vec<Place> = in_range.cloned().collect();
    range.sort(&mut complete);
    complete
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
