//! Into the queues.

use async_trait::async_trait;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use holdfast_core::ports::{Delay, Outgoing, Queue, QueueError, QueueName, SendError};

use super::batch::{Verdict, id, pack, send_all, verdicts};
use super::text::{is_allowed, to_text};
use super::{SqsQueue, group_of, name_of};
use crate::call_error::CallError;

/// The seconds by which a message was delayed, without which its age does not tell how late it is.
const DELAY_ATTRIBUTE: &str = "delay";
/// Its name, its type, and a value of up to three digits.
const DELAY_ATTRIBUTE_BYTES: usize = DELAY_ATTRIBUTE.len() + "Number".len() + 3;

/// Attributes count towards the size of the message.
const MAX_WHY_CHARS: usize = 1_000;

struct Entry {
    text: String,
    outgoing: Outgoing,
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        let entries: Vec<Entry> = messages
            .into_iter()
            .map(|outgoing| Entry { text: to_text(outgoing.message.encode()), outgoing })
            .collect();
        let batches = pack(entries, |entry| entry.text.len() + DELAY_ATTRIBUTE_BYTES);
        let left = send_all(batches, |entries| self.send_batch(queue, entries)).await;
        let Some((_, source)) = left.last() else { return Ok(()) };
        let source = source.clone();
        let unsent = left.into_iter().map(|(entry, _)| entry.outgoing).collect();
        Err(SendError { unsent, source })
    }
}

impl SqsQueue {
    fn send_batch(
        &self,
        queue: QueueName,
        entries: &[Entry],
    ) -> impl Future<Output = Result<Vec<Verdict>, QueueError>> + Send + use<> {
        let count = entries.len();
        let entries = entries.iter().enumerate().map(|(place, entry)| {
            let delay_secs = self.real_secs(entry.outgoing.delay);
            let built = SendMessageBatchRequestEntry::builder()
                .id(id(place))
                .message_body(&entry.text)
                .message_group_id(group_of(queue, &entry.outgoing.message))
                .delay_seconds(delay_secs);
            let built = match delay_secs {
                0 => built,
                secs => built.message_attributes(DELAY_ATTRIBUTE, number(secs)),
            };
            built.build().expect("an entry with id and body")
        });
        let request =
            self.client.send_message_batch().queue_url(self.url(queue)).set_entries(Some(entries.collect()));
        async move {
            const OPERATION: &str = "SendMessageBatch";
            let response = request.send().await.map_err(|error| CallError::new(OPERATION, &error))?;
            let taken = response.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(OPERATION, count, taken, &response.failed, |_| false))
        }
    }

    /// Sends the text of a received message unchanged, as a new message that SQS has received zero times. `group` is the group of the
    /// received message.
    pub async fn send_raw(
        &self,
        queue: QueueName,
        text: &str,
        group: Option<&str>,
        delay: Delay,
    ) -> Result<(), QueueError> {
        let request = self
            .client
            .send_message()
            .queue_url(self.url(queue))
            .message_body(text)
            .set_message_group_id(group.map(str::to_owned))
            .delay_seconds(self.real_secs(delay));
        request.send().await.map_err(|error| CallError::new("SendMessage", &error))?;
        Ok(())
    }

    /// Sends the text of a message of `source` to the dead-letter queue, unchanged. The caller deletes the message.
    pub async fn dead_letter(&self, text: &str, why: &str, source: QueueName) -> Result<(), QueueError> {
        let request = self
            .client
            .send_message()
            .queue_url(&self.urls.dead_letters)
            .message_body(text)
            .message_attributes("why", attribute(why))
            .message_attributes("queue", attribute(name_of(source)));
        request.send().await.map_err(|error| CallError::new("SendMessage", &error))?;
        Ok(())
    }

    /// Delays are on the schedule clock, and SQS counts real seconds. Rounds up: never earlier than asked.
    fn real_secs(&self, delay: Delay) -> i32 {
        let secs = u32::from(delay.as_secs()).div_ceil(self.time_scale);
        assert!(secs <= u32::from(Delay::MAX_SECS), "SQS delays no message by {secs} s");
        secs.cast_signed()
    }
}

fn number(value: i32) -> MessageAttributeValue {
    MessageAttributeValue::builder()
        .data_type("Number")
        .string_value(value.to_string())
        .build()
        .expect("an attribute with a type")
}

/// SQS rejects empty values and some characters.
fn attribute(value: &str) -> MessageAttributeValue {
    let mut value: String = value
        .chars()
        .take(MAX_WHY_CHARS)
        .map(|c| if is_allowed(c) { c } else { char::REPLACEMENT_CHARACTER })
        .collect();
    if value.is_empty() {
        value.push('-');
    }
    MessageAttributeValue::builder()
        .data_type("String")
        .string_value(value)
        .build()
        .expect("an attribute with a type")
}
