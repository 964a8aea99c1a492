//! The dead-letter queue, for whoever looks into it. SQS finds nothing by id: to see a message is to receive it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName};
use holdfast_core::ports::{QueueError, Receipt};
use holdfast_core::time::Timestamp;

use super::receive::{MAX_RECEIVED, delete, postpone, receive_count, system_attribute};
use super::trouble::why;

/// How long what is looked at stays invisible, should nobody give it back.
const INVISIBLE_SECS: i32 = 60;
/// A wait, however short, makes SQS ask all of its machines: without, it may overlook messages.
const WAIT_SECS: i32 = 1;

/// A message on the dead-letter queue, and all that is known about it.
#[derive(Clone)]
pub struct DeadLetter {
    pub id: String,
    pub text: String,
    /// When it was sent to the queue on which it died, or to this one if a function put it here.
    pub sent_at: Option<Timestamp>,
    pub receive_count: u32,
    /// The queue that it came from: `first` or `retry`, or its ARN if SQS itself gave up on the message.
    pub source: Option<String>,
    /// What the function said that put it here.
    pub why: Option<String>,
    pub group: Option<String>,
    pub receipt: Receipt,
}

pub struct DeadLetters {
    client: Client,
    url: String,
}

impl DeadLetters {
    #[must_use]
    pub fn new(client: Client, url: String) -> DeadLetters {
        DeadLetters { client, url }
    }

    /// Receives until nothing new comes, `limit` is reached or `enough` is true of a message. All that it answers is
    /// invisible for a minute: give it back or delete it.
    pub async fn receive(
        &self,
        limit: usize,
        mut enough: impl FnMut(&DeadLetter) -> bool,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        let mut found: Vec<DeadLetter> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while found.len() < limit {
            let some = match self.receive_some((limit - found.len()).min(MAX_RECEIVED)).await {
                Ok(some) => some,
                Err(error) => {
                    // The error matters more than whether they come back now or in a minute.
                    let _ = self.give_back(&found).await;
                    return Err(error);
                }
            };
            let before = found.len();
            let mut is_enough = false;
            for letter in some {
                is_enough |= enough(&letter);
                match places.get(&letter.id) {
                    // It came back while we were looking: only the newer receipt counts.
                    Some(place) => found[*place] = letter,
                    None => {
                        places.insert(letter.id.clone(), found.len());
                        found.push(letter);
                    }
                }
            }
            if is_enough || found.len() == before {
                break;
            }
        }
        Ok(found)
    }

    /// Makes messages visible again at once.
    pub async fn give_back(&self, letters: impl IntoIterator<Item = &DeadLetter>) -> Result<(), QueueError> {
        let waits = letters.into_iter().map(|letter| (letter.receipt.clone(), Duration::ZERO)).collect();
        postpone(&self.client, &self.url, waits).await
    }

    pub async fn delete(&self, letter: &DeadLetter) -> Result<(), QueueError> {
        delete(&self.client, &self.url, vec![letter.receipt.clone()]).await
    }

    /// Sends a text to any queue, as a new message.
    pub async fn send_to(&self, url: &str, text: &str, group: Option<&str>) -> Result<(), QueueError> {
        let request = self
            .client
            .send_message()
            .queue_url(url)
            .message_body(text)
            .set_message_group_id(group.map(str::to_owned));
        request.send().await.map_err(|error| QueueError(why(&error)))?;
        Ok(())
    }

    async fn receive_some(&self, max: usize) -> Result<Vec<DeadLetter>, QueueError> {
        let request = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(i32::MAX))
            .visibility_timeout(INVISIBLE_SECS)
            .wait_time_seconds(WAIT_SECS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        let answer = request.send().await.map_err(|error| QueueError(why(&error)))?;
        Ok(answer.messages.unwrap_or_default().into_iter().map(dead_letter).collect())
    }
}

fn dead_letter(message: SqsMessage) -> DeadLetter {
    let said = |name: &str| {
        let attribute = message.message_attributes.as_ref()?.get(name)?;
        attribute.string_value.clone()
    };
    let known = |name| system_attribute(&message, &name).map(str::to_owned);
    let sent_at = known(MessageSystemAttributeName::SentTimestamp).and_then(|ms| ms.parse().ok());
    DeadLetter {
        sent_at: sent_at.map(Timestamp::from_millis),
        receive_count: receive_count(&message),
        source: said("queue").or_else(|| known(MessageSystemAttributeName::DeadLetterQueueSourceArn)),
        why: said("why"),
        group: known(MessageSystemAttributeName::MessageGroupId),
        id: message.message_id.unwrap_or_default(),
        text: message.body.unwrap_or_default(),
        receipt: Receipt(message.receipt_handle.unwrap_or_default()),
    }
}
