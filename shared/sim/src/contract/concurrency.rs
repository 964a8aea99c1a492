use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::future::join_all;
use holdfast_core::ports::{Expect, Order, Query, Write, WriteError};
use holdfast_core::records::{Record, UrlRecord};
use holdfast_core::rules::health::UrlState;

use super::Harness;
use super::samples::{outcome, tenant, tenant_version, url, url_id};

pub(super) const THREADS: usize = 4;
pub(super) const EACH: usize = 50;

/// Runs `task` many times at once: on several threads, and many times at once on each.
pub(super) fn crowd<F: Future<Output = ()>>(h: &dyn Harness, task: impl Fn(usize) -> F + Sync) {
    let task = &task;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                h.run(Box::pin(async move {
                    join_all((0..EACH).map(|n| task(thread * EACH + n))).await;
                }));
            });
        }
    });
}

async fn url_kept(h: &dyn Harness) -> UrlRecord {
    match h.store().get(&[UrlRecord::key(&tenant(), &url_id(1))]).await.unwrap().remove(0).unwrap().record {
        Record::Url(url) => url,
        other => panic!("not a URL: {other:?}"),
    }
}

pub async fn concurrent_outcomes_are_all_counted(h: &dyn Harness) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    crowd(h, |_| async {
        let outcomes = vec![outcome(false, 0), outcome(true, 0)];
        h.store().count_outcomes(&tenant(), &url_id(1), outcomes, h.clock().both()).await.unwrap().unwrap();
    });
    let health = url_kept(h).await.health;
    assert_eq!(health.window_attempts as usize, 2 * THREADS * EACH);
    assert_eq!(health.window_failures as usize, THREADS * EACH);
}

pub async fn a_change_of_state_is_recorded_once(h: &dyn Harness) {
    h.store().put_each(vec![Record::Url(url(1))]).await.unwrap();
    let changes = AtomicUsize::new(0);
    crowd(h, |_| async {
        let outcomes = vec![outcome(false, 0)];
        let counted =
            h.store().count_outcomes(&tenant(), &url_id(1), outcomes, h.clock().both()).await.unwrap();
        let (before, after) = counted.unwrap();
        changes.fetch_add(usize::from(before.health.state != after.health.state), Ordering::Relaxed);
    });
    assert_eq!(changes.into_inner(), 1);
    let health = url_kept(h).await.health;
    // The 101st failure disables the URL, and what comes late is of an older generation.
    assert_eq!((health.state, health.generation, health.window_attempts), (UrlState::Disabled, 1, 101));
    let history = Query {
        partition: UrlRecord::partition(&tenant(), &url_id(1)),
        prefix: "history#".to_owned(),
        after: None,
        order: Order::Descending,
        limit: 10,
    };
    assert_eq!(h.store().query(history).await.unwrap().items.len(), 1);
}

/// Many write at once over the version that they all read. Returns how many won, and the sum of their numbers.
async fn claim_at_once(h: &dyn Harness, claim: impl Fn(usize) -> Record + Sync) -> (usize, usize) {
    h.store().put_each(vec![claim(0)]).await.unwrap();
    let read = h.store().get(&[claim(0).key()]).await.unwrap().remove(0).unwrap();
    let won = AtomicUsize::new(0);
    let sum = AtomicUsize::new(0);
    crowd(h, |n| {
        let claim = Write::put(claim(n + 1), Expect::Version(read.version));
        let (won, sum) = (&won, &sum);
        async move {
            match h.store().write(vec![claim]).await {
                Ok(()) => {
                    won.fetch_add(1, Ordering::Relaxed);
                    sum.fetch_add(n + 1, Ordering::Relaxed);
                }
                Err(WriteError::Conflict(_)) => {}
                Err(e) => panic!("{e}"),
            }
        }
    });
    (won.into_inner(), sum.into_inner())
}

pub async fn one_of_many_claims_wins(h: &dyn Harness) {
    let record = |n: usize| Record::TenantVersion(tenant_version("t", n as u64));
    let (won, sum) = claim_at_once(h, record).await;
    assert_eq!(won, 1);
    let kept = h.store().get(&[record(0).key()]).await.unwrap().remove(0).unwrap().record;
    assert_eq!(kept, record(sum));
}

/// Two that claim in the same millisecond write the same record: still only one has it.
pub async fn one_of_many_equal_claims_wins(h: &dyn Harness) {
    let records = [Record::TenantVersion(tenant_version("t", 1)), Record::Url(url(1))];
    for record in records {
        assert_eq!(claim_at_once(h, |_| record.clone()).await.0, 1);
    }
}
