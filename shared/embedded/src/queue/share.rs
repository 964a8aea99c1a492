//! How many of a queue's slots, which are its messages in flight, a tenant may have.

/// This part of the slots is kept free for tenants that have less than their share, so that they need not wait for others'
/// attempts to end.
const KEPT_FREE: usize = 8;
/// Half of what is kept free is for tenants that have no slot at all, one for each.
const FOR_FIRST_SLOTS: usize = 2 * KEPT_FREE;
/// Of the other half, a tenant gets one part of what others leave, of so many. So however many take their part, something is left for the
/// next one, also if the attempts of all of them hang.
const PARTS: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) total: usize,
    pub(super) in_flight: usize,
}

impl Slots {
    /// Whether `wanted` more would take what is kept free, so that it matters who wants them.
    pub(super) fn are_scarce(self, wanted: usize) -> bool {
        self.unclaimed() < wanted
    }

    /// How many of the `wanted` slots a tenant may take that has `in_flight` of them, while so many `tenants` have messages in
    /// flight or want to, this one included. A tenant alone may have nearly all. Its share shrinks as others come: it gets no
    /// more until it has less than its share, or until more slots are free than are kept.
    pub(super) fn grant(self, wanted: usize, in_flight: usize, tenants: usize) -> usize {
        let share = (self.open_to_all() / tenants.max(1)).max(1);
        let free = self.total.saturating_sub(self.in_flight);
        let left = free.saturating_sub(self.total / FOR_FIRST_SLOTS);
        let part = (left + in_flight) / PARTS;
        let of_kept = part.min(share).saturating_sub(in_flight);
        let first = usize::from(in_flight == 0);
        of_kept.max(first).max(self.unclaimed()).min(free).min(wanted)
    }

    fn open_to_all(self) -> usize {
        self.total - self.total / KEPT_FREE
    }

    fn unclaimed(self) -> usize {
        self.open_to_all().saturating_sub(self.in_flight)
    }
}

/// The bytes of bodies that attempts in flight hold, of all tenants and of one.
#[derive(Clone, Copy)]
pub(super) struct HeldBytes {
    pub(super) total: u64,
    pub(super) of_tenant: u64,
}

impl HeldBytes {
    /// Whether the tenant may hold one more body. A tenant without any always may.
    pub(super) fn has_room(self, limit: u64) -> bool {
        self.of_tenant == 0 || (self.total < limit && self.of_tenant < limit / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of 80 slots, in which the tenant has `mine` and others have `others`.
    fn grant(mine: usize, others: usize, tenants: usize) -> usize {
        Slots { total: 80, in_flight: mine + others }.grant(100, mine, tenants)
    }

    #[test]
    fn a_tenant_alone_leaves_some_slots_free() {
        assert_eq!(grant(0, 0, 1), 70);
        assert_eq!(grant(69, 0, 1), 1);
        assert_eq!(grant(70, 0, 1), 0);
    }

    #[test]
    fn another_tenant_starts_at_once_and_grows_to_its_share() {
        assert_eq!(grant(0, 70, 2), 1, "a part of what was kept free");
        assert_eq!(Slots { total: 800, in_flight: 700 }.grant(100, 0, 2), 12, "a quarter of half of it");
        assert_eq!(grant(79, 1, 2), 0, "nothing is free");
        assert_eq!(grant(60, 9, 2), 1, "free slots that no other wants are not wasted");
        assert_eq!(grant(9, 60, 2), 1, "and the one with less is not behind");
        assert_eq!(grant(35, 35, 2), 0, "both have their share");
        assert_eq!(grant(36, 30, 2), 4);
    }

    #[test]
    fn however_many_tenants_hang_the_next_one_gets_a_slot_at_once() {
        for (total, hanging) in [(1_024, 70), (256, 20), (80, 5)] {
            let mut in_flight = 0;
            for tenants in 1..=hanging {
                let (mut mine, slots) = (0, |in_flight| Slots { total, in_flight });
                // Each takes what it gets, turn by turn, and no attempt ends.
                while let granted @ 1.. = slots(in_flight).grant(32, mine, tenants) {
                    mine += granted;
                    in_flight += granted;
                }
                assert!(mine > 0, "tenant {tenants} of {total} slots has none");
            }
        }
    }

    #[test]
    fn a_tenant_holds_a_quarter_of_the_bytes_and_each_at_least_one_body() {
        let has_room = |total, of_tenant| HeldBytes { total, of_tenant }.has_room(100);
        assert!(has_room(0, 0) && has_room(24, 24) && has_room(99, 24));
        assert!(!has_room(25, 25), "its quarter");
        assert!(!has_room(100, 1), "all are held");
        assert!(has_room(200, 0), "but it has none");
    }

    #[test]
    fn no_more_is_granted_than_wanted() {
        let slots = Slots { total: 80, in_flight: 40 };
        assert_eq!(slots.grant(30, 20, 2), 30);
        assert_eq!(slots.grant(3, 0, 2), 3);
    }

    #[test]
    fn every_tenant_may_have_one_slot() {
        assert_eq!(grant(0, 79, 500), 1);
        assert_eq!(grant(1, 78, 500), 0);
        let tiny = Slots { total: 1, in_flight: 0 };
        assert_eq!(tiny.grant(1, 0, 500), 1);
    }
}
