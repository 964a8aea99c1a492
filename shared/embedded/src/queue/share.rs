//! How many of a queue's slots, which are its messages in flight, a tenant may have.

/// This part of the slots is for tenants that have none at all, one for each.
const FOR_FIRST_SLOTS: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) total: usize,
    pub(super) in_flight: usize,
}

impl Slots {
    /// How many of the `wanted` slots a tenant may take that has `in_flight` of them.
    ///
    /// A tenant may have as many as it leaves free: of what others have not taken, the half. So tenants that want more than there is have
    /// the same number, and as many are free for the next one, which need not wait for attempts of others to end, also if all of them hang.
    pub(super) fn grant(self, wanted: usize, in_flight: usize) -> usize {
        let others = self.in_flight.saturating_sub(in_flight);
        let free = self.total.saturating_sub(self.in_flight);
        let shared = self.total - self.total / FOR_FIRST_SLOTS;
        let half = shared.saturating_sub(others).div_ceil(2);
        let first = usize::from(in_flight == 0);
        half.saturating_sub(in_flight).max(first).min(free).min(wanted)
    }
}

/// The bytes of bodies that attempts in flight hold, of all tenants and of one.
#[derive(Clone, Copy)]
pub(super) struct HeldBytes {
    pub(super) total: u64,
    pub(super) of_tenant: u64,
}

impl HeldBytes {
    /// Whether the tenant may hold one more body: one that has none always may, and of what others leave of the limit each has a quarter,
    /// or a little of its own.
    pub(super) fn has_room(self, limit: u64) -> bool {
        let others = self.total.saturating_sub(self.of_tenant);
        let part = (limit.saturating_sub(others) / 4).max(limit / 64);
        self.of_tenant == 0 || self.of_tenant < part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of 96 slots, of which 6 are for first ones, in which the tenant has `mine` and others have `others`.
    fn grant(mine: usize, others: usize) -> usize {
        Slots { total: 96, in_flight: mine + others }.grant(100, mine)
    }

    #[test]
    fn a_tenant_alone_leaves_half_of_the_slots_free() {
        assert_eq!(grant(0, 0), 45);
        assert_eq!(grant(44, 0), 1);
        assert_eq!(grant(45, 0), 0);
    }

    #[test]
    fn another_tenant_has_half_of_them_at_once_and_then_both_have_the_same() {
        assert_eq!(grant(0, 45), 23);
        assert_eq!(grant(45, 23), 0, "more than its half by now");
        assert_eq!(grant(30, 30), 0, "both have a third, and the last third is free for the next");
        assert_eq!(grant(29, 30), 1);
        assert_eq!(grant(0, 60), 15);
    }

    #[test]
    fn tenants_that_always_want_more_end_up_with_the_same_number() {
        for tenants in [2, 3, 7] {
            let mut mine = vec![0; tenants];
            for round in 0..2_000 {
                let tenant = round % tenants;
                // Attempts end all the time.
                mine.iter_mut().for_each(|mine: &mut usize| *mine = mine.saturating_sub(1));
                let slots = Slots { total: 1_024, in_flight: mine.iter().sum() };
                mine[tenant] += slots.grant(1_000, mine[tenant]);
            }
            let (least, most) = (mine.iter().min(), mine.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= tenants + 1), "{mine:?}");
            assert!(mine.iter().sum::<usize>() >= 960 * tenants / (tenants + 1) - 2 * tenants, "{mine:?}");
        }
    }

    #[test]
    fn however_many_tenants_hang_the_next_one_gets_a_slot_at_once() {
        for (total, hanging) in [(1_024, 70), (256, 20), (80, 5)] {
            let mut in_flight = 0;
            for tenants in 1..=hanging {
                let (mut mine, slots) = (0, |in_flight| Slots { total, in_flight });
                // Each takes what it gets, turn by turn, and no attempt ends.
                while let granted @ 1.. = slots(in_flight).grant(32, mine) {
                    mine += granted;
                    in_flight += granted;
                }
                assert!(mine > 0, "tenant {tenants} of {total} slots has none");
            }
        }
    }

    #[test]
    fn a_few_tenants_that_hang_leave_the_next_one_many_slots() {
        let mut in_flight = 0;
        for left in [480, 240, 120, 60] {
            let granted = Slots { total: 1_024, in_flight }.grant(2_000, 0);
            assert_eq!(granted, left);
            in_flight += granted;
        }
    }

    #[test]
    fn a_tenant_holds_a_quarter_of_the_bytes_that_others_leave_and_always_a_few() {
        let has_room = |others, of_tenant| HeldBytes { total: others + of_tenant, of_tenant }.has_room(6_400);
        assert!(has_room(0, 0) && has_room(0, 1_599) && !has_room(0, 1_600), "its quarter");
        assert!(has_room(3_200, 799) && !has_room(3_200, 800), "a quarter of the rest");
        for others in [6_000, 6_400, 9_000] {
            assert!(
                has_room(others, 0) && has_room(others, 99) && !has_room(others, 100),
                "a little of its own"
            );
        }
    }

    #[test]
    fn no_more_is_granted_than_wanted() {
        assert_eq!(Slots { total: 96, in_flight: 20 }.grant(3, 0), 3);
    }

    #[test]
    fn every_tenant_may_have_one_slot() {
        assert_eq!(grant(0, 95), 1);
        assert_eq!(grant(1, 94), 0);
        assert_eq!(Slots { total: 1, in_flight: 0 }.grant(1, 0), 1);
    }
}
