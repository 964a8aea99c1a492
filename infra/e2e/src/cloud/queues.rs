//! Direct access to the queues.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    Message, MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry,
};
use holdfast_aws::connect::{Timeouts, to_emulator};

use crate::waiting::until;

const TIMEOUTS: Timeouts = Timeouts { attempt: Duration::from_secs(10), operation: Duration::from_secs(30) };
/// The most messages of one SQS request.
const MAX_BATCH: i32 = 10;
const DEAD_LETTERS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct QueueUrls {
    pub first: String,
    pub slow: String,
    pub retry: String,
    pub dead_letters: String,
}

pub struct Queues {
    pub urls: QueueUrls,
    client: Client,
}

/// A message on the dead-letter queue.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) receive_count: u32,
    receipt: String,
}

impl Queues {
    pub async fn new(endpoint: &str, urls: QueueUrls) -> Queues {
        Queues { urls, client: Client::new(&to_emulator(endpoint, TIMEOUTS).await) }
    }

    /// Returns the message's id.
    pub(super) async fn send(&self, url: &str, text: &str) -> Result<String> {
        let sent = self.client.send_message().queue_url(url).message_body(text).send().await?;
        sent.message_id.context("a message without an id")
    }

    /// Sends as many copies as one request takes.
    pub(super) async fn send_copies(&self, url: &str, text: &str) -> Result<()> {
        let mut request = self.client.send_message_batch().queue_url(url);
        for number in 0..MAX_BATCH {
            let entry = SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(text);
            request = request.entries(entry.build()?);
        }
        request.send().await?;
        Ok(())
    }

    /// How many messages a queue has: visible, in flight and delayed.
    pub(super) async fn count(&self, url: &str) -> Result<usize> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.client.get_queue_attributes().queue_url(url);
        let answer = request.set_attribute_names(Some(names.to_vec())).send().await?;
        let found = answer.attributes.unwrap_or_default();
        names.iter().map(|name| Ok(found.get(name).context("no count")?.parse::<usize>()?)).sum()
    }

    /// The dead letter with this text, once there is one. It stays visible.
    pub(super) async fn dead_letter(&self, text: &str, within: Duration) -> Result<DeadLetter> {
        until(&format!("there is a dead letter {text:?}"), within, async || {
            Ok(self.look(&self.urls.dead_letters).await?.into_iter().find(|m| m.body() == Some(text)))
        })
        .await
        .and_then(DeadLetter::of)
    }

    /// The ids of the dead letters and why they died, as the function that moved them says. At most as many as one request returns.
    pub(super) async fn dead_letters(&self) -> Result<BTreeMap<String, String>> {
        let url = &self.urls.dead_letters;
        let mut found = BTreeMap::new();
        until("all dead letters are seen", DEAD_LETTERS_WITHIN, async || {
            let count = self.count(url).await?.min(MAX_BATCH as usize);
            for message in self.look(url).await? {
                let why = message.message_attributes().and_then(|attributes| attributes.get("why"));
                let why = why.and_then(|why| why.string_value()).unwrap_or("received too often");
                found.insert(message.message_id().context("no id")?.to_owned(), why.to_owned());
            }
            Ok((found.len() >= count).then_some(()))
        })
        .await?;
        Ok(found)
    }

    pub(super) async fn delete_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        let request = self.client.delete_message().queue_url(&self.urls.dead_letters);
        request.receipt_handle(&letter.receipt).send().await?;
        Ok(())
    }

    async fn look(&self, url: &str) -> Result<Vec<Message>> {
        let request = self.client.receive_message().queue_url(url).max_number_of_messages(MAX_BATCH);
        let request = request
            .visibility_timeout(0)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        Ok(request.send().await?.messages.unwrap_or_default())
    }
}

impl DeadLetter {
    fn of(message: Message) -> Result<DeadLetter> {
        let count = MessageSystemAttributeName::ApproximateReceiveCount;
        let received = message.attributes.as_ref().and_then(|found| found.get(&count));
        Ok(DeadLetter {
            receive_count: received.context("no receive count")?.parse()?,
            receipt: message.receipt_handle.context("a dead letter without a receipt")?,
        })
    }
}
