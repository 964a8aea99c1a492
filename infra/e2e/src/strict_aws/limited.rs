//! Calls to DynamoDB within the limits of its partitions.

use anyhow::Result;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::call::{Call, Service, object};
use super::dynamo::answered_bytes;
use super::proxy::{Answer, Proxy};
use super::refusal::Refusal;
use super::schema::Schema;
use super::throttle::{Hot, Partition, query_partition, read_partition};
use super::touch::{Kind, Touch, batch_write, touches};
use super::units::read_units;

impl Proxy {
    pub(super) async fn through_throttle(&self, call: &Call, schema: &Schema) -> Result<Answer> {
        match call.operation.as_str() {
            "BatchWriteItem" => self.write_batch(call, schema).await,
            "BatchGetItem" => self.read_batch(call, schema).await,
            "TransactWriteItems" => self.transact(call, schema).await,
            "Query" => self.read(call, &query_partition(&call.body, schema)).await,
            "GetItem" => match touches(&call.operation, &call.body).first() {
                Some(touch) => self.read(call, &read_partition(touch, schema)).await,
                None => self.forward(&call.target(), &call.body).await,
            },
            _ => {
                let hot = touches(&call.operation, &call.body)
                    .iter()
                    .find_map(|touch| self.throttle.write(touch, schema, 1.0, Instant::now()).err());
                match hot {
                    Some(hot) => Ok(self.throttled(hot, "throttled write")),
                    None => self.forward(&call.target(), &call.body).await,
                }
            }
        }
    }

    fn throttled(&self, hot: Hot, kind: &'static str) -> Answer {
        self.count(kind);
        let refusal = match hot {
            Hot::Partition => Refusal::invalid(
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded.",
            ),
            Hot::Table => {
                self.count("throttled by the table");
                Refusal::invalid(
                    "ThrottlingException",
                    "Throughput exceeds the current capacity of your table or index.",
                )
            }
        };
        Answer::refused(&refusal, Service::DynamoDb)
    }

    /// A read of one partition. Its units are known only from its answer.
    async fn read(&self, call: &Call, partition: &Partition) -> Result<Answer> {
        if let Err(hot) = self.throttle.may_read(partition, Instant::now()) {
            return Ok(self.throttled(hot, "throttled read"));
        }
        let answer = self.forward(&call.target(), &call.body).await?;
        let consistent = call.body.get("ConsistentRead") == Some(&Value::Bool(true));
        let bytes = answered_bytes(&answer.json()).iter().sum();
        self.throttle.charge_read(partition, read_units(bytes, consistent), Instant::now());
        Ok(answer)
    }

    /// All or nothing: one hot partition cancels the transaction.
    async fn transact(&self, call: &Call, schema: &Schema) -> Result<Answer> {
        let touched = touches(&call.operation, &call.body);
        let factor = 2.0;
        let refused: Vec<Option<Hot>> = touched
            .iter()
            .map(|touch| self.throttle.write(touch, schema, factor, Instant::now()).err())
            .collect();
        if refused.iter().all(Option::is_none) {
            return self.forward(&call.target(), &call.body).await;
        }
        self.count("throttled transaction");
        let code = |hot: &Option<Hot>| match hot {
            None => "None",
            Some(Hot::Partition) => "ProvisionedThroughputExceeded",
            Some(Hot::Table) => "ThrottlingError",
        };
        let refusal = Refusal::cancelled(refused.iter().map(code).collect());
        Ok(Answer::refused(&refusal, Service::DynamoDb))
    }

    /// What a hot partition does not take is returned as unprocessed.
    async fn write_batch(&self, call: &Call, schema: &Schema) -> Result<Answer> {
        let (mut taken, mut left) = (Map::new(), Map::new());
        let mut first_hot = None;
        for (table, requests) in object(&call.body, "RequestItems").into_iter().flatten() {
            let (mut passed, mut hot) = (Vec::new(), Vec::new());
            for request in requests.as_array().into_iter().flatten() {
                let result = batch_write(request)
                    .map_or(Ok(()), |touch| self.throttle.write(&touch, schema, 1.0, Instant::now()));
                match result {
                    Ok(()) => passed.push(request.clone()),
                    Err(found) => {
                        first_hot = Some(found);
                        hot.push(request.clone());
                    }
                }
            }
            insert_unless_empty(&mut taken, table, passed);
            insert_unless_empty(&mut left, table, hot);
        }
        self.forward_part(call, taken, left, first_hot, ("UnprocessedItems", "unprocessed writes in a batch"))
            .await
    }

    async fn read_batch(&self, call: &Call, schema: &Schema) -> Result<Answer> {
        let (mut taken, mut left) = (Map::new(), Map::new());
        let mut first_hot = None;
        let mut partitions = Vec::new();
        for (table, request) in object(&call.body, "RequestItems").into_iter().flatten() {
            let (mut passed, mut hot) = (Vec::new(), Vec::new());
            for key in request["Keys"].as_array().into_iter().flatten() {
                let (Some(item), Some(fields)) = (key.as_object(), request.as_object()) else { continue };
                let partition = read_partition(&Touch { kind: Kind::Get, fields, item }, schema);
                match self.throttle.may_read(&partition, Instant::now()) {
                    Ok(()) => {
                        passed.push(key.clone());
                        partitions.push(partition);
                    }
                    Err(found) => {
                        first_hot = Some(found);
                        hot.push(key.clone());
                    }
                }
            }
            for (keys, to) in [(passed, &mut taken), (hot, &mut left)] {
                if !keys.is_empty() {
                    let mut part = request.clone();
                    part["Keys"] = Value::Array(keys);
                    to.insert(table.clone(), part);
                }
            }
        }
        let names = ("UnprocessedKeys", "unprocessed reads in a batch");
        let answer = self.forward_part(call, taken, left, first_hot, names).await?;
        // Each item is rounded up alone; which is whose does not matter for keys that are all read at once.
        let sizes = answered_bytes(&answer.json());
        for (place, partition) in partitions.iter().enumerate() {
            let bytes = sizes.get(place).copied().unwrap_or_default();
            self.throttle.charge_read(partition, read_units(bytes, false), Instant::now());
        }
        Ok(answer)
    }

    /// Forwards what was taken and adds what was left to the answer. If nothing was taken, the request fails.
    async fn forward_part(
        &self,
        call: &Call,
        taken: Map<String, Value>,
        left: Map<String, Value>,
        hot: Option<Hot>,
        (field, kind): (&str, &'static str),
    ) -> Result<Answer> {
        let Some(hot) = hot else { return self.forward(&call.target(), &call.body).await };
        if taken.is_empty() {
            return Ok(self.throttled(hot, kind));
        }
        self.count(kind);
        let mut body = call.body.clone();
        body.insert("RequestItems".to_owned(), Value::Object(taken));
        let answer = self.forward(&call.target(), &body).await?;
        if answer.status != 200 {
            return Ok(answer);
        }
        let mut answered = answer.json();
        if !answered[field].is_object() {
            answered[field] = json!({});
        }
        if let Some(unprocessed) = answered[field].as_object_mut() {
            unprocessed.extend(left);
        }
        Ok(Answer::ok(&answered))
    }
}

fn insert_unless_empty(to: &mut Map<String, Value>, table: &str, requests: Vec<Value>) {
    if !requests.is_empty() {
        to.insert(table.to_owned(), Value::Array(requests));
    }
}
