//! The IAM actions and resources of a call.

use serde_json::Value;

use super::call::{Call, Service, list, object};
use super::touch::{Kind, table, touches};

/// Actions with the resource that they are about: a table, `TABLE/index/NAME`, the URL of a queue, the ARN of a secret. In a transaction
/// every item needs the action that it would need alone.
#[must_use]
pub fn actions(call: &Call) -> Vec<(String, String)> {
    let on =
        |service: &str, action: &str, resource: &str| (format!("{service}:{action}"), resource.to_owned());
    match call.service {
        Service::SecretsManager => vec![on("secretsmanager", &call.operation, call.text("SecretId"))],
        Service::Sqs => {
            let action = call.operation.trim_end_matches("Batch");
            vec![on("sqs", action, call.text("QueueUrl"))]
        }
        Service::DynamoDb => match call.operation.as_str() {
            "TransactWriteItems" | "TransactGetItems" => {
                let table = table(&call.operation, &call.body);
                let of_item = |kind| match kind {
                    Kind::Get => "GetItem",
                    Kind::Put => "PutItem",
                    Kind::Update => "UpdateItem",
                    Kind::Delete => "DeleteItem",
                    Kind::Check => "ConditionCheckItem",
                };
                let touched = touches(&call.operation, &call.body);
                touched.iter().map(|touch| on("dynamodb", of_item(touch.kind), &table)).collect()
            }
            "BatchGetItem" | "BatchWriteItem" => {
                let tables = object(&call.body, "RequestItems").into_iter().flat_map(|items| items.keys());
                tables.map(|table| on("dynamodb", &call.operation, table)).collect()
            }
            operation => {
                let table = call.text("TableName");
                let resource = match call.text("IndexName") {
                    "" => table.to_owned(),
                    index => format!("{table}/index/{index}"),
                };
                vec![on("dynamodb", operation, &resource)]
            }
        },
    }
}

/// The longest chain that the messages of a call belong to: a ticket says how many messages came before it. 0 if they do not say.
#[must_use]
pub fn links(call: &Call) -> u64 {
    let alone = call.body.get("MessageBody").and_then(Value::as_str);
    let batch = list(&call.body, "Entries").iter().filter_map(|entry| entry["MessageBody"].as_str());
    batch.chain(alone).map(links_of).max().unwrap_or_default()
}

fn links_of(text: &str) -> u64 {
    let Ok(bytes) = holdfast_aws::queue::from_text(text) else { return 0 };
    // The body of an event follows in the next line, and is not ours to read.
    let head = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<Value>(head).map_or(0, |head| find_links(&head))
}

fn find_links(value: &Value) -> u64 {
    let Some(fields) = value.as_object() else { return 0 };
    let own = fields.get("links").and_then(Value::as_u64);
    own.unwrap_or_else(|| fields.values().map(find_links).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(target: &str, body: &Value) -> Call {
        Call::read("/f/", target, body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn every_operation_has_its_actions() {
        let key = json!({ "pk": { "S": "a" }, "sk": { "S": "b" } });
        let table = [
            (
                "DynamoDB_20120810.Query",
                json!({ "TableName": "t", "IndexName": "i" }),
                "dynamodb:Query t/index/i",
            ),
            ("DynamoDB_20120810.GetItem", json!({ "TableName": "t" }), "dynamodb:GetItem t"),
            (
                "DynamoDB_20120810.BatchGetItem",
                json!({ "RequestItems": { "t": {} } }),
                "dynamodb:BatchGetItem t",
            ),
            (
                "DynamoDB_20120810.TransactWriteItems",
                json!({ "TransactItems": [
                    { "Put": { "TableName": "t", "Item": key } },
                    { "ConditionCheck": { "TableName": "t", "Key": key } },
                ] }),
                "dynamodb:PutItem t, dynamodb:ConditionCheckItem t",
            ),
            ("AmazonSQS.SendMessageBatch", json!({ "QueueUrl": "q" }), "sqs:SendMessage q"),
            ("secretsmanager.GetSecretValue", json!({ "SecretId": "s" }), "secretsmanager:GetSecretValue s"),
        ];
        for (target, body, expected) in table {
            let found: Vec<String> = actions(&call(target, &body))
                .into_iter()
                .map(|(action, on)| format!("{action} {on}"))
                .collect();
            assert_eq!(found.join(", "), expected);
        }
    }

    #[test]
    fn the_links_of_a_ticket_are_found() {
        let send = |text: &str| links(&call("AmazonSQS.SendMessage", &json!({ "MessageBody": text })));
        assert_eq!(send(r#"{"v":1,"kind":"job","links":7}"#), 7);
        assert_eq!(send(r#"{"v":1,"ticket":{"links":3}}"#), 3);
        assert_eq!(send("{\"v\":1}\n{\"links\":5000}"), 0);
        let batch =
            json!({ "Entries": [{ "MessageBody": "{\"links\":2}" }, { "MessageBody": "{\"links\":9}" }] });
        assert_eq!(links(&call("AmazonSQS.SendMessageBatch", &batch)), 9);
    }
}
