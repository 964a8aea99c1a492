//! Into the queues.

use async_trait::async_trait;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use holdfast_core::ports::{Delay, Outgoing, Queue, QueueError, QueueName, SendError};

use super::batch::{Verdict, id, pack, send_all, verdicts};
use super::text::{is_allowed, to_text};
use super::trouble::why;
use super::{SqsQueue, name_of};

/// The rest of a long reason helps nobody, and counts towards the size of the message.
const WHY_CHARS: usize = 1_000;

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
        // There are no message attributes: the bodies are all that counts.
        let batches = pack(entries, |entry| entry.text.len());
        let left = send_all(batches, |entries| self.send_batch(queue, entries)).await;
        if left.entries.is_empty() {
            return Ok(());
        }
        let unsent = left.entries.into_iter().map(|entry| entry.outgoing).collect();
        Err(SendError::Partly { unsent, why: left.why })
    }
}

impl SqsQueue {
    fn send_batch(
        &self,
        queue: QueueName,
        entries: &[Entry],
    ) -> impl Future<Output = Result<Vec<Verdict>, String>> + Send + use<> {
        let count = entries.len();
        let entries = entries.iter().enumerate().map(|(place, entry)| {
            SendMessageBatchRequestEntry::builder()
                .id(id(place))
                .message_body(&entry.text)
                .message_group_id(entry.outgoing.message.group())
                .delay_seconds(self.real_secs(entry.outgoing.delay))
                .build()
                .expect("an entry with id and body")
        });
        let request =
            self.client.send_message_batch().queue_url(self.url(queue)).set_entries(Some(entries.collect()));
        async move {
            let answer = request.send().await.map_err(|error| why(&error))?;
            let taken = answer.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(count, taken, &answer.failed, |_| false))
        }
    }

    /// Sends a text that came out of a queue once more, unchanged and as a new message, which SQS has received zero times:
    /// for messages that only a newer Holdfast can read. `group` is the group that the message came with.
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
        request.send().await.map_err(|error| QueueError(why(&error)))?;
        Ok(())
    }

    /// Puts a text that came out of `source` onto the dead-letter queue, unchanged. Whoever calls this then deletes it from
    /// where it was.
    pub async fn dead_letter(&self, text: &str, because: &str, source: QueueName) -> Result<(), QueueError> {
        let request = self
            .client
            .send_message()
            .queue_url(&self.urls.dead_letters)
            .message_body(text)
            .message_attributes("why", attribute(because))
            .message_attributes("queue", attribute(name_of(source)));
        request.send().await.map_err(|error| QueueError(why(&error)))?;
        Ok(())
    }

    /// Delays are given on the schedule's clock, and SQS counts real seconds. Rounds up: never earlier than asked.
    fn real_secs(&self, delay: Delay) -> i32 {
        let secs = u32::from(delay.as_secs()).div_ceil(self.time_scale);
        assert!(secs <= u32::from(Delay::MAX_SECS), "SQS holds no message for {secs} s");
        secs.cast_signed()
    }
}

/// SQS takes neither an empty value nor every character.
fn attribute(value: &str) -> MessageAttributeValue {
    let mut value: String = value
        .chars()
        .take(WHY_CHARS)
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
