//! Filters look into an event by dotted path.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::json_path::LazyJson;
use crate::time::Timestamp;

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

/// Many may share one look at the event.
#[must_use]
pub fn passes(filters: &[Filter], connector: Connector, event: &LazyJson<'_>) -> bool {
    match connector {
        Connector::And => filters.iter().all(|f| f.passes(event)),
        Connector::Or => filters.is_empty() || filters.iter().any(|f| f.passes(event)),
    }
}

impl Filter {
    /// What is wrong with this filter, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.field.is_empty() || self.field.split('.').any(str::is_empty) {
            return Some(format!("{:?} is not a dotted path; use one such as data.status", self.field));
        }
        let takes_value = !matches!(self.op, Op::Changed | Op::Exists);
        (takes_value && self.value.is_none())
            .then(|| format!("the op {} needs a `value`; add one", json!(self.op)))
    }

    fn passes(&self, event: &LazyJson<'_>) -> bool {
        if self.op == Op::Changed {
            let state = |name: &str| event.find(&format!("data.{name}.{}", self.field));
            return state("oldState") != state("newState");
        }
        let found = event.find(&self.field);
        if self.op == Op::Exists {
            // `value: false` asks for the opposite.
            return found.is_some() != (self.value == Some(Value::Bool(false)));
        }
        let (Some(found), Some(wanted)) = (found, &self.value) else {
            return self.op == Op::Ne;
        };
        let order = compare(found, wanted);
        match self.op {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(field: &str, op: &str, value: Value) -> Filter {
        serde_json::from_value(json!({"field": field, "op": op, "value": value})).unwrap()
    }

    #[test]
    fn each_op_looks_into_the_event() {
        let event = json!({"type": "order.changed", "data": {
            "total": 12.5, "tags": ["new", "eu"], "at": "2024-01-01T00:00:00+02:00", "name": "Ada", "none": null,
            "oldState": {"status": "open", "same": 1}, "newState": {"status": "paid", "same": 1}}});
        for (field, op, value, expected) in [
            ("data.total", "eq", json!(12.5), true),
            ("data.total", "gt", json!(12), true),
            ("data.total", "lte", json!(12), false),
            ("data.total", "eq", json!("12.5"), false),
            ("data.missing", "eq", json!(1), false),
            ("data.missing", "ne", json!(1), true),
            ("data.tags", "contains", json!("eu"), true),
            ("data.tags.0", "eq", json!("new"), true),
            ("data.name", "contains", json!("da"), true),
            ("data.at", "lt", json!("2023-12-31T23:00:00Z"), true),
            ("data.none", "exists", json!(null), true),
            ("data.none", "exists", json!(false), false),
            ("data.none", "eq", json!(null), true),
            ("data.newState.status", "eq", json!("paid"), true),
            ("status", "changed", json!(null), true),
            ("same", "changed", json!(null), false),
            ("type", "eq", json!("order.changed"), true),
        ] {
            let f = filter(field, op, value);
            assert_eq!(f.passes(&LazyJson::new(event.to_string().as_bytes())), expected, "{f:?}");
        }
    }

    #[test]
    fn connectors_join_filters() {
        let event = &LazyJson::new(br#"{"data": {"a": 1}}"#);
        let both = [filter("data.a", "eq", json!(1)), filter("data.a", "eq", json!(2))];
        assert!(!passes(&both, Connector::And, event));
        assert!(passes(&both, Connector::Or, event));
        assert!(passes(&[], Connector::Or, event) && passes(&[], Connector::And, event));
    }

    #[test]
    fn what_cannot_be_represented_does_not_hide_the_rest() {
        let x_is_1 = filter("data.x", "eq", json!(1));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for beside in ["1e999", r#""\ud800""#, deep.as_str(), "1234567890123456789012345678901234567890"] {
            let event = format!(r#"{{"data":{{"beside":{beside},"x":1}}}}"#);
            let event = LazyJson::new(event.as_bytes());
            assert!(x_is_1.passes(&event), "{beside}");
            assert!(filter("data.beside", "exists", json!(true)).passes(&event), "{beside}");
        }
    }
}
