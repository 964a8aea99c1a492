//! What filters mean, written in the plainest way, to compare the index with.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Selector;
use crate::rules::event_type;
use crate::rules::filter::{Connector, Filter, Op};
use crate::time::Timestamp;

/// Whether a subscription selects an event.
pub(in crate::rules) fn selects(one: &Selector, name: &str, body: &[u8]) -> bool {
    one.active
        && one.event_types.iter().any(|pattern| event_type::matches(pattern, name))
        && passes(&one.filters, one.filter_connector, &LazyJson::new(body))
}

/// An event's body, parsed only as far as a path asks: an event may hold numbers, texts or depths that cannot be represented, and its
/// other fields must still be found.
struct LazyJson<'e> {
    event: &'e [u8],
    whole: OnceCell<Option<Part<'e>>>,
}

/// One value of the event, as it was written.
struct Part<'e> {
    raw: &'e RawValue,
    inside: OnceCell<Inside<'e>>,
    value: OnceCell<Value>,
}

enum Inside<'e> {
    /// Of keys that are given twice the last one counts.
    Object(BTreeMap<String, Part<'e>>),
    List(Vec<Part<'e>>),
    Nothing,
}

impl<'e> LazyJson<'e> {
    fn new(event: &'e [u8]) -> LazyJson<'e> {
        LazyJson { event, whole: OnceCell::new() }
    }

    /// The value at this dotted path, if there is one.
    fn find(&self, path: &str) -> Option<&Value> {
        let whole = self.whole.get_or_init(|| serde_json::from_slice(self.event).ok().map(Part::new));
        let found = path.split('.').try_fold(whole.as_ref()?, |part, step| part.step(step))?;
        Some(found.value())
    }
}

impl<'e> Part<'e> {
    fn new(raw: &'e RawValue) -> Part<'e> {
        Part { raw, inside: OnceCell::new(), value: OnceCell::new() }
    }

    fn step(&self, step: &str) -> Option<&Part<'e>> {
        match self.inside.get_or_init(|| open(self.raw)) {
            Inside::Object(fields) => fields.get(step),
            Inside::List(items) => items.get(step.parse::<usize>().ok()?),
            Inside::Nothing => None,
        }
    }

    /// What cannot be represented exists, and equals nothing but its own text.
    fn value(&self) -> &Value {
        let text = self.raw.get();
        self.value
            .get_or_init(|| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
    }
}

/// `None`: it holds half of a surrogate pair, and no path can name it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(Option<String>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Name, E> {
                Ok(Name(std::str::from_utf8(bytes).ok().map(str::to_owned)))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

fn open(raw: &RawValue) -> Inside<'_> {
    let text = raw.get();
    let opened = match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<BTreeMap<Name, &RawValue>>(text).map(|fields| {
            let fields = fields.into_iter().filter_map(|(Name(name), raw)| Some((name?, Part::new(raw))));
            Inside::Object(fields.collect())
        }),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text)
            .map(|items| Inside::List(items.into_iter().map(Part::new).collect())),
        _ => return Inside::Nothing,
    };
    opened.unwrap_or(Inside::Nothing)
}

fn passes(filters: &[Filter], connector: Connector, event: &LazyJson<'_>) -> bool {
    match connector {
        Connector::And => filters.iter().all(|f| filter_passes(f, event)),
        Connector::Or => filters.is_empty() || filters.iter().any(|f| filter_passes(f, event)),
    }
}

fn filter_passes(filter: &Filter, event: &LazyJson<'_>) -> bool {
    if filter.op == Op::Changed {
        let state = |name: &str| event.find(&format!("data.{name}.{}", filter.field));
        return state("oldState") != state("newState");
    }
    let found = event.find(&filter.field);
    if filter.op == Op::Exists {
        // `value: false` asks for the opposite.
        return found.is_some() != (filter.value == Some(Value::Bool(false)));
    }
    let (Some(found), Some(wanted)) = (found, &filter.value) else {
        return filter.op == Op::Ne;
    };
    let order = compare(found, wanted);
    match filter.op {
        Op::Eq => order == Some(Ordering::Equal),
        Op::Ne => order != Some(Ordering::Equal),
        Op::Gt => order == Some(Ordering::Greater),
        Op::Gte => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Op::Lt => order == Some(Ordering::Less),
        Op::Lte => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Op::Contains => contains(found, wanted),
        Op::Changed | Op::Exists => false,
    }
}

/// Numbers compare as numbers and times as times; other values are equal or not comparable.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => match (Timestamp::parse(a), Timestamp::parse(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => Some(a.cmp(b)),
        },
        _ => (a == b).then_some(Ordering::Equal),
    }
}

fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(list), _) => list.iter().any(|v| compare(v, wanted) == Some(Ordering::Equal)),
        _ => false,
    }
}
