//! A DynamoDB in memory behind the SDK: it answers the requests that the store makes, and panics on any other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use holdfast_core::ports::Clock;
use holdfast_sim::VirtualClock;
use serde_json::{Value, json};

use crate::expressions::{Expression, Item};
use crate::meter::Meter;
use crate::table::{Query, Table, key_of};

pub(crate) const NAME: &str = "holdfast";

/// The most items of one request.
const MAX_BATCH_GET: usize = 100;
const MAX_BATCH_WRITE: usize = 25;
const MAX_TRANSACTION: usize = 100;

#[derive(Clone)]
pub(crate) struct Dynamo {
    table: Arc<Mutex<Table>>,
    clock: Arc<VirtualClock>,
}

impl std::fmt::Debug for Dynamo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dynamo")
    }
}

/// A status and a body.
type Answer = (u16, Value);

impl HttpConnector for Dynamo {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let action = request.headers().get("x-amz-target").and_then(|target| target.rsplit('.').next());
        let action = action.expect("a request names its operation").to_owned();
        let body = request.body().bytes().expect("the body is in memory");
        let (status, answer) = self.answer(&action, &serde_json::from_slice(body).expect("the body is JSON"));
        let status = status.try_into().expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, answer.to_string().into())))
    }
}

impl Dynamo {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Dynamo {
        Dynamo { table: Arc::default(), clock }
    }

    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        Client::from_conf(config.build())
    }

    /// What was metered so far. Metering starts again.
    pub(crate) fn take_meter(&self) -> Meter {
        std::mem::take(&mut self.lock().meter)
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.lock().is_overdue(self.clock.now().as_millis())
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, action: &str, request: &Value) -> Answer {
        let mut table = self.lock();
        table.second = self.clock.now_real().as_secs();
        let table = &mut *table;
        match action {
            "GetItem" => (200, get(table, request)),
            "BatchGetItem" => (200, batch_get(table, request)),
            "Query" => (200, query(table, request)),
            "BatchWriteItem" => (200, batch_write(table, request)),
            "PutItem" | "UpdateItem" | "DeleteItem" => write(table, &Write::alone(action, request)),
            "TransactWriteItems" => transact(table, request),
            _ => panic!("the store does not use {action}"),
        }
    }
}

fn object(value: &Value) -> &Item {
    value.as_object().unwrap_or_else(|| panic!("{value} is not an object"))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array"))
}

fn is_consistent(request: &Value) -> bool {
    request["ConsistentRead"].as_bool().unwrap_or(false)
}

/// The whole item is paid for, whatever part of it is asked for.
fn get(table: &mut Table, request: &Value) -> Value {
    match table.get(&key_of(object(&request["Key"])), is_consistent(request)) {
        Some(item) => json!({ "Item": item }),
        None => json!({}),
    }
}

fn batch_get(table: &mut Table, request: &Value) -> Value {
    let asked = &request["RequestItems"][NAME];
    let keys = array(&asked["Keys"]);
    assert!(keys.len() <= MAX_BATCH_GET, "{} keys are too many", keys.len());
    let consistent = is_consistent(asked);
    let found: Vec<Item> =
        keys.iter().filter_map(|key| table.get(&key_of(object(key)), consistent)).collect();
    json!({ "Responses": { NAME: found }, "UnprocessedKeys": {} })
}

fn query(table: &mut Table, request: &Value) -> Value {
    let condition = request["KeyConditionExpression"].as_str().expect("a query has a condition");
    // The first comparison is with the partition key.
    let (name, rest) = condition.split_once(" = ").expect("a partition key");
    let value = rest.split(' ').next().unwrap_or_default();
    assert!(request["ExpressionAttributeNames"][name].is_string(), "{condition}");
    let index = request["IndexName"].as_str();
    assert!(index.is_none() || !is_consistent(request), "an index has no consistent reads");
    let asked = Query {
        index,
        hash: request["ExpressionAttributeValues"][value]["S"].as_str().expect("text").to_owned(),
        matches: &|item| Expression::new(condition, request).holds(item),
        start: request["ExclusiveStartKey"].as_object().cloned(),
        forward: request["ScanIndexForward"].as_bool().unwrap_or(true),
        limit: usize::try_from(request["Limit"].as_u64().expect("a limit")).expect("a small number"),
        consistent: is_consistent(request),
    };
    let (items, last) = table.query(&asked);
    let mut answer = json!({ "Count": items.len(), "ScannedCount": items.len() });
    if request["Select"] != "COUNT" {
        answer["Items"] = json!(items);
    }
    if let Some(last) = last {
        answer["LastEvaluatedKey"] = json!(last);
    }
    answer
}

fn batch_write(table: &mut Table, request: &Value) -> Value {
    let requests = array(&request["RequestItems"][NAME]);
    assert!(requests.len() <= MAX_BATCH_WRITE, "{} writes are too many", requests.len());
    for request in requests {
        let item = object(&request["PutRequest"]["Item"]);
        table.write(&key_of(item), Some(item.clone()), 1.0);
    }
    json!({ "UnprocessedItems": {} })
}

/// One write, alone or in a transaction.
struct Write<'a> {
    action: &'a str,
    request: &'a Value,
    key: (String, String),
    times: f64,
}

impl<'a> Write<'a> {
    fn alone(action: &'a str, request: &'a Value) -> Write<'a> {
        let action = action.trim_end_matches("Item");
        let key = if action == "Put" { &request["Item"] } else { &request["Key"] };
        Write { action, request, key: key_of(object(key)), times: 1.0 }
    }

    fn in_transaction(item: &'a Value) -> Write<'a> {
        let (action, request) = object(item).iter().next().expect("an action");
        Write { times: 2.0, ..Write::alone(action, request) }
    }

    fn is_allowed(&self, table: &Table) -> bool {
        let nothing = Item::new();
        let item = table.find(&self.key).unwrap_or(&nothing);
        let condition = self.request["ConditionExpression"].as_str();
        condition.is_none_or(|condition| Expression::new(condition, self.request).holds(item))
    }

    /// The item as it was.
    fn make(&self, table: &mut Table) -> Option<Item> {
        let before = table.find(&self.key).cloned();
        let after = match self.action {
            "Put" => Some(object(&self.request["Item"]).clone()),
            "Delete" => None,
            "Update" => {
                let change = self.request["UpdateExpression"].as_str().expect("an update changes something");
                let start = before.clone().unwrap_or_else(|| object(&self.request["Key"]).clone());
                Some(Expression::new(change, self.request).update(&start))
            }
            other => panic!("the store does not use {other}"),
        };
        table.write(&self.key, after, self.times);
        before
    }

    /// The item as it is, if the request asks for it when its condition fails.
    fn found(&self, table: &Table) -> Option<Item> {
        let asked = self.request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD";
        table.find(&self.key).filter(|_| asked).cloned()
    }
}

fn error(code: &str, mut members: Value) -> Answer {
    members["__type"] = json!(format!("com.amazonaws.dynamodb.v20120810#{code}"));
    members["message"] = json!("as in memory");
    (400, members)
}

fn write(table: &mut Table, write: &Write<'_>) -> Answer {
    if !write.is_allowed(table) {
        table.pay_for_refusal(&write.key, write.times);
        let found = write.found(table).map_or_else(|| json!({}), |item| json!({ "Item": item }));
        return error("ConditionalCheckFailedException", found);
    }
    let before = write.make(table);
    let wanted = write.request["ReturnValues"] == "ALL_OLD";
    (200, before.filter(|_| wanted).map_or_else(|| json!({}), |item| json!({ "Attributes": item })))
}

fn transact(table: &mut Table, request: &Value) -> Answer {
    let writes: Vec<Write<'_>> = array(&request["TransactItems"]).iter().map(Write::in_transaction).collect();
    assert!(writes.len() <= MAX_TRANSACTION, "{} writes are too many", writes.len());
    let allowed: Vec<bool> = writes.iter().map(|write| write.is_allowed(table)).collect();
    if allowed.iter().all(|allowed| *allowed) {
        for write in &writes {
            write.make(table);
        }
        return (200, json!({}));
    }
    let reasons: Vec<Value> =
        writes.iter().zip(&allowed).map(|(write, allowed)| reason(table, write, *allowed)).collect();
    for write in &writes {
        table.pay_for_refusal(&write.key, write.times);
    }
    error("TransactionCanceledException", json!({ "CancellationReasons": reasons }))
}

fn reason(table: &Table, write: &Write<'_>, allowed: bool) -> Value {
    if allowed {
        return json!({ "Code": "None" });
    }
    match write.found(table) {
        Some(item) => json!({ "Code": "ConditionalCheckFailed", "Item": item }),
        None => json!({ "Code": "ConditionalCheckFailed" }),
    }
}
