//! The dead-letter queue, for the command line. SQS cannot look up a message by id: to see one is to receive it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName};
use holdfast_core::ports::{QueueError, Receipt};
use holdfast_core::time::Timestamp;

use super::receive::{MAX_RECEIVED, receive_count, system_attribute};
use super::settle::{Placed, change_visibility, delete};
use crate::call_error::CallError;

/// How long a received message stays invisible if it is not given back.
const INVISIBLE_SECS: i32 = 60;
/// Any wait makes SQS query all of its servers; without one it may miss messages.
const WAIT_SECS: i32 = 1;

/// A message on the dead-letter queue, and all that is known about it.
#[derive(Clone)]
pub struct DeadLetter {
    pub id: String,
    pub text: String,
    /// When it was sent to its first queue, or to this one if a function sent it here.
    pub sent_at: Option<Timestamp>,
    pub receive_count: u32,
    /// Where it came from: `first` or `retry`, or the queue's ARN if SQS itself moved the message.
    pub source: Option<String>,
    /// The reason given by the function that sent it here.
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

    /// Receives until no new message comes, `limit` is reached or `enough` is true of a message. The messages are invisible for a
    /// minute: give them back or delete them.
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
                    // It became visible again meanwhile: only the newer receipt is valid.
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

    pub async fn give_back(&self, letters: impl IntoIterator<Item = &DeadLetter>) -> Result<(), QueueError> {
        let waits = letters.into_iter().map(|letter| (placed(letter), Duration::ZERO)).collect();
        none_left(change_visibility(&self.client, &self.url, waits).await)
    }

    pub async fn delete(&self, letter: &DeadLetter) -> Result<(), QueueError> {
        none_left(delete(&self.client, &self.url, vec![placed(letter)]).await)
    }

    /// Sends a text to any queue, as a new message.
    pub async fn send_to(&self, url: &str, text: &str, group: Option<&str>) -> Result<(), QueueError> {
        let request = self
            .client
            .send_message()
            .queue_url(url)
            .message_body(text)
            .set_message_group_id(group.map(str::to_owned));
        request.send().await.map_err(|error| CallError::new("SendMessage", &error))?;
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
        let response = request.send().await.map_err(|error| CallError::new("ReceiveMessage", &error))?;
        Ok(response.messages.unwrap_or_default().into_iter().map(dead_letter).collect())
    }
}

fn placed(letter: &DeadLetter) -> Placed {
    Placed { place: 0, receipt: letter.receipt.clone() }
}

fn none_left<T>(left: Vec<(T, QueueError)>) -> Result<(), QueueError> {
    left.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

fn dead_letter(message: SqsMessage) -> DeadLetter {
    let attribute = |name: &str| {
        let value = message.message_attributes.as_ref()?.get(name)?;
        value.string_value.clone()
    };
    let system = |name| system_attribute(&message, &name).map(str::to_owned);
    let sent_at = system(MessageSystemAttributeName::SentTimestamp).and_then(|ms| ms.parse().ok());
    DeadLetter {
        sent_at: sent_at.map(Timestamp::from_millis),
        receive_count: receive_count(&message),
        source: attribute("queue").or_else(|| system(MessageSystemAttributeName::DeadLetterQueueSourceArn)),
        why: attribute("why"),
        group: system(MessageSystemAttributeName::MessageGroupId),
        id: message.message_id.unwrap_or_default(),
        text: message.body.unwrap_or_default(),
        receipt: Receipt(message.receipt_handle.unwrap_or_default()),
    }
}
