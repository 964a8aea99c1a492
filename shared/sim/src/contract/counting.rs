use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use holdfast_core::ids::UrlId;
use holdfast_core::ports::{Expect, Order, Query, Versioned, Write, WriteError};
use holdfast_core::records::{HistoryEntry, Record, UrlRecord};
use holdfast_core::rules::health::{OperatorAction, Outcome, UrlState};
use holdfast_core::rules::last_failure::AttemptError;
use holdfast_core::time::Now;

use super::Harness;
use super::concurrency::{EACH, THREADS, crowd};
use super::samples::{at, outcome, tenant, tenant_version, url, url_id};
use crate::SeededEntropy;

async fn kept(h: &dyn Harness, id: &UrlId) -> (UrlRecord, u64) {
    match h.store().get(&[UrlRecord::key(&tenant(), id)]).await.unwrap().remove(0).unwrap() {
        Versioned { record: Record::Url(url), version } => (url, version),
        other => panic!("not a URL: {other:?}"),
    }
}

fn now() -> Now {
    Now { schedule: at(500), real: at(500) }
}

async fn count(h: &dyn Harness, outcomes: Vec<Outcome>) -> (UrlRecord, UrlRecord) {
    h.store().count_outcomes(&tenant(), &url_id(1), outcomes, now()).await.unwrap().unwrap()
}

/// Reads and writes until no other writer is faster.
async fn look_once_more(h: &dyn Harness) {
    loop {
        let (mut url, version) = kept(h, &url_id(1)).await;
        url.looks += 1;
        match h.store().write(vec![Write::put(Record::Url(url), Expect::Version(version))]).await {
            Ok(()) => return,
            Err(WriteError::Conflict(_)) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

pub async fn counting_and_writing_do_not_undo_each_other(h: &dyn Harness) {
    const WRITES: usize = 3;
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    let writes = |n: usize| n.is_multiple_of(10);
    crowd(h, |n| async move {
        if writes(n) {
            for _ in 0..WRITES {
                look_once_more(h).await;
            }
        } else {
            count(h, vec![outcome(false, 0), outcome(true, 0)]).await;
        }
    });
    let (url, _) = kept(h, &url_id(1)).await;
    let writers = (0..THREADS * EACH).filter(|n| writes(*n)).count();
    let counted = (THREADS * EACH - writers) as u64;
    assert_eq!(url.looks as usize, writers * WRITES);
    assert_eq!((url.health.window_attempts, url.health.window_failures), (2 * counted, counted));
}

/// Each caller is told of its own outcomes: it acts on the change of state that they made, and on no other.
pub async fn counts_made_at_once_follow_one_another(h: &dyn Harness) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    let seen = Mutex::new(Vec::new());
    crowd(h, |_| async {
        let (before, after) = count(h, vec![outcome(true, 0)]).await;
        seen.lock().unwrap().push((before.health.window_attempts, after.health.window_attempts));
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    let expected: Vec<(u64, u64)> = (0..(THREADS * EACH) as u64).map(|n| (n, n + 1)).collect();
    assert_eq!(seen, expected);
    assert_eq!(kept(h, &url_id(1)).await.0.health.window_attempts, expected.len() as u64);
}

/// Writes the URL as it was read before outcomes were counted, alone or together with another record.
async fn write_after_counting(h: &dyn Harness, with: Option<Record>) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    count(h, vec![outcome(true, 0)]).await;
    let (mut read, version) = kept(h, &url_id(1)).await;
    count(h, vec![outcome(false, 0); 3]).await;
    read.looks = 7;
    read.look_at = Some(at(9));
    let write = Write::put(Record::Url(read), Expect::Version(version));
    let with = with.map(|record| Write::put(record, Expect::Any));
    let written = h.store().write(with.into_iter().chain([write]).collect()).await.is_ok();
    let (url, _) = kept(h, &url_id(1)).await;
    assert_eq!(url.looks, if written { 7 } else { 0 });
    assert_eq!((url.health.window_attempts, url.health.window_failures, url.health.streak), (4, 3, 3));
    assert_eq!(url.health.last_success_at, Some(outcome(true, 0).ended_at));
    let overdue = h.store().overdue(Record::Url(url.clone()).key().sweep_shard(), at(9), 10).await.unwrap();
    assert_eq!(overdue.len(), usize::from(written));
}

pub async fn a_write_keeps_what_was_counted_since_the_read(h: &dyn Harness) {
    write_after_counting(h, None).await;
    write_after_counting(h, Some(Record::TenantVersion(tenant_version("t", 1)))).await;
}

pub async fn a_change_by_hand_sets_the_counters(h: &dyn Harness) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    count(h, vec![outcome(false, 0); 60]).await;
    for (action, attempts) in
        [(OperatorAction::Enable, 0), (OperatorAction::Freeze, 2), (OperatorAction::Enable, 0)]
    {
        count(h, vec![outcome(false, kept(h, &url_id(1)).await.0.health.generation); 2]).await;
        let (before, version) = kept(h, &url_id(1)).await;
        let mut acted_on = before.clone();
        let history = acted_on.apply_action(action, "why", "me", now()).unwrap();
        let writes = std::iter::once(Write::put(Record::Url(acted_on.clone()), Expect::Version(version)))
            .chain(history.map(|entry| Write::put(Record::History(entry), Expect::Absent)));
        h.store().write(writes.collect()).await.unwrap();
        let (after, new_version) = kept(h, &url_id(1)).await;
        assert_eq!((after, new_version), (acted_on.clone(), version + 1));
        assert_eq!(acted_on.health.window_attempts, attempts);
        // A late outcome of the generation before.
        let (before, after) = count(h, vec![outcome(false, before.health.generation)]).await;
        assert_eq!((before, after), (acted_on.clone(), acted_on));
    }
}

pub async fn a_state_changes_in_the_middle_of_a_batch(h: &dyn Harness) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    let (before, after) = count(h, vec![outcome(false, 0); 150]).await;
    assert_eq!((before.health.state, after.health.state), (UrlState::Enabled, UrlState::Disabled));
    assert_eq!(after.health.window_attempts, 101);
    let (_, after) = count(h, vec![outcome(true, 1)]).await;
    assert_eq!((after.health.state, after.health.generation), (UrlState::Enabled, 2));
    assert!(after.releasing.is_some());
    assert_eq!(kept(h, &url_id(1)).await.0, after);
}

/// Chance with a seed, so that a failure can be repeated.
struct Dice(SeededEntropy);

impl Dice {
    /// Less than `bound`.
    fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn of(&self, choices: &[u64]) -> u64 {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Near a threshold, more often than not.
    fn shake(&self, url: &mut UrlRecord) {
        let health = &mut url.health;
        health.window_attempts = self.of(&[0, 90, 100, 300, 9_980, self.below(9_999)]) + self.below(12);
        let percent = self.of(&[0, 50, 69, 70, 71]);
        health.window_failures = health.window_attempts * percent / 100;
        health.window_first_attempts = health.window_attempts / 3;
        health.window_first_failures = health.window_failures / 3;
        health.streak = (self.of(&[0, 0, 10, 1_990, 2_000, 49_990]) + self.below(12)).min(50_000);
        health.last_success_at = (!self.one_in(3)).then(|| at(self.of(&[0, 300, 999]) as i64));
        if self.one_in(5) {
            health.last_success_at = Some(at(0) - Duration::from_secs(80 * 3600));
        }
        health.failing = self.one_in(2);
        health.failing_since = self.one_in(2).then(|| at(self.below(100) as i64));
        health.recovered_at = self.one_in(3).then(|| at(self.below(100) as i64));
        if self.one_in(5) {
            health.state = UrlState::Disabled;
            health.next_probe_at = Some(at(100));
            url.look_at = Some(at(100));
        } else if self.one_in(8) {
            health.state = UrlState::Frozen;
        }
    }

    fn batch(&self, generation: u64) -> Vec<Outcome> {
        let failing = self.of(&[0, 50, 70, 95, 100]);
        let size = if self.one_in(20) { 120 } else { 1 + self.below(12) };
        let one = |_| {
            let started_at = at(self.below(1_000) as i64);
            let generation = if self.one_in(12) { generation ^ 1 } else { generation };
            let success = self.below(100) >= failing;
            let error = AttemptError { status: None, ..AttemptError::of_status(500) };
            let error = if self.one_in(2) { AttemptError::of_status(503) } else { error };
            Outcome {
                success,
                error: (!success).then_some(error),
                is_first: self.one_in(2),
                retry: if self.one_in(6) { 3 } else { 0 },
                is_own_event: self.one_in(4),
                started_at,
                ended_at: started_at + Duration::from_secs(self.below(5)),
                generation,
                recent_ms: u32::try_from(self.below(10_000)).unwrap_or_default(),
            }
        };
        (0..size).map(one).collect()
    }
}

async fn history_of(h: &dyn Harness, id: &UrlId) -> Vec<Record> {
    let partition = UrlRecord::partition(&tenant(), id);
    let (prefix, order) = ("history#".to_owned(), Order::Ascending);
    let page = h.store().query(Query { partition, prefix, after: None, order, limit: 100 }).await.unwrap();
    page.items.into_iter().map(|item| item.record).collect()
}

/// One URL, and the rule beside it.
async fn compare_with_the_rule(h: &dyn Harness, case: u8) {
    let dice = Dice(SeededEntropy::new(u64::from(case)));
    let mut model = url(case);
    let mut history: BTreeMap<u64, HistoryEntry> = BTreeMap::new();
    if dice.one_in(2) {
        dice.shake(&mut model);
    }
    h.store().put_each(vec![Record::Url(model.clone())]).await.unwrap();
    for round in 0..4 {
        if dice.one_in(6) {
            // As if much had happened elsewhere.
            dice.shake(&mut model);
            h.store().put_each(vec![Record::Url(model.clone())]).await.unwrap();
        }
        let outcomes = dice.batch(model.health.generation);
        let before = model.clone();
        let entries = model.count(&outcomes, now());
        history.extend(entries.into_iter().map(|entry| (entry.generation, entry)));
        let counted = h.store().count_outcomes(&tenant(), &model.id, outcomes, now()).await.unwrap();
        assert_eq!(counted, Some((before, model.clone())), "case {case}, round {round}");
        if dice.one_in(2) {
            assert_eq!(kept(h, &model.id).await.0, model, "case {case}, round {round}");
        }
    }
    assert_eq!(kept(h, &model.id).await.0, model, "case {case}");
    let history: Vec<Record> = history.into_values().map(Record::History).collect();
    assert_eq!(history_of(h, &model.id).await, history, "case {case}");
}

pub async fn random_batches_count_as_the_rule_says(h: &dyn Harness) {
    for case in 0..250 {
        compare_with_the_rule(h, case).await;
    }
}
