//! A record's place in a list, as the file has it. Every record of a delivery stands in several lists, and their names and sort keys are longer
//! than many events: the file has a number for each.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use sha2::{Digest, Sha256};

/// How many digits a time has at the start of a sort key.
const TIME_DIGITS: usize = 15;

/// 64 bits of a hash, as the file has them. Two texts may have the same number, so what is found by it must be compared.
pub(crate) fn short_hash<const N: usize>(parts: [&str; N]) -> i64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
}

/// The number of a list.
pub(crate) fn list_id(partition: &str) -> i64 {
    short_hash([partition])
}

/// Where a record stands in a list, in the order of SQLite: numbers, text, blobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Before all others.
    First,
    Text(String),
    /// In the lists of deliveries and events, whose sort keys are a time and an id: the time, and a hash of the id. So the records of one
    /// delivery are neighbours, as they are by their sort keys, and those of the same millisecond have some order. Only the time in a
    /// sort key that is a bound.
    Moment(Vec<u8>),
}

impl Place {
    /// After all others.
    pub(crate) fn end() -> Place {
        Place::Moment(vec![u8::MAX; TIME_BYTES])
    }

    /// The place of a sort key in the list of this partition.
    pub(crate) fn of(partition: &str, sort: &str) -> Place {
        is_by_time(partition).then(|| moment(sort)).flatten().unwrap_or_else(|| Place::Text(sort.to_owned()))
    }

    /// The first place after this one.
    pub(crate) fn next(&self) -> Place {
        match self {
            Place::First => Place::Text(String::new()),
            Place::Text(text) => Place::Text(format!("{text}\0")),
            Place::Moment(bytes) => Place::Moment([bytes.as_slice(), &[0]].concat()),
        }
    }

    /// A sort key that has this place.
    pub(crate) fn sort(&self) -> String {
        match self {
            Place::First => String::new(),
            Place::Text(text) => text.clone(),
            Place::Moment(bytes) => {
                let (time, hash) = bytes.split_at(bytes.len().min(TIME_BYTES));
                let time = time.iter().fold(0_u64, |time, byte| time << 8 | u64::from(*byte));
                let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                let before_hash = if hash.is_empty() { "" } else { HASHED };
                format!("{time:0TIME_DIGITS$}{before_hash}{hash}")
            }
        }
    }
}

/// What stands between a time and a hash in a sort key that was made from a place.
const HASHED: &str = "#~";
/// Of a time, and of a hash.
const TIME_BYTES: usize = 7;
const HASH_DIGITS: usize = 16;

/// `None`: the sort key does not begin with a time.
fn moment(sort: &str) -> Option<Place> {
    let (time, id) = sort.split_at_checked(TIME_DIGITS)?;
    let time: u64 = time.parse().ok()?;
    let mut bytes = time.to_be_bytes()[8 - TIME_BYTES..].to_vec();
    let hashed = id.strip_prefix(HASHED).filter(|hash| hash.len() == HASH_DIGITS);
    if let Some(hash) = hashed.and_then(|hash| u64::from_str_radix(hash, 16).ok()) {
        bytes.extend(hash.to_be_bytes());
    } else if !id.is_empty() {
        bytes.extend(short_hash([id]).to_be_bytes());
    }
    Some(Place::Moment(bytes))
}

/// Whether a list has deliveries or events. All others are short, or their order matters.
fn is_by_time(partition: &str) -> bool {
    let is_of_deliveries = partition.starts_with("state#") && !partition.contains("#url-");
    is_of_deliveries || ["list#", "live#", "events#"].iter().any(|kind| partition.starts_with(kind))
}

impl ToSql for Place {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Place::First => i64::MIN.to_sql(),
            Place::Text(text) => text.to_sql(),
            Place::Moment(bytes) => bytes.to_sql(),
        }
    }
}

impl FromSql for Place {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Place> {
        match value {
            ValueRef::Blob(bytes) => Ok(Place::Moment(bytes.to_vec())),
            other => String::column_result(other).map(Place::Text),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::ids::UrlId;
    use holdfast_core::records::{DeliveryRecord, StateEntry, StateIndex};
    use holdfast_core::time::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_700_000_000_123);

    #[test]
    fn deliveries_and_events_stand_by_their_time_and_others_by_their_sort_key() {
        let tenant = "acme".into();
        let sort = format!("{}#dlv_x", AT.sort_key());
        let by_time = [
            DeliveryRecord::tenant_list(&tenant),
            DeliveryRecord::url_list(&tenant, &UrlId::of("https://x.test")),
            DeliveryRecord::live_subscription_list(&tenant, &"sub_x".into()),
            StateEntry::events_of(&tenant),
            StateIndex::Waiting.partition(&tenant),
            StateIndex::Parked.partition(&tenant),
            StateIndex::Dead.partition(&tenant),
        ];
        for partition in by_time {
            assert!(matches!(Place::of(&partition, &sort), Place::Moment(_)), "{partition}");
        }
        let by_text = [
            StateIndex::UrlFailing.partition(&tenant),
            StateIndex::UrlFrozen.partition(&tenant),
            StateEntry::replays_of(&tenant),
            StateEntry::subscriptions_of(&tenant, &UrlId::of("https://x.test")),
        ];
        for partition in by_text {
            assert_eq!(Place::of(&partition, &sort), Place::Text(sort.clone()), "{partition}");
        }
    }

    #[test]
    fn places_are_in_the_order_of_time_and_those_of_one_delivery_are_the_same() {
        let list = DeliveryRecord::tenant_list(&"acme".into());
        let place =
            |at: i64, id: &str| Place::of(&list, &format!("{}{id}", Timestamp::from_millis(at).sort_key()));
        let now = AT.as_millis();
        assert_eq!(place(now, "#dlv_a"), place(now, "#dlv_a"));
        assert_ne!(place(now, "#dlv_a"), place(now, "#dlv_b"));
        for id in ["#dlv_a", "#dlv_b", "#dlv_c"] {
            // A time alone is a bound, before all of that time.
            let (bound, one, next_bound) = (place(now, ""), place(now, id), place(now + 1, ""));
            assert!(Place::First < bound && bound < one && one < one.next() && one.next() < next_bound);
            assert!(next_bound < Place::end() && Place::Text("x".to_owned()) < bound);
        }
    }

    #[test]
    fn a_place_reads_back_from_its_sort_key() {
        let list = DeliveryRecord::tenant_list(&"acme".into());
        for sort in [AT.sort_key(), format!("{}#dlv_a", AT.sort_key()), "no time".to_owned()] {
            let place = Place::of(&list, &sort);
            assert_eq!(Place::of(&list, &place.sort()), place, "{sort}");
        }
    }
}
