//! JSON values as attribute values, and back.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value};

pub(super) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(super) fn to_attribute(value: Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(value) => AttributeValue::Bool(value),
        Value::Number(value) => number(value),
        Value::String(value) => AttributeValue::S(value),
        Value::Array(values) => AttributeValue::L(values.into_iter().map(to_attribute).collect()),
        Value::Object(members) => AttributeValue::M(to_map(members)),
    }
}

pub(super) fn to_map(members: Map<String, Value>) -> HashMap<String, AttributeValue> {
    members.into_iter().map(|(name, value)| (name, to_attribute(value))).collect()
}

/// `None`: a type of value that no record contains.
pub(super) fn to_json(attribute: AttributeValue) -> Option<Value> {
    Some(match attribute {
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::N(value) => Value::Number(value.parse().ok()?),
        AttributeValue::S(value) => Value::String(value),
        AttributeValue::L(values) => Value::Array(values.into_iter().map(to_json).collect::<Option<_>>()?),
        AttributeValue::M(members) => Value::Object(to_members(members)?),
        _ => return None,
    })
}

pub(super) fn to_members(members: HashMap<String, AttributeValue>) -> Option<Map<String, Value>> {
    members.into_iter().map(|(name, value)| Some((name, to_json(value)?))).collect()
}
