//! The items that a request to DynamoDB reads or writes, one by one.

use serde_json::Value;

use super::call::{Fields, list, object, text};
use super::schema::Schema;
use super::units::item_bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Put,
    Update,
    Delete,
    /// A condition in a transaction.
    Check,
}

/// One item of a request.
#[derive(Clone, Debug)]
pub struct Touch<'a> {
    pub kind: Kind,
    /// The fields of the request, or of the item of a transaction: expressions, names and values.
    pub fields: &'a Fields,
    /// The whole item of a put, the key of everything else.
    pub item: &'a Fields,
}

impl Touch<'_> {
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.kind != Kind::Get
    }

    /// Bytes that are written, as far as the request says: an update may leave more in the item.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = object(self.fields, "ExpressionAttributeValues").map_or(0, item_bytes);
        match self.kind {
            Kind::Put => item_bytes(self.item),
            Kind::Update => item_bytes(self.item) + values,
            Kind::Get | Kind::Delete | Kind::Check => 0,
        }
    }

    /// The values of partition key and sort key, by which two items of a request are compared.
    #[must_use]
    pub fn key(&self, schema: &Schema) -> Vec<String> {
        schema
            .keys
            .names()
            .map(|name| self.item.get(name).map(Value::to_string).unwrap_or_default())
            .collect()
    }
}

/// The table of a request; of a batch, the first one.
#[must_use]
pub fn table(operation: &str, body: &Fields) -> String {
    let of_item = |item: &Value| {
        let action = item.as_object().and_then(|item| item.values().next());
        action.and_then(|action| action["TableName"].as_str()).unwrap_or_default().to_owned()
    };
    match operation {
        "BatchGetItem" | "BatchWriteItem" => {
            object(body, "RequestItems").and_then(|items| items.keys().next().cloned()).unwrap_or_default()
        }
        "TransactWriteItems" | "TransactGetItems" => {
            list(body, "TransactItems").first().map(of_item).unwrap_or_default()
        }
        _ => text(body, "TableName").to_owned(),
    }
}

/// All items of a request, in its order. A query has none: it does not say which items it reads.
#[must_use]
pub fn touches<'a>(operation: &str, body: &'a Fields) -> Vec<Touch<'a>> {
    let tables = || object(body, "RequestItems").into_iter().flatten();
    match operation {
        "GetItem" => touch(Kind::Get, body, "Key").into_iter().collect(),
        "PutItem" => touch(Kind::Put, body, "Item").into_iter().collect(),
        "UpdateItem" => touch(Kind::Update, body, "Key").into_iter().collect(),
        "DeleteItem" => touch(Kind::Delete, body, "Key").into_iter().collect(),
        "BatchGetItem" => tables()
            .filter_map(|(_, request)| request.as_object())
            .flat_map(|request| {
                list(request, "Keys").iter().filter_map(Value::as_object).map(move |key| (request, key))
            })
            .map(|(fields, item)| Touch { kind: Kind::Get, fields, item })
            .collect(),
        "BatchWriteItem" => tables()
            .flat_map(|(_, requests)| requests.as_array().into_iter().flatten())
            .filter_map(batch_write)
            .collect(),
        "TransactWriteItems" | "TransactGetItems" => {
            list(body, "TransactItems").iter().filter_map(transacted).collect()
        }
        _ => Vec::new(),
    }
}

fn touch<'a>(kind: Kind, fields: &'a Fields, item: &str) -> Option<Touch<'a>> {
    Some(Touch { kind, fields, item: object(fields, item)? })
}

/// One request of a batch of writes.
#[must_use]
pub fn batch_write(request: &Value) -> Option<Touch<'_>> {
    let (kind, item) = [("PutRequest", Kind::Put, "Item"), ("DeleteRequest", Kind::Delete, "Key")]
        .into_iter()
        .find_map(|(name, kind, field)| Some((kind, request[name][field].as_object()?)))?;
    Some(Touch { kind, fields: request.as_object()?, item })
}

fn transacted(item: &Value) -> Option<Touch<'_>> {
    let actions = [
        ("Put", Kind::Put, "Item"),
        ("Update", Kind::Update, "Key"),
        ("Delete", Kind::Delete, "Key"),
        ("ConditionCheck", Kind::Check, "Key"),
        ("Get", Kind::Get, "Key"),
    ];
    actions.into_iter().find_map(|(name, kind, field)| touch(kind, item[name].as_object()?, field))
}
