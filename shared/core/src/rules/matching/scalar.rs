//! Values that are the same to `eq`, written in one way.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::time::Timestamp;

/// Equal for any two values that `eq` calls equal; now and then also for others, as for numbers beyond 2^53. `None` for lists and
/// objects.
pub(super) fn hash_of(value: &Value, time: Option<Timestamp>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0_u8.hash(&mut hasher),
        Value::Bool(value) => (1_u8, value).hash(&mut hasher),
        // The bits of a float, because 1 and 1.0 are the same number. Zero has two forms; adding zero leaves one of them.
        Value::Number(number) => (2_u8, (number.as_f64()? + 0.0).to_bits()).hash(&mut hasher),
        // A text that is a time equals the same time in other words.
        Value::String(text) => match time {
            Some(time) => (3_u8, time).hash(&mut hasher),
            None => (4_u8, text).hash(&mut hasher),
        },
        Value::Array(_) | Value::Object(_) => return None,
    }
    Some(hasher.finish())
}

/// The time that a text is, if it is one.
pub(super) fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(Timestamp::parse)
}
