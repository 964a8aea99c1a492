//! Calls to SQS: some messages arrive twice, some late, and some entries of a batch fail.

use anyhow::Result;
use serde_json::{Value, json};

use super::call::{Call, Fields, list};
use super::proxy::{Answer, Proxy};

const MAX_DELAY_SECS: u64 = 900;

impl Proxy {
    pub(super) async fn send_to_queue(&self, call: &Call) -> Result<Answer> {
        match call.operation.as_str() {
            "SendMessage" => self.send_one(call).await,
            "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
                self.send_batch(call).await
            }
            _ => self.forward(&call.target(), &call.body).await,
        }
    }

    async fn send_one(&self, call: &Call) -> Result<Answer> {
        let mut body = call.body.clone();
        self.delay(&mut body);
        if self.dice.hits(self.shares.duplicated) {
            self.count("message sent twice");
            self.forward(&call.target(), &body).await?;
        }
        self.forward(&call.target(), &body).await
    }

    async fn send_batch(&self, call: &Call) -> Result<Answer> {
        let (mut entries, mut failed) = (Vec::new(), Vec::new());
        for entry in list(&call.body, "Entries") {
            if self.dice.hits(self.shares.entries) {
                self.count("failed entry of a batch");
                failed.push(json!({ "Id": entry["Id"], "SenderFault": false, "Code": "InternalError", "Message": "on purpose" }));
                continue;
            }
            entries.push(entry.clone());
        }
        if call.operation == "SendMessageBatch" {
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                self.delay(entry);
            }
            for entry in &entries {
                if self.dice.hits(self.shares.duplicated) {
                    self.count("message sent twice");
                    self.forward("AmazonSQS.SendMessage", &alone(&call.body, entry)).await?;
                }
            }
        }
        let mut answered = json!({ "Successful": [], "Failed": [] });
        if !entries.is_empty() {
            let mut body = call.body.clone();
            body.insert("Entries".to_owned(), Value::Array(entries));
            let answer = self.forward(&call.target(), &body).await?;
            if answer.status != 200 || failed.is_empty() {
                return Ok(answer);
            }
            answered = answer.json();
        }
        let mut all_failed = answered["Failed"].as_array().cloned().unwrap_or_default();
        all_failed.extend(failed);
        answered["Failed"] = Value::Array(all_failed);
        Ok(Answer::ok(&answered))
    }

    /// Makes a share of the messages visible later.
    fn delay(&self, message: &mut Fields) {
        if !self.dice.hits(self.shares.delayed) {
            return;
        }
        self.count("message delayed");
        let asked = message.get("DelaySeconds").and_then(Value::as_u64).unwrap_or_default();
        let delay = (asked + self.dice.delay_secs()).min(MAX_DELAY_SECS);
        message.insert("DelaySeconds".to_owned(), json!(delay));
    }
}

/// An entry of a batch as a request of its own.
fn alone(batch: &Fields, entry: &Value) -> Fields {
    let mut body = entry.as_object().cloned().unwrap_or_default();
    body.remove("Id");
    body.insert("QueueUrl".to_owned(), batch.get("QueueUrl").cloned().unwrap_or_default());
    body
}
