//! What a change of its subscription means for a delivery.

use super::delivery::{DeliveryState, Reason};
use crate::ids::UrlId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassignment {
    /// The delivery is where it should be.
    Stay,
    /// It moves to the URL that its subscription has now, waiting or parked as before.
    Move,
    /// It is dead.
    End(Reason),
}

/// `wanted_at` is the URL that the delivery's subscription has now, or the reason why the subscription takes no deliveries.
#[must_use]
pub fn reassign(state: DeliveryState, url_id: &UrlId, wanted_at: Result<&UrlId, Reason>) -> Reassignment {
    if !state.is_live() {
        return Reassignment::Stay;
    }
    match wanted_at {
        Err(reason) => Reassignment::End(reason),
        Ok(wanted) if wanted == url_id => Reassignment::Stay,
        Ok(_) => Reassignment::Move,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_delivery_follows_its_subscription_and_a_finished_one_stays() {
        use DeliveryState::{Dead, Delivered, Parked, Waiting};
        let (old, new) = (UrlId::of("https://old.test/"), UrlId::of("https://new.test/"));
        let cases = [
            (Ok(&old), Reassignment::Stay),
            (Ok(&new), Reassignment::Move),
            (Err(Reason::Unsubscribed), Reassignment::End(Reason::Unsubscribed)),
            (Err(Reason::Inactive), Reassignment::End(Reason::Inactive)),
        ];
        for (wanted_at, expected) in cases {
            for state in [Waiting, Parked] {
                assert_eq!(reassign(state, &old, wanted_at), expected, "{state:?} {wanted_at:?}");
            }
            for state in [Delivered, Dead] {
                assert_eq!(reassign(state, &old, wanted_at), Reassignment::Stay, "{state:?} {wanted_at:?}");
            }
        }
    }
}
