//! What must hold for any bytes that come from a store or a queue. The property tests here and the targets in `infra/fuzz` call the same
//! functions.

/// One record or message a line, as a release wrote it.
const RECORDS: &str = include_str!("../../vectors/records.jsonl");

pub mod message {
    use bytes::Bytes;

    use crate::records::{FirstAttempt, Message, Unreadable, VERSION};

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            br#"{"v":1,"kind":"first_attempt","key":{"tenant":"default","event_key":"06cc","subscription_id":"sub_1"},"event_id":"e","event_type":"a.b","accepted_at":5,"url_id":"url_1","again":false}
{"id":"e","type":"a.b","data":1}"#,
            br#"{"v":1,"kind":"first_attempt","key":{"tenant":"default","event_key":"06cd","subscription_id":"sub_1"},"event_id":"e","event_type":"a.b","accepted_at":5,"url_id":"url_1","again":false,"trace":{"parent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","state":"a=1"}}"#,
            br#"{"v":1,"kind":"delivery","key":{"tenant":"default","event_key":"06cc","subscription_id":"sub_1"},"url_id":"url_1","epoch":0,"n":3,"links":2}"#,
            br#"{"v":1,"kind":"probe","tenant":"default","url_id":"url_1"}"#,
            br#"{"v":1,"kind":"release","tenant":"default","url_id":"url_1","step":7}"#,
            br#"{"v":1,"kind":"announce","tenant":"default","url_id":"url_1"}"#,
            br#"{"v":1,"kind":"job","tenant":"default","id":"job_1","step":1,"links":4294967295}"#,
            br#"{"v":2,"kind":"unheard_of"}"#,
        ]
    }

    /// A message that can be read is written the same way. What cannot is told apart: newer, or corrupt, without a word of it.
    pub fn check(input: &[u8]) {
        let message = match Message::decode(input) {
            Ok(message) => message,
            Err(Unreadable::Newer(version)) => {
                assert!(version > VERSION);
                return;
            }
            Err(Unreadable::Corrupt(why)) => {
                assert!(why.is_ascii() && why.len() < 200, "{why}");
                return;
            }
        };
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
        if let Message::FirstAttempt(first) = &message {
            let after_line = input.iter().position(|b| *b == b'\n').map(|end| &input[end + 1..]);
            assert_eq!(first.body.as_deref(), after_line);
            // A body is a payload, and must not reach a log.
            let other = FirstAttempt { body: Some(Bytes::from_static(b"another body")), ..first.clone() };
            assert_eq!(format!("{other:?}"), format!("{first:?}"));
        } else if let Some(linked) = chained(message) {
            assert_eq!(Message::decode(&linked.encode()), Ok(linked));
        }
    }

    /// The ticket that follows it, if it can have one.
    fn chained(message: Message) -> Option<Message> {
        let links = match &message {
            Message::Delivery(ticket) => ticket.links,
            Message::Release { links, .. } | Message::Job { links, .. } => *links,
            Message::FirstAttempt(_) | Message::Probe { .. } | Message::Announce { .. } => return None,
        };
        message.linked_after(links)
    }
}

pub mod record {
    use serde_json::{Map, Value};

    use crate::records::{Key, ListIndex, Record, SWEEP_SHARDS, Unreadable, VERSION};

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        super::RECORDS.lines().map(str::as_bytes).collect()
    }

    /// A record that can be read is written the same way, as a document and as fields, and has a place. A newer one is left alone.
    pub fn check(input: &[u8]) {
        let key = || Key::new("partition".to_owned(), "sort");
        let record = match Record::decode(key, input) {
            Ok(Record::Newer { key: kept, version }) => {
                assert!(version > VERSION && kept == key());
                return;
            }
            Ok(record) => record,
            Err(Unreadable::Newer(version)) => panic!("version {version} is a record that is left alone"),
            Err(Unreadable::Corrupt(why)) => {
                assert!(why.is_ascii() && why.len() < 200, "{why}");
                return;
            }
        };
        assert_eq!(Record::decode(key, &record.encode()).as_ref(), Ok(&record));
        assert_eq!(Record::from_fields(key, record.to_fields()).as_ref(), Ok(&record));
        if let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(input) {
            assert_eq!(Record::from_fields(key, fields).as_ref(), Ok(&record));
        }
        assert!(record.key().sweep_shard() < SWEEP_SHARDS);
        let entries = record.index_entries();
        for index in [ListIndex::ByTenant, ListIndex::ByUrl, ListIndex::BySubscription, ListIndex::ByState] {
            let listed = entries.clone().in_list(index);
            assert!(listed.is_none_or(|(partition, _)| partition.contains('#')), "{index:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value};

    use super::*;
    use crate::records::{Key, Record};

    holdfast_sim::test_hostile_input! {
        1_000,
        messages => message,
        records => record,
    }

    /// Stored records stay readable: a field may be added, but what was written is still there.
    #[test]
    fn records_of_every_kind_are_read_as_they_were_written() {
        let mut kinds = BTreeSet::new();
        for line in record::seeds() {
            let record = Record::decode(|| Key::new(String::new(), ""), line).expect("a record");
            let written: Map<String, Value> = serde_json::from_slice(line).unwrap();
            let read = record.to_fields();
            for (name, value) in &written {
                assert_eq!(read.get(name), Some(value), "{name}");
            }
            kinds.insert(written["kind"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds.len(), 23, "{kinds:?}");
    }
}
