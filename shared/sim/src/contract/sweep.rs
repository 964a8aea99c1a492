use std::time::Duration;

use holdfast_core::ports::{Expect, Versioned, Write};
use holdfast_core::records::{Record, SWEEP_SHARDS};
use holdfast_core::time::Timestamp;

use super::Harness;
use super::samples::{at, delivery};

fn to_look_at(event: i64, look_at: Timestamp) -> Record {
    let mut record = delivery(event, 1);
    record.progress.look_at = Some(look_at);
    Record::Delivery(record)
}

async fn overdue(h: &dyn Harness, until: Timestamp) -> Vec<(u8, Versioned)> {
    let mut all = Vec::new();
    for shard in 0..SWEEP_SHARDS {
        let found = h.store().overdue(shard, until, 1000).await.unwrap();
        all.extend(found.into_iter().map(|found| (shard, found)));
    }
    all
}

pub async fn the_most_overdue_come_first(h: &dyn Harness) {
    // The order of writing must not matter, so it is shuffled.
    let records = (0..200).map(|n| to_look_at(n, at(n * 77 % 200))).collect();
    h.store().put_each(records).await.unwrap();
    let mut total = 0;
    for shard in 0..SWEEP_SHARDS {
        let all = h.store().overdue(shard, at(99), 1000).await.unwrap();
        let times: Vec<_> = all.iter().map(|found| found.record.index_entries().look_at.unwrap()).collect();
        assert!(times.is_sorted());
        assert!(times.iter().all(|look_at| *look_at <= at(99)));
        let some = h.store().overdue(shard, at(99), 3).await.unwrap();
        assert_eq!(some, all[..all.len().min(3)]);
        total += all.len();
    }
    assert_eq!(total, 100);
}

pub async fn what_was_looked_at_is_not_overdue_again(h: &dyn Harness) {
    h.store().put_each(vec![to_look_at(1, at(10))]).await.unwrap();
    assert!(overdue(h, at(9)).await.is_empty());
    let (_, found) = overdue(h, at(10)).await.remove(0);
    let later = to_look_at(1, at(10) + Duration::from_secs(60));
    h.store().write(vec![Write::put(later, Expect::Version(found.version))]).await.unwrap();
    assert!(overdue(h, at(69)).await.is_empty());
    assert_eq!(overdue(h, at(70)).await.len(), 1);
}

pub async fn what_is_finished_is_never_overdue(h: &dyn Harness) {
    h.store().put_each(vec![to_look_at(1, at(10)), to_look_at(2, at(10))]).await.unwrap();
    let mut done = delivery(1, 1);
    done.progress.succeed(at(20), Duration::from_secs(60));
    let done = Record::Delivery(done);
    let delete = Write::Delete { key: to_look_at(2, at(10)).key(), expect: Expect::Any };
    h.store().write(vec![Write::put(done, Expect::Any), delete]).await.unwrap();
    assert!(overdue(h, at(1_000_000)).await.is_empty());
}

pub async fn every_record_is_in_one_shard(h: &dyn Harness) {
    let records: Vec<Record> = (0..100).map(|n| to_look_at(n, at(n))).collect();
    h.store().put_each(records.clone()).await.unwrap();
    let found = overdue(h, at(100)).await;
    assert_eq!(found.len(), records.len());
    for (shard, found) in &found {
        assert_eq!(found.record.key().sweep_shard(), *shard);
    }
}
