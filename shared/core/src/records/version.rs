//! Versions of what is stored and queued.
//!
//! Every record and message carries the version of its format as `v`. A reader understands its own version and the older ones. It
//! refuses a newer one and leaves it exactly as it is, because it would drop the fields that it does not know.
//!
//! The rule for changes: a release must be able to *read* version n + 1 before any release *writes* it. A rollback by one release
//! then strands nothing.

use std::cmp::Ordering;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version that this release writes.
pub const VERSION: u32 = Format::CURRENT.version();

/// Why a stored record or a queued message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A newer release wrote it and can read it.
    #[error("it has version {0}, and this release reads up to version {VERSION}")]
    Newer(u32),
    #[error("it cannot be decoded: {0}")]
    Corrupt(String),
}

/// Turns the fields of one version into those of the next.
type Upgrade = fn(&mut Map<String, Value>);

/// The versions that a release reads: the oldest, and how to get from each one to the next.
pub(crate) struct Format {
    oldest: u32,
    upgrades: &'static [Upgrade],
}

#[derive(Deserialize)]
struct Head {
    v: u32,
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    v: u32,
    #[serde(flatten)]
    document: &'a T,
}

impl Format {
    pub(crate) const CURRENT: Format = Format { oldest: 1, upgrades: &[] };

    const fn version(&self) -> u32 {
        self.oldest + self.upgrades.len() as u32
    }

    pub(crate) fn encode<T: Serialize>(&self, document: &T) -> Vec<u8> {
        serde_json::to_vec(&Envelope { v: self.version(), document }).expect("records are plain data")
    }

    pub(crate) fn to_fields<T: Serialize>(&self, document: &T) -> Map<String, Value> {
        match serde_json::to_value(Envelope { v: self.version(), document }) {
            Ok(Value::Object(fields)) => fields,
            other => unreachable!("a record is an object: {other:?}"),
        }
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Unreadable> {
        let Head { v } = serde_json::from_slice(bytes).map_err(|error| corrupt(&error))?;
        match v.cmp(&self.version()) {
            Ordering::Greater => Err(Unreadable::Newer(v)),
            Ordering::Equal => serde_json::from_slice(bytes).map_err(|error| corrupt(&error)),
            Ordering::Less => {
                let fields = serde_json::from_slice(bytes).map_err(|error| corrupt(&error))?;
                self.upgrade(v, fields)
            }
        }
    }

    pub(crate) fn decode_fields<T: DeserializeOwned>(
        &self,
        fields: Map<String, Value>,
    ) -> Result<T, Unreadable> {
        let v = fields.get("v").and_then(Value::as_u64).and_then(|v| u32::try_from(v).ok());
        match v {
            None => Err(Unreadable::Corrupt("it has no version".to_owned())),
            Some(v) if v > self.version() => Err(Unreadable::Newer(v)),
            Some(v) => self.upgrade(v, fields),
        }
    }

    fn upgrade<T: DeserializeOwned>(&self, v: u32, mut fields: Map<String, Value>) -> Result<T, Unreadable> {
        debug_assert!(v <= self.version(), "a newer version was refused before");
        let Some(steps) = v.checked_sub(self.oldest) else {
            return Err(Unreadable::Corrupt(format!("version {v} is older than any that was released")));
        };
        for upgrade in &self.upgrades[steps as usize..] {
            upgrade(&mut fields);
        }
        serde_json::from_value(Value::Object(fields)).map_err(|error| corrupt(&error))
    }
}

/// Not the error's own words, which quote the input: it may hold a payload or a secret.
fn corrupt(error: &serde_json::Error) -> Unreadable {
    let (line, column) = (error.line(), error.column());
    Unreadable::Corrupt(format!("{:?} error at line {line} column {column}", error.classify()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pair of versions that only this test uses: version 2 renamed `name` to `title` and added `pages`.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OldBook {
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Book {
        title: String,
        pages: u32,
    }

    const OLD: Format = Format { oldest: 1, upgrades: &[] };
    const NEW: Format = Format {
        oldest: 1,
        upgrades: &[|fields| {
            if let Some(name) = fields.remove("name") {
                fields.insert("title".to_owned(), name);
            }
            fields.insert("pages".to_owned(), json!(0));
        }],
    };

    #[test]
    fn a_newer_release_understands_what_an_older_one_wrote() {
        let old = OldBook { name: "Emma".to_owned() };
        let read = Book { title: "Emma".to_owned(), pages: 0 };
        assert_eq!(NEW.decode::<Book>(&OLD.encode(&old)).as_ref(), Ok(&read));
        assert_eq!(NEW.decode_fields::<Book>(OLD.to_fields(&old)), Ok(read));
    }

    #[test]
    fn an_older_release_refuses_what_a_newer_one_wrote() {
        let new = Book { title: "Emma".to_owned(), pages: 474 };
        assert_eq!(OLD.decode::<OldBook>(&NEW.encode(&new)), Err(Unreadable::Newer(2)));
        assert_eq!(OLD.decode_fields::<OldBook>(NEW.to_fields(&new)), Err(Unreadable::Newer(2)));
        assert_eq!(NEW.decode::<Book>(&NEW.encode(&new)).as_ref(), Ok(&new));
        assert_eq!(NEW.decode_fields::<Book>(NEW.to_fields(&new)), Ok(new));
    }

    #[test]
    fn what_has_no_version_or_an_impossible_one_is_corrupt() {
        for bytes in [&br#"{"name":"Emma"}"#[..], br#"{"v":0,"name":"Emma"}"#, b"{", br#"{"v":"a secret"}"#] {
            let Err(Unreadable::Corrupt(why)) = OLD.decode::<OldBook>(bytes) else { panic!("decoded") };
            assert!(!why.contains("secret") && !why.contains("Emma"), "{why}");
        }
        assert!(matches!(OLD.decode_fields::<OldBook>(Map::new()), Err(Unreadable::Corrupt(_))));
    }
}
