//! A batch of messages and what became of each.

use super::super::{Result, Unavailable};
use super::paced_log::PacedLog;
use crate::ports::{Delay, Received, Settlement, UnreadableMessage, chain};
use crate::records::Unreadable;
use crate::rules::backoff::{RESEND_AFTER, Trouble, redelivery_delay};
use crate::time::Timestamp;

/// The place of a message in its batch. There is one for each message, so that no message is answered for twice.
#[derive(Debug)]
pub(crate) struct Slot(usize);

/// What handlers answer: each message that they finished or could not handle.
pub(crate) type Handled = Vec<(Slot, Result<()>)>;

/// Collects what becomes of each message. A message that no handler answers for is given back, never deleted.
pub(crate) struct Batch {
    places: Vec<Place>,
}

struct Place {
    receive_count: u32,
    result: Result<Settlement>,
}

impl Batch {
    /// The batch with nothing handled yet, and its messages with their slots.
    pub(super) fn new(received: Vec<Received>) -> (Batch, Vec<(Slot, Received)>) {
        let places = received
            .iter()
            .map(|one| Place { receive_count: one.receive_count, result: Err(Unavailable::NotHandled) });
        let batch = Batch { places: places.collect() };
        let slots = received.into_iter().enumerate().map(|(index, one)| (Slot(index), one)).collect();
        (batch, slots)
    }

    pub(super) fn fill(&mut self, handled: Handled) {
        for (Slot(index), result) in handled {
            self.places[index].result = result.map(|()| Settlement::Delete);
        }
    }

    /// A message that this release cannot read: a newer one is for another release, anything else is for a person.
    pub(super) fn cannot_read(&mut self, Slot(index): Slot, message: UnreadableMessage) {
        let place = &mut self.places[index];
        place.result = Ok(match message.why {
            Unreadable::Newer(_) => {
                let delay = Delay::at_most(RESEND_AFTER);
                tracing::warn!(error = chain(&message), "message.newer");
                Settlement::Resend { message, delay }
            }
            Unreadable::Corrupt(_) => {
                tracing::error!(error = chain(&message), "message.unreadable");
                Settlement::DeadLetter(message)
            }
        });
    }

    /// One settlement for each message, in their order.
    pub(super) fn settlements(self, log: &GivenBackLog, now_real: Timestamp) -> Vec<Settlement> {
        self.places.into_iter().map(|place| place.settlement(log, now_real)).collect()
    }
}

impl Place {
    fn settlement(self, log: &GivenBackLog, now_real: Timestamp) -> Settlement {
        let receive_count = self.receive_count;
        self.result.unwrap_or_else(|error| {
            let wait = redelivery_delay(error.trouble(), receive_count);
            let wait_ms = wait.as_millis() as u64;
            if let Some(others) = log.due(error.trouble(), now_real) {
                tracing::warn!(error = chain(&error), receive_count, wait_ms, others, "message.given_back");
            }
            Settlement::RetryAfter(wait)
        })
    }
}

/// A line a second for each kind of trouble, so that one kind does not hide another.
#[derive(Default)]
pub(crate) struct GivenBackLog([PacedLog; Trouble::ALL.len()]);

impl GivenBackLog {
    /// How many messages had no line since the last one, if a line is due now.
    fn due(&self, trouble: Trouble, now_real: Timestamp) -> Option<u64> {
        self.0[trouble as usize].due(now_real)
    }
}

/// The same error for every message.
pub(super) fn all_failed<T>(messages: Vec<(Slot, T)>, error: &Unavailable) -> Handled {
    messages.into_iter().map(|(slot, _)| (slot, Err(error.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::ids::JobId;
    use crate::ports::Receipt;
    use crate::records::Message;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[test]
    fn messages_that_are_given_back_have_a_line_a_second_for_each_kind_of_trouble() {
        let log = GivenBackLog::default();
        for trouble in Trouble::ALL {
            let lines = [0, 1, 999, 1_000].map(|ms| log.due(trouble, NOW + Duration::from_millis(ms)));
            assert_eq!(lines, [Some(0), None, None, Some(2)], "{trouble:?}");
        }
    }

    fn received(count: usize) -> Vec<Received> {
        let message =
            Message::Job { tenant: "default".into(), id: JobId::new([1; 16]), step: None, links: 0 };
        let one = Received {
            message: Ok(message),
            receipt: Receipt(String::new()),
            receive_count: 1,
            body_is_stored: false,
        };
        vec![one; count]
    }

    #[test]
    fn a_message_that_no_handler_answered_for_is_given_back() {
        let (mut batch, mut slots) = Batch::new(received(3));
        let (last, _) = slots.pop().unwrap();
        let (_forgotten, _) = slots.pop().unwrap();
        let (first, _) = slots.pop().unwrap();
        batch.fill(vec![(first, Ok(())), (last, Err(Unavailable::OutOfTime))]);
        let second = Duration::from_secs(1);
        let expected = [Settlement::Delete, Settlement::RetryAfter(second), Settlement::RetryAfter(second)];
        assert_eq!(batch.settlements(&GivenBackLog::default(), NOW), expected);
    }

    #[test]
    fn messages_that_failed_together_wait_as_long_as_their_error_says() {
        let (mut batch, slots) = Batch::new(received(2));
        let error = Unavailable::EventsNotStored(1);
        let wait = redelivery_delay(error.trouble(), 1);
        assert_ne!(wait, redelivery_delay(Unavailable::NotHandled.trouble(), 1));
        batch.fill(all_failed(slots, &error));
        let expected = [Settlement::RetryAfter(wait), Settlement::RetryAfter(wait)];
        assert_eq!(batch.settlements(&GivenBackLog::default(), NOW), expected);
    }

    #[test]
    fn an_unreadable_message_is_sent_again_or_set_aside() {
        let (mut batch, slots) = Batch::new(received(2));
        let unreadable = |why| UnreadableMessage { why, payload: Bytes::from_static(b"x"), group: None };
        let (newer, corrupt) =
            (unreadable(Unreadable::Newer(9)), unreadable(Unreadable::Corrupt("no JSON".to_owned())));
        let messages = [newer.clone(), corrupt.clone()];
        for ((slot, _), message) in slots.into_iter().zip(messages) {
            batch.cannot_read(slot, message);
        }
        let delay = Delay::new(RESEND_AFTER).unwrap();
        let expected = [Settlement::Resend { message: newer, delay }, Settlement::DeadLetter(corrupt)];
        assert_eq!(batch.settlements(&GivenBackLog::default(), NOW), expected);
    }
}
