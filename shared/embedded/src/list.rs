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

/// Where a record stands in a list. Numbers come before text, as they do in SQLite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In the lists of deliveries and events, whose sort keys begin with a time. Those of the same millisecond stand in the order of
    /// their rows.
    Time(i64),
    Text(String),
}

impl Place {
    pub(crate) const FIRST: Place = Place::Time(i64::MIN);

    /// Sorts after every place.
    pub(crate) fn end() -> Place {
        Place::Text("\u{10ffff}".to_owned())
    }

    /// The place of a sort key in the list of this partition.
    pub(crate) fn of(partition: &str, sort: &str) -> Place {
        let time = || sort.get(..TIME_DIGITS)?.parse().ok().map(Place::Time);
        is_by_time(partition).then(time).flatten().unwrap_or_else(|| Place::Text(sort.to_owned()))
    }

    /// The first place after this one.
    pub(crate) fn next(&self) -> Place {
        match self {
            Place::Time(time) => Place::Time(time.saturating_add(1)),
            Place::Text(text) => Place::Text(format!("{text}\0")),
        }
    }

    /// A sort key that has this place.
    pub(crate) fn sort(&self) -> String {
        match self {
            Place::Time(time) => format!("{time:0TIME_DIGITS$}"),
            Place::Text(text) => text.clone(),
        }
    }
}

/// Whether a list has deliveries or events. All others are short, or their order matters.
fn is_by_time(partition: &str) -> bool {
    let is_of_deliveries = partition.starts_with("state#") && !partition.contains("#url-");
    is_of_deliveries || ["list#", "live#", "events#"].iter().any(|kind| partition.starts_with(kind))
}

impl ToSql for Place {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Place::Time(time) => time.to_sql(),
            Place::Text(text) => text.to_sql(),
        }
    }
}

impl FromSql for Place {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Place> {
        match value {
            ValueRef::Integer(time) => Ok(Place::Time(time)),
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

    #[test]
    fn deliveries_and_events_stand_by_their_time_and_others_by_their_sort_key() {
        let (tenant, at) = ("acme".into(), Timestamp::from_millis(1_700_000_000_123));
        let sort = format!("{}#dlv_x", at.sort_key());
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
            assert_eq!(Place::of(&partition, &sort), Place::Time(at.as_millis()), "{partition}");
            assert_eq!(Place::of(&partition, &at.sort_key()), Place::Time(at.as_millis()), "{partition}");
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
    fn a_place_reads_back_and_is_followed_by_the_next() {
        let list = DeliveryRecord::tenant_list(&"acme".into());
        for place in [Place::Time(7), Place::Time(1_700_000_000_123)] {
            assert_eq!(Place::of(&list, &place.sort()), place);
            assert!(Place::FIRST < place && place < place.next() && place.next() < Place::end());
        }
        let text = Place::Text("a".to_owned());
        assert!(text < text.next() && text.next() < Place::Text("aa".to_owned()));
    }
}
