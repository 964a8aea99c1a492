//! A value that was found in an event, and how it compares with what a filter asks for.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::scalar::{hash_of, time_of};
use crate::time::Timestamp;

/// A longer value exists and can be changed, but is not compared: what it costs to compare is the producer's doing, and the
/// subscriber's to pay for.
const MAX_COMPARED_BYTES: usize = 64 * 1024;
/// How many items of a list `contains` looks at.
const MAX_COMPARED_ITEMS: usize = 1_000;

/// Many filters may ask for the same value: each form of it is made once.
pub(super) struct Found<'e> {
    raw: &'e RawValue,
    value: OnceCell<Option<Value>>,
    time: OnceCell<Option<Timestamp>>,
    items: OnceCell<HashMap<u64, Vec<usize>>>,
}

/// What a filter asks for, parsed when it is subscribed.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    value: Value,
    time: Option<Timestamp>,
}

impl Wanted {
    pub(super) fn new(value: Value) -> Wanted {
        Wanted { time: time_of(&value), value }
    }

    pub(super) fn hash(&self) -> Option<u64> {
        hash_of(&self.value, self.time)
    }
}

impl<'e> Found<'e> {
    pub(super) fn new(raw: &'e RawValue) -> Found<'e> {
        Found { raw, value: OnceCell::new(), time: OnceCell::new(), items: OnceCell::new() }
    }

    /// `None`: it is too long. What cannot be represented equals nothing but its own text.
    fn value(&self) -> Option<&Value> {
        let text = self.raw.get();
        let parse = || serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        self.value.get_or_init(|| (text.len() <= MAX_COMPARED_BYTES).then(parse)).as_ref()
    }

    fn time(&self) -> Option<Timestamp> {
        *self.time.get_or_init(|| self.value().and_then(time_of))
    }

    pub(super) fn hash(&self) -> Option<u64> {
        hash_of(self.value()?, self.time())
    }

    pub(super) fn compare(&self, wanted: &Wanted) -> Option<Ordering> {
        compare((self.value()?, self.time()), (&wanted.value, wanted.time))
    }

    /// A text contains a text, or a list contains a value.
    pub(super) fn contains(&self, wanted: &Wanted) -> bool {
        match (self.value(), &wanted.value) {
            (Some(Value::String(text)), Value::String(part)) => text.contains(part.as_str()),
            (Some(Value::Array(list)), _) => {
                let equals = |item: &Value| {
                    compare((item, time_of(item)), (&wanted.value, wanted.time)) == Some(Ordering::Equal)
                };
                match wanted.hash() {
                    Some(hash) => {
                        let places = self.items(list).get(&hash);
                        places.is_some_and(|places| places.iter().any(|place| equals(&list[*place])))
                    }
                    None => list.iter().take(MAX_COMPARED_ITEMS).any(equals),
                }
            }
            _ => false,
        }
    }

    /// Where in the list each value is.
    fn items(&self, list: &[Value]) -> &HashMap<u64, Vec<usize>> {
        self.items.get_or_init(|| {
            let mut items: HashMap<u64, Vec<usize>> = HashMap::new();
            for (place, item) in list.iter().take(MAX_COMPARED_ITEMS).enumerate() {
                if let Some(hash) = hash_of(item, time_of(item)) {
                    items.entry(hash).or_default().push(place);
                }
            }
            items
        })
    }

    pub(super) fn equals(&self, other: &Found<'_>) -> bool {
        self.raw.get() == other.raw.get()
            || matches!((self.value(), other.value()), (Some(a), Some(b)) if a == b)
    }

    /// For people: a longer value is shown by its beginning, as it was written.
    pub(super) fn shown(&self, max_bytes: usize) -> Value {
        let text = self.raw.get();
        if text.len() <= max_bytes {
            return self.value().cloned().unwrap_or_default();
        }
        let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Value::String(format!("{}…", &text[..end]))
    }

    /// How much work it is to look into it, in comparisons of short values. By the slowest operator: `contains` with a text that nearly
    /// matches everywhere takes some nanoseconds for each byte.
    pub(super) fn cost(&self) -> usize {
        1 + self.raw.get().len().min(MAX_COMPARED_BYTES) / 16
    }
}

/// Numbers compare as numbers and times as times; other values are equal or not comparable.
fn compare(
    (a, a_time): (&Value, Option<Timestamp>),
    (b, b_time): (&Value, Option<Timestamp>),
) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => match (a_time, b_time) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => Some(a.cmp(b)),
        },
        _ => (a == b).then_some(Ordering::Equal),
    }
}
