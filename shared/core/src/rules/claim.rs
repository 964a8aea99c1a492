//! What a ticket means for the record that it points at.

use std::time::Duration;

use crate::records::{DeliveryRecord, DeliveryState};
use crate::time::Timestamp;

/// How often attempt n is taken before it is counted as a failure without being made.
const MOST_TAKES: u32 = 2;

/// What to do with a ticket for attempt `n` of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTicket {
    /// Nothing: the record has moved on and somebody else's hint is out.
    End,
    /// The record has moved on, and whoever moved it may have died before sending its ticket.
    ResendCurrent,
    /// Too early: wait for the due time.
    WaitUntilDue,
    /// Somebody is making this attempt: look again when the lease is over (real time).
    WaitForLease(Duration),
    /// The record is parked: see whether it still should be.
    LookAtUrl,
    /// Its time is over.
    Expire,
    /// Whatever killed two functions is not given a third one.
    CountAsInterrupted,
    /// Due and free.
    Claim,
}

#[must_use]
pub fn on_ticket(
    record: &DeliveryRecord,
    (epoch, n): (u32, u32),
    redelivered: bool,
    now: Timestamp,
    now_real: Timestamp,
) -> OnTicket {
    if !record.state.is_live() {
        return OnTicket::End;
    }
    if (epoch, n) != (record.epoch, record.next_attempt) {
        return match record.state {
            _ if !redelivered => OnTicket::End,
            DeliveryState::Parked => OnTicket::LookAtUrl,
            _ => OnTicket::ResendCurrent,
        };
    }
    // An attempt that is under way is waited for, even past the end: it may succeed.
    if let Some(lease) = record.lease.filter(|lease| lease.until_real > now_real) {
        return OnTicket::WaitForLease(lease.until_real.since(now_real));
    }
    if record.is_expired(now) {
        return OnTicket::Expire;
    }
    if record.state == DeliveryState::Parked {
        return OnTicket::LookAtUrl;
    }
    if record.due_at > now {
        return OnTicket::WaitUntilDue;
    }
    match record.lease {
        Some(lease) if lease.takes >= MOST_TAKES => OnTicket::CountAsInterrupted,
        _ => OnTicket::Claim,
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
