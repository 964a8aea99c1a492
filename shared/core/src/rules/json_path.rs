//! Finds values in an event by dotted path. Filters share one [`LazyJson`], so that nothing is parsed twice.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// An event's body, parsed only as far as a path asks: an event may hold numbers, texts or depths that cannot be represented, and its
/// other fields must still be found.
pub struct LazyJson<'e> {
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
    Object(BTreeMap<Cow<'e, str>, Part<'e>>),
    List(Vec<Part<'e>>),
    Nothing,
}

impl<'e> LazyJson<'e> {
    #[must_use]
    pub fn new(event: &'e [u8]) -> LazyJson<'e> {
        LazyJson { event, whole: OnceCell::new() }
    }

    /// The value at this dotted path, if there is one.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Value> {
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

fn open(raw: &RawValue) -> Inside<'_> {
    let text = raw.get();
    let opened = match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<BTreeMap<Cow<str>, &RawValue>>(text)
            .map(|fields| Inside::Object(fields.into_iter().map(|(k, raw)| (k, Part::new(raw))).collect())),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text)
            .map(|items| Inside::List(items.into_iter().map(Part::new).collect())),
        _ => return Inside::Nothing,
    };
    opened.unwrap_or(Inside::Nothing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_same_however_often_it_is_asked() {
        let event = br#"{"a": [1, {"b": null}], "a.b": 2, "c": 1, "c": {"d": "last"}, "x": 1e999, "": 3}"#;
        let json = LazyJson::new(event);
        for _ in 0..2 {
            assert_eq!(json.find("a.1.b"), Some(&json!(null)));
            assert_eq!(json.find("a.0"), Some(&json!(1)));
            assert_eq!(json.find("c.d"), Some(&json!("last")));
            assert_eq!(json.find("x"), Some(&json!("1e999")));
            for nothing in ["a.2", "a.b", "a.0.b", "c.d.e", "y", "a.-1"] {
                assert_eq!(json.find(nothing), None, "{nothing}");
            }
        }
        assert_eq!(LazyJson::new(b"not JSON").find("a"), None);
    }

    #[test]
    fn an_object_with_an_unreadable_name_has_no_fields() {
        let json = LazyJson::new(br#"{"good": {"a": 1}, "bad": {"a": 1, "\ud800": 2}}"#);
        assert_eq!(json.find("good.a"), Some(&json!(1)));
        assert_eq!(json.find("bad.a"), None);
        assert!(json.find("bad").is_some());
    }
}
