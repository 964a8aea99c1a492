//! When the sweep looks at a record if nothing happens to it before.

use std::time::Duration;

use super::delay::Delay;
use crate::time::Timestamp;

/// How long after the time for which it was sent a ticket counts as lost.
pub const TICKET_GRACE: Duration = Duration::from_secs(5 * 60);
/// The sweep sends the ticket of a delivery that rests in the store this long before the delivery is due.
const LOOK_AHEAD: Duration = Duration::from_secs(2 * 60);
/// How much earlier than usual a claimed delivery may be looked at.
const CLAIM_SLACK: Duration = Duration::from_secs(60);
/// The interval between looks at a URL with nothing due doubles up to 2^10 times the first one, which is about 3.5 days.
const MAX_DOUBLINGS: u32 = 10;

/// Whether a ticket that is sent now can wait in a queue until `due_at`.
#[must_use]
pub fn fits_in_queue(due_at: Timestamp, now: Timestamp) -> bool {
    due_at.since(now) <= Duration::from_secs(u64::from(Delay::MAX_SECS))
}

/// For a delivery that waits until `due_at`: after its ticket should have arrived if a queue can hold the ticket that long, or
/// shortly before the due time if the delivery rests in the store without a ticket.
#[must_use]
pub fn while_waiting(due_at: Timestamp, now: Timestamp) -> Timestamp {
    if fits_in_queue(due_at, now) { due_at.max(now) + TICKET_GRACE } else { due_at - LOOK_AHEAD }
}

/// For a record whose ticket was sent at `now` without a delay.
#[must_use]
pub fn while_ticket_is_out(now: Timestamp) -> Timestamp {
    now + TICKET_GRACE
}

/// For a delivery that is claimed at `now` and was to be looked at at `look_at`, which stays as it is if it is about right: to move an entry
/// of the sweep's index takes two writes.
#[must_use]
pub fn after_claim(look_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let wanted = while_ticket_is_out(now);
    look_at.filter(|look_at| (wanted - CLAIM_SLACK..=wanted).contains(look_at)).unwrap_or(wanted)
}

/// The next look after one that led to a ticket. However often that was in vain, it stays so soon: what is due must not wait long once
/// nothing fails any more.
#[must_use]
pub fn after_look(now: Timestamp) -> Timestamp {
    now + TICKET_GRACE
}

/// The next look at a URL where nothing is due, after `looks` others that found nothing due either. What comes due there calls for a
/// nearer look.
#[must_use]
pub fn after_idle_look(now: Timestamp, looks: u32) -> Timestamp {
    now + TICKET_GRACE * 2_u32.pow(looks.min(MAX_DOUBLINGS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[test]
    fn a_claim_leaves_a_look_that_is_about_right() {
        let after = |secs: u64| NOW + Duration::from_secs(secs);
        // Due now or a minute ago, long ago, or parked until it expires.
        for (look_in_secs, expected) in
            [(300, 300), (240, 240), (239, 300), (0, 300), (301, 300), (90_000, 300)]
        {
            assert_eq!(after_claim(Some(after(look_in_secs)), NOW), after(expected), "{look_in_secs}");
        }
        assert_eq!(after_claim(None, NOW), after(300));
    }

    #[test]
    fn a_waiting_delivery_is_looked_at_after_its_ticket_or_before_it_is_due() {
        for (due_in_secs, look_in_secs) in
            [(0, 300), (1, 301), (85, 385), (899, 1_199), (900, 1_200), (901, 781), (10_770, 10_650)]
        {
            let look_at = while_waiting(NOW + Duration::from_secs(due_in_secs), NOW);
            assert_eq!(look_at, NOW + Duration::from_secs(look_in_secs), "due in {due_in_secs} s");
        }
        assert_eq!(while_waiting(NOW - Duration::from_secs(60), NOW), NOW + Duration::from_secs(300));
        assert!(!fits_in_queue(NOW + Duration::from_millis(900_001), NOW));
    }

    #[test]
    fn looks_at_a_url_with_nothing_due_become_rarer() {
        let minutes: Vec<u64> = [0, 1, 2, 3, 10, 11, u32::MAX]
            .map(|looks| after_idle_look(NOW, looks).since(NOW).as_secs() / 60)
            .to_vec();
        assert_eq!(minutes, [5, 10, 20, 40, 5_120, 5_120, 5_120]);
        assert_eq!(while_ticket_is_out(NOW), after_look(NOW));
    }
}
