//! What travels through the queues. A ticket is only a hint, "look at this record now": the truth is in the records.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::version::{Format, Unreadable};
use crate::ids::{DeliveryKey, JobId, Tenant, UrlId};
use crate::rules::chain::next_link;
use crate::rules::delivery::AttemptNumber;
use crate::rules::trace::TraceContext;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// On the first-attempt queue: a delivery that has not been attempted yet.
    FirstAttempt(FirstAttempt),
    /// Look at this delivery: attempt `n` of `epoch` should be due.
    Delivery(DeliveryTicket),
    /// Look at this disabled URL: a probe should be due.
    Probe { tenant: Tenant, url_id: UrlId },
    /// Look at this enabled URL: this step of its release should be due.
    Release {
        tenant: Tenant,
        url_id: UrlId,
        step: u64,
        /// See [`DeliveryTicket::links`].
        #[serde(default, skip_serializing_if = "is_zero")]
        links: u32,
    },
    /// Post the events about the changes of this URL's state.
    Announce { tenant: Tenant, url_id: UrlId },
    /// Resume this job.
    Job {
        tenant: Tenant,
        id: JobId,
        /// Of a job that goes on in steps: the step that should be due, so that a copy of its ticket ends. `None`: whichever is next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
        /// See [`DeliveryTicket::links`].
        #[serde(default, skip_serializing_if = "is_zero")]
        links: u32,
    },
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstAttempt {
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    /// The body itself, or `None` when it is stored.
    #[serde(skip)]
    pub body: Option<Bytes>,
    /// This message may have been sent before: read the record first.
    pub again: bool,
    /// The trace that its event belongs to. `None`: the producer sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryTicket {
    pub key: DeliveryKey,
    pub url_id: UrlId,
    pub epoch: u32,
    pub n: u32,
    /// How many tickets came before it in its chain, in which the handling of each one sends the next, so that no chain goes on without end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub links: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(links: &u32) -> bool {
    *links == 0
}

impl DeliveryTicket {
    /// The attempt that should be due.
    #[must_use]
    pub fn number(&self) -> AttemptNumber {
        AttemptNumber { epoch: self.epoch, n: self.n }
    }
}

// By hand: a payload must not reach a log through `{:?}`.
impl std::fmt::Debug for FirstAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirstAttempt")
            .field("key", &self.key)
            .field("again", &self.again)
            .finish_non_exhaustive()
    }
}

impl Message {
    /// The group for fair queues: messages of one group cannot hold up those of another.
    #[must_use]
    pub fn group(&self) -> &str {
        match self {
            Message::FirstAttempt(first) => first.url_id.as_str(),
            Message::Delivery(ticket) => ticket.url_id.as_str(),
            Message::Probe { url_id, .. }
            | Message::Release { url_id, .. }
            | Message::Announce { url_id, .. } => url_id.as_str(),
            Message::Job { id, .. } => id.as_str(),
        }
    }

    /// The ticket as the next one of a chain, sent while the one at `links` is handled. `None`: the chain is long enough, and the sweep goes
    /// on with the work.
    #[must_use]
    pub fn linked_after(mut self, links: u32) -> Option<Message> {
        let next = next_link(links)?;
        match &mut self {
            Message::Delivery(DeliveryTicket { links, .. })
            | Message::Release { links, .. }
            | Message::Job { links, .. } => *links = next,
            Message::FirstAttempt(_) | Message::Probe { .. } | Message::Announce { .. } => {
                debug_assert!(false, "only tickets that can be sent on form chains");
            }
        }
        Some(self)
    }

    /// Whose message it is: the messages of one tenant cannot hold up those of another, however many groups it has.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        match self {
            Message::FirstAttempt(FirstAttempt { key, .. })
            | Message::Delivery(DeliveryTicket { key, .. }) => &key.tenant,
            Message::Probe { tenant, .. }
            | Message::Release { tenant, .. }
            | Message::Announce { tenant, .. }
            | Message::Job { tenant, .. } => tenant,
        }
    }

    /// The message without its body: for queues that store bodies apart.
    #[must_use]
    pub fn encode_without_body(&self) -> Vec<u8> {
        Format::CURRENT.encode(self)
    }

    /// One line of JSON, followed by the body byte for byte if there is one.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_without_body();
        if let Message::FirstAttempt(FirstAttempt { body: Some(body), .. }) = self {
            bytes.push(b'\n');
            bytes.extend_from_slice(body);
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Message, Unreadable> {
        let (head, body) = match bytes.iter().position(|b| *b == b'\n') {
            Some(end) => (&bytes[..end], Some(&bytes[end + 1..])),
            None => (bytes, None),
        };
        let mut message = Format::CURRENT.decode(head)?;
        if let Message::FirstAttempt(first) = &mut message {
            first.body = body.map(Bytes::copy_from_slice);
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{EventKey, SubscriptionId};

    fn first(body: Option<Vec<u8>>) -> Message {
        Message::FirstAttempt(FirstAttempt {
            key: DeliveryKey {
                tenant: "default".into(),
                event_key: EventKey::of("e", Timestamp::ZERO),
                subscription_id: SubscriptionId::new([1; 16]),
            },
            event_id: "line\nbreak".into(),
            event_type: "a.b".into(),
            accepted_at: Timestamp::ZERO,
            url_id: UrlId::of("http://x/"),
            body: body.map(Bytes::from),
            again: false,
            trace: None,
        })
    }

    proptest! {
        #[test]
        fn every_byte_of_a_body_survives(body in prop::option::of(prop::collection::vec(any::<u8>(), 0..200))) {
            let message = first(body);
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn a_newer_message_is_not_poison() {
        assert_eq!(Message::decode(br#"{"v":99,"kind":"unheard_of"}"#), Err(Unreadable::Newer(99)));
        assert!(matches!(Message::decode(b"{"), Err(Unreadable::Corrupt(_))));
        let Err(why) = Message::decode(br#"{"v":"a secret"}"#) else { panic!("decoded") };
        assert!(!why.to_string().contains("secret"), "{why}");
        assert!(matches!(Message::decode(br#"{"v":1,"kind":"unheard_of"}"#), Err(Unreadable::Corrupt(_))));
    }
}
