//! The proxy before an upstream that takes everything.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::faults::Shares;
use super::throttle::Limits;
use super::{Options, Proxy, Report};

/// What reached the upstream: targets and bodies.
type Taken = Arc<Mutex<Vec<(String, Value)>>>;

struct Bench {
    url: String,
    taken: Taken,
    proxy: Arc<Proxy>,
    client: reqwest::Client,
}

async fn take(State(taken): State<Taken>, headers: HeaderMap, body: String) -> String {
    let target = headers["x-amz-target"].to_str().unwrap().to_owned();
    let body: Value = serde_json::from_str(&body).unwrap();
    let keys = |partition: &str, sort: &str| json!([{ "AttributeName": partition, "KeyType": "HASH" }, { "AttributeName": sort, "KeyType": "RANGE" }]);
    if target.ends_with("DescribeTable") {
        return json!({ "Table": { "KeySchema": keys("pk", "sk") } }).to_string();
    }
    let entries = body["Entries"].as_array().cloned().unwrap_or_default();
    taken.lock().unwrap().push((target, body));
    json!({ "Successful": entries, "UnprocessedItems": {} }).to_string()
}

impl Bench {
    async fn new(shares: Shares, divided_by: f64) -> Bench {
        let taken = Taken::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let upstream = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(taken.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        let options = Options { upstream, shares, limits: Limits::scaled(divided_by), seed: 7 };
        let proxy = Proxy::new(options, Report::default()).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/Ingest", listener.local_addr().unwrap());
        tokio::spawn(proxy.clone().serve(listener));
        Bench { url, taken, proxy, client: crate::host::client().unwrap() }
    }

    /// The status and the answer; `None` if the connection was closed.
    async fn call(&self, target: &str, body: &Value) -> Option<(u16, Value)> {
        let request = self.client.post(&self.url).header("x-amz-target", target).body(body.to_string());
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, serde_json::from_str(&response.text().await.ok()?).unwrap()))
    }

    fn taken(&self) -> Vec<(String, Value)> {
        self.taken.lock().unwrap().clone()
    }
}

fn put(pk: &str) -> Value {
    json!({ "TableName": "t", "Item": { "pk": { "S": pk }, "sk": { "S": "-" } } })
}

fn code(answer: &Value) -> &str {
    answer["__type"].as_str().unwrap_or_default().rsplit('#').next().unwrap_or_default()
}

#[tokio::test]
async fn what_aws_refuses_does_not_reach_the_emulator() {
    let bench = Bench::new(Shares::default(), 1.0).await;
    let (status, answer) = bench.call("DynamoDB_20120810.PutItem", &put("")).await.unwrap();
    assert_eq!((status, code(&answer)), (400, "ValidationException"), "{answer}");
    let late = json!({ "QueueUrl": "q", "MessageBody": "x", "DelaySeconds": 901 });
    let (status, answer) = bench.call("AmazonSQS.SendMessage", &late).await.unwrap();
    assert_eq!((status, code(&answer)), (400, "InvalidParameterValue"), "{answer}");
    assert!(bench.taken().is_empty());
    assert_eq!(bench.proxy.report().problems().len(), 2);
    assert_eq!(bench.call("DynamoDB_20120810.PutItem", &put("a")).await.unwrap().0, 200);
    assert_eq!(bench.taken(), [("DynamoDB_20120810.PutItem".to_owned(), put("a"))]);
}

#[tokio::test]
async fn a_failed_call_has_no_effect_and_a_lost_one_has() {
    let failing = Bench::new(Shares { failed: 1.0, ..Shares::default() }, 1.0).await;
    let (status, answer) = failing.call("DynamoDB_20120810.PutItem", &put("a")).await.unwrap();
    assert!(status >= 500, "{status} {answer}");
    assert!(failing.taken().is_empty());
    let losing = Bench::new(Shares { lost: 1.0, ..Shares::default() }, 1.0).await;
    assert_eq!(losing.call("DynamoDB_20120810.PutItem", &put("a")).await, None);
    assert_eq!(losing.taken().len(), 1);
}

#[tokio::test]
async fn a_transaction_that_is_sent_again_with_its_token_is_made_once() {
    let bench = Bench::new(Shares::default(), 1.0).await;
    let transaction =
        |token: &str| json!({ "ClientRequestToken": token, "TransactItems": [{ "Put": put("a") }] });
    for token in ["one", "one", "two"] {
        let answered = bench.call("DynamoDB_20120810.TransactWriteItems", &transaction(token)).await;
        assert_eq!(answered.unwrap().0, 200);
    }
    assert_eq!(bench.taken().len(), 2);
}

#[tokio::test]
async fn messages_are_sent_twice_late_and_in_part() {
    let message = json!({ "QueueUrl": "q", "MessageBody": "x", "DelaySeconds": 899 });
    let shares = Shares { duplicated: 1.0, delayed: 1.0, ..Shares::default() };
    let bench = Bench::new(shares, 1.0).await;
    bench.call("AmazonSQS.SendMessage", &message).await.unwrap();
    let delays: Vec<Value> = bench.taken().iter().map(|(_, body)| body["DelaySeconds"].clone()).collect();
    assert_eq!(delays, [900, 900]);
    let batch = json!({ "QueueUrl": "q", "Entries": [{ "Id": "0", "MessageBody": "x" }] });
    let bench = Bench::new(Shares { entries: 1.0, ..Shares::default() }, 1.0).await;
    let (status, answer) = bench.call("AmazonSQS.SendMessageBatch", &batch).await.unwrap();
    assert_eq!((status, &answer["Failed"][0]["Id"]), (200, &json!("0")), "{answer}");
    assert!(bench.taken().is_empty());
}

#[tokio::test]
async fn a_hot_partition_is_throttled_in_every_kind_of_write() {
    // One unit a second for a partition.
    let bench = Bench::new(Shares::default(), 1_000.0).await;
    assert_eq!(bench.call("DynamoDB_20120810.PutItem", &put("hot")).await.unwrap().0, 200);
    let (status, answer) = bench.call("DynamoDB_20120810.PutItem", &put("hot")).await.unwrap();
    assert_eq!((status, code(&answer)), (400, "ProvisionedThroughputExceededException"));

    let batch =
        json!({ "RequestItems": { "t": [{ "PutRequest": put("hot") }, { "PutRequest": put("cold") }] } });
    let (status, answer) = bench.call("DynamoDB_20120810.BatchWriteItem", &batch).await.unwrap();
    let left = json!({ "t": [{ "PutRequest": put("hot") }] });
    assert_eq!((status, &answer["UnprocessedItems"]), (200, &left));

    let transaction = json!({ "TransactItems": [{ "Put": put("other") }, { "Put": put("hot") }] });
    let (status, answer) = bench.call("DynamoDB_20120810.TransactWriteItems", &transaction).await.unwrap();
    assert_eq!((status, code(&answer)), (400, "TransactionCanceledException"));
    let reasons = json!([{ "Code": "None" }, { "Code": "ProvisionedThroughputExceeded" }]);
    assert_eq!(answer["CancellationReasons"], reasons);
}
