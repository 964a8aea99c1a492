//! What DynamoDB counts for an item: its size, and the capacity units of a read or a write of it.
//!
//! Items are in the JSON of DynamoDB's protocol: `{"name": {"S": "text"}}`.

use serde_json::{Map, Value};

/// What one partition key takes in a second, in the table and in each index.
pub const WRITE_UNITS_PER_PARTITION: f64 = 1_000.0;
pub const READ_UNITS_PER_PARTITION: f64 = 3_000.0;

const WRITE_UNIT_BYTES: usize = 1_024;
const READ_UNIT_BYTES: usize = 4_096;
/// A list or map takes this much, and a byte for each of its elements.
const CONTAINER_BYTES: usize = 3;

/// Names and values together.
#[must_use]
pub fn item_bytes(item: &Map<String, Value>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

/// For one item. In a transaction an item counts twice.
#[must_use]
pub fn write_units(bytes: usize) -> f64 {
    bytes.div_ceil(WRITE_UNIT_BYTES).max(1) as f64
}

/// For one item, or for all items of a query together: they are added up before they are rounded.
#[must_use]
pub fn read_units(bytes: usize, consistent: bool) -> f64 {
    let units = bytes.div_ceil(READ_UNIT_BYTES).max(1) as f64;
    if consistent { units } else { units / 2.0 }
}

/// `value` is `{"S": "text"}` and the like.
fn value_bytes(value: &Value) -> usize {
    let Some((kind, value)) = value.as_object().and_then(|typed| typed.iter().next()) else { return 0 };
    match (kind.as_str(), value) {
        ("S", Value::String(text)) => text.len(),
        ("N", Value::String(number)) => number_bytes(number),
        // Base64: three bytes for four characters.
        ("B", Value::String(base64)) => base64.trim_end_matches('=').len() * 3 / 4,
        ("BOOL" | "NULL", _) => 1,
        ("M", Value::Object(members)) => {
            CONTAINER_BYTES
                + members.iter().map(|(name, value)| 1 + name.len() + value_bytes(value)).sum::<usize>()
        }
        ("L", Value::Array(values)) => {
            CONTAINER_BYTES + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>()
        }
        _ => 0,
    }
}

/// One byte for two significant digits, one for the exponent, one for a sign.
fn number_bytes(number: &str) -> usize {
    let (sign, digits) = number.strip_prefix('-').map_or((0, number), |digits| (1, digits));
    let significant = digits.trim_start_matches(['0', '.']).trim_end_matches(['0', '.']);
    let significant = significant.bytes().filter(u8::is_ascii_digit).count();
    sign + significant.div_ceil(2) + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_follow_the_documentation() {
        let cases = [
            (json!({ "S": "héllo" }), 6),
            (json!({ "N": "27" }), 2),
            (json!({ "N": "-27" }), 3),
            (json!({ "N": "1763379000000" }), 5),
            (json!({ "B": "AAECAw==" }), 4),
            (json!({ "BOOL": true }), 1),
            (json!({ "NULL": true }), 1),
            (json!({ "L": [{ "S": "ab" }, { "N": "1" }] }), 3 + (1 + 2) + (1 + 2)),
            (json!({ "M": { "name": { "S": "ab" } } }), 3 + 1 + 4 + 2),
        ];
        for (value, bytes) in cases {
            assert_eq!(value_bytes(&value), bytes, "{value}");
        }
        let Value::Object(item) = json!({ "pk": { "S": "a" }, "n": { "N": "5" } }) else { unreachable!() };
        assert_eq!(item_bytes(&item), 2 + 1 + 1 + 2);
    }

    #[test]
    fn units_are_rounded_up() {
        assert_eq!([0, 1, 1_024, 1_025].map(write_units), [1.0, 1.0, 1.0, 2.0]);
        assert_eq!([0, 4_096, 4_097].map(|bytes| read_units(bytes, true)), [1.0, 1.0, 2.0]);
        assert_eq!([0, 4_096, 4_097].map(|bytes| read_units(bytes, false)), [0.5, 0.5, 1.0]);
    }
}
