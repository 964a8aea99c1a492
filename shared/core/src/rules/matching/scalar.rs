//! Values that are the same to `eq`, written in one way.

use serde_json::Value;

use crate::time::Timestamp;

/// Equal whenever `eq` says that two values are; now and then also when it does not, as for numbers beyond 2^53.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    /// The bits of a float, because 1 and 1.0 are the same number.
    Number(u64),
    /// A text that is a time equals the same time in other words.
    Time(Timestamp),
    Text(String),
}

impl Scalar {
    /// `None` for lists and objects.
    pub(super) fn of(value: &Value) -> Option<Scalar> {
        Some(match value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            // Zero has two forms; adding zero leaves one of them.
            Value::Number(number) => Scalar::Number((number.as_f64()? + 0.0).to_bits()),
            Value::String(text) => match Timestamp::parse(text) {
                Some(time) => Scalar::Time(time),
                None => Scalar::Text(text.clone()),
            },
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}
