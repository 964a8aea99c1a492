//! Partitions that are spread: one partition key takes 1,000 writes and 3,000 reads a second, and some partitions get more than that.
//!
//! Such a partition is stored as several, `partition#shard`. Only this adapter knows: records keep their keys, and a query goes through
//! the shards in order. Which of them has a record is fixed by its sort key.

use holdfast_core::records::Key;

/// Over how many shards the partitions of a kind are spread. `infra/docs/capacity.md` has the figures that they follow from.
fn shards_of(partition: &str) -> Option<u8> {
    let kind = partition.split('#').next().unwrap_or_default();
    Some(match kind {
        // A fan-out writes 10,000 deliveries of one event. A small event is read from all shards too, which is why there are not more.
        "deliveries" => 16,
        // A disabled URL may get as much as an enabled one, and each pointer is written in a transaction, which counts twice.
        "parked" => 32,
        // Read for every batch of attempts.
        "subscriptions" => 8,
        // Each function instance writes one a second.
        "minutes" => 8,
        // The same, with up to 20 attempts in it.
        "attempts" => 16,
        // All events of a tenant may have the same subject.
        "subject" => 16,
        // Read for every post whose key is not cached.
        "keys" => 16,
        _ => return None,
    })
}

/// The part of a sort key that fixes the shard: all records of a delivery are in the same one, so that it is read by one request.
fn fixed_by<'a>(partition: &str, sort: &'a str) -> &'a str {
    match sort.split_once('#') {
        Some((subscription, _)) if partition.starts_with("deliveries#") => subscription,
        _ => sort,
    }
}

fn shard(shards: u8, fixed_by: &str) -> u8 {
    // FNV-1a, folded: any spread will do, but it must never change, because it is stored.
    let hash = fixed_by.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash ^ (hash >> 32)) % u64::from(shards)) as u8
}

fn stored_partition(partition: &str, shard: u8) -> String {
    format!("{partition}#{shard:02}")
}

/// Where a record is stored: the value of `pk`.
pub(super) fn pk_of(key: &Key) -> String {
    match shards_of(&key.partition) {
        Some(shards) => stored_partition(&key.partition, shard(shards, fixed_by(&key.partition, &key.sort))),
        None => key.partition.clone(),
    }
}

/// The partition of a record that is stored under this `pk`.
pub(super) fn partition_of(pk: &str) -> &str {
    match (shards_of(pk), pk.rsplit_once('#')) {
        (Some(_), Some((partition, _))) => partition,
        _ => pk,
    }
}

/// Every `pk` under which records of the partition with this prefix may be stored.
pub(super) fn pks_of(partition: &str, prefix: &str) -> Vec<String> {
    let Some(shards) = shards_of(partition) else { return vec![partition.to_owned()] };
    let fixed_by = fixed_by(partition, prefix);
    if fixed_by.len() < prefix.len() {
        return vec![stored_partition(partition, shard(shards, fixed_by))];
    }
    (0..shards).map(|shard| stored_partition(partition, shard)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key(partition: &str, sort: &str) -> Key {
        Key::new(partition.to_owned(), sort)
    }

    #[test]
    fn a_stored_partition_reads_back() {
        let partitions = ["deliveries#t#e", "parked#t#u", "subscriptions#t", "keys", "url#t#u", "operators"];
        for partition in partitions {
            let pk = pk_of(&key(partition, "a#b"));
            assert_eq!(partition_of(&pk), partition);
            assert!(pks_of(partition, "").contains(&pk), "{pk}");
        }
        assert_eq!(pk_of(&key("url#t#u", "health")), "url#t#u");
    }

    #[test]
    fn all_records_of_a_delivery_are_in_the_shard_that_their_prefix_fixes() {
        let of = |sort: &str| pk_of(&key("deliveries#t#e", sort));
        for subscription in ["sub_1", "sub_2", "sub_3"] {
            let pk = of(&format!("{subscription}#delivery"));
            assert_eq!(of(&format!("{subscription}#attempt#00000#00#x")), pk);
            assert_eq!(pks_of("deliveries#t#e", &format!("{subscription}#")), [pk]);
        }
        assert_eq!(pks_of("deliveries#t#e", "sub_1").len(), 16, "it may be the beginning of many ids");
        assert_eq!(pks_of("parked#t#u", "2026#x").len(), 32);
    }

    #[test]
    fn shards_get_about_the_same() {
        let mut counts = [0; 16];
        for n in 0..16_000 {
            counts[usize::from(shard(16, &format!("sub_{n:026}")))] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        let used: BTreeSet<String> = (0..200).map(|n| pk_of(&key("keys", &format!("key_{n}")))).collect();
        assert_eq!(used.len(), 16);
    }
}
