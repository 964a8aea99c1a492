//! Tenants take turns in the sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_core::ids::UrlId;
use holdfast_core::ports::Store;
use holdfast_core::records::{Record, SWEEP_SHARDS, UrlRecord};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

/// The sweep looks at URL number `n` of this tenant at `look_at_ms`.
fn url(tenant: &str, n: usize, look_at_ms: i64) -> Record {
    let url = format!("https://example.com/{n}");
    let mut record = UrlRecord::new(tenant.into(), UrlId::of(&url), url, Timestamp::ZERO);
    record.look_at = Some(Timestamp::from_millis(look_at_ms));
    Record::Url(record)
}

/// How many of each tenant are overdue at time 100, of at most `limit` for each shard. In the order of the times within a shard.
async fn overdue(embedded: &Embedded, limit: usize) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for shard in 0..SWEEP_SHARDS {
        let records = embedded.store.overdue(shard, Timestamp::from_millis(100), limit).await.unwrap();
        assert!(records.len() <= limit);
        assert!(records.is_sorted_by_key(|found| found.record.index_entries().look_at));
        for found_one in records {
            let Record::Url(url) = found_one.record else { panic!("not a URL") };
            *found.entry(url.tenant.as_str().to_owned()).or_default() += 1;
        }
    }
    found
}

fn open(dir: &tempfile::TempDir) -> Embedded {
    Embedded::open(dir.path(), Arc::new(VirtualClock::new(Timestamp::ZERO)), Options::default()).unwrap()
}

#[test]
fn a_tenant_with_many_overdue_records_does_not_delay_another() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir);
        // Some 47 for each shard, all of them more overdue than those of the others.
        embedded.store.put_each((0..3_000).map(|n| url("many", n, 1)).collect()).await.unwrap();
        embedded.store.put_each((0..20).map(|n| url("few", n, 50)).collect()).await.unwrap();
        embedded.store.put_each((0..20).map(|n| url("z", n, 60)).collect()).await.unwrap();
        embedded.store.put_each((0..20).map(|n| url("later", n, 101)).collect()).await.unwrap();
        let found = overdue(&embedded, 20).await;
        assert_eq!((found["few"], found["z"]), (20, 20));
        assert_eq!(found.values().sum::<usize>(), 20 * usize::from(SWEEP_SHARDS), "the rest is used");
        assert_eq!(overdue(&embedded, 1_000).await["many"], 3_000, "each is found once");
        assert!(!overdue(&embedded, 1_000).await.contains_key("later"));
    });
}

#[test]
fn the_most_overdue_tenants_come_first_if_there_are_too_many() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir);
        // More tenants than are asked for in one read, in an order that is not that of their names.
        let tenants: Vec<String> = (0..150).map(|n| format!("t{n:03}")).collect();
        for (n, tenant) in tenants.iter().enumerate() {
            let look_at_ms = n as i64 * 77 % 150;
            embedded.store.put_each((0..300).map(|n| url(tenant, n, look_at_ms)).collect()).await.unwrap();
        }
        let found = overdue(&embedded, 10).await;
        assert_eq!(found.values().sum::<usize>(), 10 * usize::from(SWEEP_SHARDS));
        for (tenant, count) in found {
            let n: i64 = tenant[1..].parse().unwrap();
            assert!(n * 77 % 150 < 12, "{tenant} is not among the most overdue");
            assert!(count <= usize::from(SWEEP_SHARDS), "one in each shard");
        }
    });
}
