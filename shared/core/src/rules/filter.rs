//! Filters look into an event by dotted path.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// The fields of an event.
const ROOTS: [&str; 5] = ["id", "type", "timestamp", "subject", "data"];
/// The longest path: an event is scanned once for each level that a filter looks into.
pub const MAX_SEGMENTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    /// A text contains a text, or a list contains a value.
    Contains,
    /// `data.oldState.<field>` and `data.newState.<field>` differ.
    Changed,
    Exists,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    pub field: String,
    pub op: Op,
    // `"value": null` asks for null; no `value` at all is something else.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connector {
    #[default]
    And,
    Or,
}

impl Filter {
    /// What is wrong with this filter, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.field.is_empty() || self.field.split('.').any(str::is_empty) {
            return Some(format!("{:?} is not a dotted path; use one such as data.status", self.field));
        }
        if self.field.split('.').count() > MAX_SEGMENTS {
            return Some(format!(
                "the path has more than {MAX_SEGMENTS} segments; look at a field further up"
            ));
        }
        let takes_value = !matches!(self.op, Op::Changed | Op::Exists);
        if takes_value && self.value.is_none() {
            return Some(format!("the op {} needs a `value`; add one", json!(self.op)));
        }
        self.never()
    }

    /// Why no event can ever pass, if none can.
    fn never(&self) -> Option<String> {
        let root = self.field.split('.').next().unwrap_or_default();
        // `changed` looks below data.oldState and data.newState.
        if self.op != Op::Changed && !ROOTS.contains(&root) {
            let known = ROOTS.join(", ");
            return Some(format!("no event has a field {root:?}; a path begins with one of {known}"));
        }
        let orders = matches!(self.op, Op::Gt | Op::Gte | Op::Lt | Op::Lte);
        let is_orderable = matches!(self.value, Some(Value::Number(_) | Value::String(_)));
        (orders && !is_orderable)
            .then(|| format!("the op {} needs a number, a time or a text as its `value`", json!(self.op)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read less exactly, the number became another one each time that its subscription was stored, and equalled the event's no more.
    #[test]
    fn a_number_of_many_digits_is_the_same_after_it_was_stored() {
        for number in ["1844674417370.9551615", "0.30000000000000004", "1e300", "9007199254740993", "-0.0"] {
            let posted = format!(r#"{{"field":"data.a","op":"eq","value":{number}}}"#);
            let filter: Filter = serde_json::from_str(&posted).unwrap();
            let stored = serde_json::to_string(&filter).unwrap();
            assert_eq!(serde_json::from_str::<Filter>(&stored).unwrap(), filter, "{number}");
            let exact: f64 = number.parse().unwrap();
            assert_eq!(filter.value.and_then(|value| value.as_f64()), Some(exact), "{number}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_filter_is_said() {
        let filter = |field: &str, op, value| Filter { field: field.to_owned(), op, value };
        let deep = format!("data{}", ".a".repeat(MAX_SEGMENTS - 1));
        for good in [
            filter("data.a", Op::Eq, Some(json!(1))),
            filter("data.a", Op::Eq, Some(json!(null))),
            filter("data", Op::Exists, None),
            filter("subject", Op::Gt, Some(json!("m"))),
            filter("status", Op::Changed, None),
            filter(&deep, Op::Exists, None),
        ] {
            assert_eq!(good.fault(), None);
        }
        for (bad, part) in [
            (filter("", Op::Exists, None), "dotted path"),
            (filter("a..b", Op::Exists, None), "dotted path"),
            (filter("status", Op::Eq, Some(json!(1))), "id, type, timestamp, subject, data"),
            (filter("Data.a", Op::Exists, None), "no event has a field"),
            (filter("data.a", Op::Gt, Some(json!(true))), "a number, a time or a text"),
            (filter("data.a", Op::Lte, Some(json!(null))), "a number, a time or a text"),
            (filter("data.a", Op::Lt, Some(json!([1]))), "a number, a time or a text"),
            (filter("data.a", Op::Eq, None), "needs a `value`"),
            (filter(&format!("{deep}.a"), Op::Exists, None), "more than 16 segments"),
        ] {
            assert!(bad.fault().is_some_and(|fault| fault.contains(part)), "{bad:?}");
        }
    }
}
