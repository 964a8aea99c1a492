//! What a ticket means for the delivery that it points at.

use std::time::Duration;

use super::delivery::{AttemptNumber, DeliveryState, MAX_TAKES, Progress};
use crate::time::Now;

/// What to do with a ticket for one attempt of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTicket {
    /// Nothing: the delivery has moved on, and the writer that moved it sent its own ticket.
    End,
    /// The delivery has moved on, and the writer that moved it may have died before it sent the ticket.
    ResendCurrent,
    /// Too early: wait for the due time.
    WaitUntilDue,
    /// Another function is making this attempt: look again when its lease is over (real time).
    WaitForLease(Duration),
    /// The delivery is parked: see whether its URL still requires that.
    RecheckUrl,
    /// Its 52 hours are over.
    Expire,
    /// What killed two functions is not given to a third one.
    CountAsInterrupted,
    /// Due, and not being attempted.
    Claim,
}

/// `redelivered`: the ticket was received before.
#[must_use]
pub fn on_ticket(delivery: &Progress, number: AttemptNumber, redelivered: bool, now: Now) -> OnTicket {
    if !delivery.state.is_live() {
        return OnTicket::End;
    }
    if number != delivery.number() {
        return match delivery.state {
            _ if !redelivered => OnTicket::End,
            DeliveryState::Parked => OnTicket::RecheckUrl,
            _ => OnTicket::ResendCurrent,
        };
    }
    // An attempt in flight is waited for even past the expiry: it may succeed.
    if let Some(lease) = delivery.lease.filter(|lease| lease.until_real > now.real) {
        return OnTicket::WaitForLease(lease.until_real.since(now.real));
    }
    if delivery.is_expired(now.schedule) {
        return OnTicket::Expire;
    }
    if delivery.state == DeliveryState::Parked {
        return OnTicket::RecheckUrl;
    }
    if delivery.due_at > now.schedule {
        return OnTicket::WaitUntilDue;
    }
    match delivery.lease {
        Some(lease) if lease.takes >= MAX_TAKES => OnTicket::CountAsInterrupted,
        _ => OnTicket::Claim,
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
