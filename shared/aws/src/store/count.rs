//! Counting outcomes on a URL.

use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::records::{HistoryEntry, Key, Record, UrlRecord};
use holdfast_core::rules::health::{Health, Outcome};
use holdfast_core::time::Now;

use super::DynamoStore;
use super::fast_count::FastCount;
use super::fault::Fault;
use super::items::{
    COUNTER, Item, LAST_SUCCESS_AT, STREAK, VERSION, WINDOW_ATTEMPTS, WINDOW_FAILURES, WRITER, is_readable,
    item_of, read_url, text_of, version_of,
};
use super::request::{Action, Refusal, Request, send_all};
use super::terms::Terms;
use super::values::number;

/// Each failed try means that another batch was counted first.
const MAX_TRIES: u32 = 500;
/// Dropping a count costs less than a function that keeps waiting for a throttled table.
const MAX_THROTTLED: u32 = 6;

/// A batch of outcomes to be counted.
struct Batch {
    key: Key,
    outcomes: Vec<Outcome>,
    now: Now,
    mark: String,
}

/// A URL record as it was last read.
struct Seen {
    url: UrlRecord,
    version: u64,
    /// It was read after this count began.
    fresh: bool,
}

/// The record before and after a count, and its version since.
struct Counted {
    before: UrlRecord,
    after: UrlRecord,
    version: u64,
}

impl Batch {
    fn apply(&self, before: &UrlRecord) -> (UrlRecord, Vec<HistoryEntry>) {
        let mut after = before.clone();
        let history = after.count(&self.outcomes, self.now);
        (after, history)
    }
}

impl DynamoStore {
    pub(super) async fn count(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, Fault> {
        let batch = Batch { key: UrlRecord::key(tenant, url), outcomes, now, mark: self.random.mark() };
        let hint = self.hints.get(&batch.key);
        let mut seen = hint.map(|(url, version)| Seen { url, version, fresh: false });
        let mut throttled = 0;
        for tries in 0..MAX_TRIES {
            let found = match self.try_to_count(&batch, seen.as_ref()).await {
                Ok(counted) => return Ok(Some(self.remember_counted(counted))),
                Err(Refusal::Condition(None)) => return Ok(None),
                Err(Refusal::Condition(Some(item))) => Some(item),
                Err(Refusal::Busy) => None,
                Err(Refusal::Throttled) => {
                    throttled += 1;
                    if throttled == MAX_THROTTLED {
                        return Err(Fault::Throttled(batch.key));
                    }
                    None
                }
                Err(Refusal::Fault(fault)) => return Err(fault),
            };
            if let Some(item) = found {
                if let Some(counted) = made_already(&batch, seen.as_ref(), &item) {
                    return Ok(Some(self.remember_counted(counted)));
                }
                let Some((url, version)) = read_url(item)? else { return Ok(None) };
                seen = Some(Seen { url, version, fresh: true });
            }
            // The first try may have failed because the hint was old. After that, other writers are the reason.
            if tries > 0 {
                self.random.pause((tries - 1).min(2)).await;
            }
        }
        Err(Fault::Contended(batch.key))
    }

    async fn try_to_count(&self, batch: &Batch, seen: Option<&Seen>) -> Result<Counted, Refusal> {
        if let Some(Seen { url, version, fresh: true }) = seen
            && batch.apply(url).0 == *url
        {
            return Ok(Counted { before: url.clone(), after: url.clone(), version: *version });
        }
        if let Some(plan) = FastCount::plan(&batch.outcomes, seen.map(|seen| &seen.url.health)) {
            return self.count_fast(batch, &plan).await;
        }
        match seen {
            Some(seen) => self.count_over(batch, seen).await,
            // As if a condition had failed, which returns the item too.
            None => {
                Err(self.get_item(&batch.key, None).await.map_or_else(Refusal::Fault, Refusal::Condition))
            }
        }
    }

    /// One update that leaves the version, so that it does not conflict with other writers of the record.
    async fn count_fast(&self, batch: &Batch, plan: &FastCount) -> Result<Counted, Refusal> {
        let request = plan.request(batch.key.clone(), &batch.mark);
        let before = request.send(&self.client, &self.table).await?.unwrap_or_default();
        let before = read_url(before).map_err(Refusal::Fault)?;
        let not_a_url = || Refusal::Fault(Fault::corrupt(batch.key.clone(), "it is not a URL"));
        let (before, version) = before.ok_or_else(not_a_url)?;
        let (after, _) = batch.apply(&before);
        Ok(Counted { before, after, version })
    }

    /// Applies the rule to the record as it was read. It may cross a threshold: the history is written with it.
    async fn count_over(&self, batch: &Batch, seen: &Seen) -> Result<Counted, Refusal> {
        let (after, history) = batch.apply(&seen.url);
        let version = seen.version.saturating_add(1);
        let mut terms = Terms::default();
        let condition = as_seen(&seen.url.health, seen.version, &mut terms);
        let put = |record: Record, version| Action::Put(item_of(&record, version, &batch.mark));
        let action = put(Record::Url(after.clone()), version);
        let mut requests = vec![Request { action, condition: Some(condition), terms }];
        for entry in history {
            let action = put(Record::History(entry), self.random.version());
            requests.push(Request { action, condition: None, terms: Terms::default() });
        }
        let sent = send_all(requests, &self.client, &self.table).await;
        // Only the URL has a condition, and it comes first.
        sent.map_err(|mut refusals| refusals.swap_remove(0).1)?;
        Ok(Counted { before: seen.url.clone(), after, version })
    }

    fn remember_counted(&self, counted: Counted) -> (UrlRecord, UrlRecord) {
        self.hints.remember(&counted.after, counted.version);
        (counted.before, counted.after)
    }
}

/// Also compares the counters: counting leaves the version as it is.
fn as_seen(health: &Health, version: u64, terms: &mut Terms) -> String {
    let mut conditions = vec![is_readable(terms), terms.compare(VERSION, "=", "of_version", number(version))];
    let counters = [
        (STREAK, health.streak),
        (WINDOW_ATTEMPTS, health.window_attempts),
        (WINDOW_FAILURES, health.window_failures),
    ];
    conditions.extend(counters.map(|(name, value)| terms.compare(name, "=", name, number(value))));
    conditions.push(match health.last_success_at {
        Some(at) => terms.compare(LAST_SUCCESS_AT, "=", LAST_SUCCESS_AT, number(at.as_millis())),
        None => terms.absent(LAST_SUCCESS_AT),
    });
    conditions.join(" AND ")
}

/// Whether this batch wrote the item: the response was lost and the SDK sent the write again.
fn made_already(batch: &Batch, seen: Option<&Seen>, item: &Item) -> Option<Counted> {
    let version = version_of(item)?;
    let is_marked = |name| text_of(item, name) == Some(&batch.mark);
    if is_marked(COUNTER) {
        // Such a count does not change the state, which is all that callers need of the record before.
        let (url, version) = read_url(item.clone()).ok()??;
        return Some(Counted { before: url.clone(), after: url, version });
    }
    let seen = seen.filter(|seen| version == seen.version.saturating_add(1))?;
    is_marked(WRITER).then(|| {
        let (after, _) = batch.apply(&seen.url);
        Counted { before: seen.url.clone(), after, version }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::time::Timestamp;

    #[test]
    fn a_count_by_the_rule_leaves_newer_records_alone() {
        let mut terms = Terms::default();
        let condition = as_seen(&Health::new(Timestamp::ZERO), 1, &mut terms);
        assert!(condition.starts_with("#record.#v <= :readable AND "), "{condition}");
    }
}
