//! How many of a queue's slots, which are its messages in flight, a tenant may have.

/// This part of the slots is for tenants that have none at all, one for each.
const FOR_FIRST_SLOTS: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) total: usize,
    pub(super) in_flight: usize,
}

impl Slots {
    /// How many of the `wanted` slots a tenant may take that has `in_flight` of them. Those that are kept for tenants with none are not for
    /// one that `is_slow`.
    ///
    /// A tenant may have as many as it leaves free: of what others have not taken, the half. So tenants that want more than there is have
    /// the same number in the end. Until then, attempts of those that came first may hang, and each next one would have half as many as the one
    /// before it: so the more slots a tenant has, the fewer of all may be taken when it takes another.
    pub(super) fn grant(self, wanted: usize, in_flight: usize, is_slow: bool) -> usize {
        let others = self.in_flight.saturating_sub(in_flight);
        let free = self.total.saturating_sub(self.in_flight);
        let shared = self.total - self.total / FOR_FIRST_SLOTS;
        let half = shared.saturating_sub(others).div_ceil(2).saturating_sub(in_flight);
        let first = usize::from(in_flight == 0 && (!is_slow || self.in_flight < shared));
        half.min(self.not_kept(in_flight)).max(first).min(free).min(wanted)
    }

    /// How many a tenant that has `in_flight` may take of those that are not kept for tenants with fewer.
    fn not_kept(self, in_flight: usize) -> usize {
        let total = self.total;
        // Up to how many slots a tenant has, and how many may be taken in all.
        let levels = [
            (total / 256, total - total / FOR_FIRST_SLOTS),
            (total / 64, total - total / 8),
            (total / 16, total - total / 4),
            (usize::MAX, total / 2),
        ];
        let mut granted = 0;
        for (up_to, taken) in levels {
            let room = taken.saturating_sub(self.in_flight + granted);
            granted += up_to.saturating_sub(in_flight + granted).min(room);
        }
        granted
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
        Slots { total: 96, in_flight: mine + others }.grant(100, mine, false)
    }

    #[test]
    fn a_tenant_alone_leaves_half_of_the_slots_free() {
        assert_eq!(grant(0, 0), 45);
        assert_eq!(grant(44, 0), 1);
        assert_eq!(grant(45, 0), 0);
    }

    #[test]
    fn another_tenant_has_some_of_them_at_once_and_then_both_have_the_same() {
        assert_eq!(grant(0, 45), 6);
        assert_eq!(grant(45, 6), 0, "more than its half by now");
        assert_eq!(grant(24, 24), 0, "both have a quarter, and the rest is free for those that have fewer");
        assert_eq!(grant(23, 24), 1);
        assert_eq!(grant(0, 60), 6);
    }

    #[test]
    fn tenants_that_always_want_more_end_up_with_the_same_number() {
        for tenants in [2, 3, 7] {
            // The first one had all that a tenant may have when the others came.
            let mut mine = vec![0; tenants];
            mine[0] = 480;
            for round in 0..200 {
                // Some attempts of each end, and then the tenants take turns.
                mine.iter_mut().for_each(|mine: &mut usize| *mine -= mine.div_ceil(16));
                let mut granted = true;
                while std::mem::take(&mut granted) {
                    for tenant in (0..tenants).map(|n| (n + round) % tenants) {
                        let slots = Slots { total: 1_024, in_flight: mine.iter().sum() };
                        let more = slots.grant(1, mine[tenant], false);
                        mine[tenant] += more;
                        granted |= more > 0;
                    }
                }
            }
            let (least, most) = (mine.iter().min(), mine.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| *most <= least + least / 4), "{mine:?}");
            assert!(mine.iter().sum::<usize>() >= 512 - tenants, "{mine:?}");
        }
    }

    #[test]
    fn however_many_tenants_hang_the_next_one_gets_a_slot_at_once() {
        for (total, hanging) in [(1_024, 70), (256, 20), (80, 5)] {
            let mut in_flight = 0;
            for tenants in 1..=hanging {
                let (mut mine, slots) = (0, |in_flight| Slots { total, in_flight });
                // Each takes what it gets, turn by turn, and no attempt ends.
                while let granted @ 1.. = slots(in_flight).grant(32, mine, false) {
                    mine += granted;
                    in_flight += granted;
                }
                assert!(mine > 0, "tenant {tenants} of {total} slots has none");
            }
        }
    }

    /// Ten tenants with receivers that take 4.8 s had 480, 240, 120 … 1 of the slots, and an eleventh waited for seconds.
    #[test]
    fn tenants_that_hang_leave_the_next_one_more_than_the_last_of_them_could_take() {
        let mut in_flight = 0;
        let granted = |in_flight| Slots { total: 1_024, in_flight }.grant(2_000, 0, false);
        for left in [480, 64, 64, 64, 64, 32, 16, 16, 16, 16] {
            assert_eq!(granted(in_flight), left);
            in_flight += left;
        }
        for next in 11..=29 {
            assert!(granted(in_flight) >= 4, "tenant {next}");
            in_flight += granted(in_flight);
        }
    }

    /// More than a thousand tenants whose receivers hang took these slots too, and no other tenant had any attempt.
    #[test]
    fn slots_for_tenants_with_none_are_not_for_slow_ones() {
        let granted = |in_flight, mine, is_slow| Slots { total: 96, in_flight }.grant(100, mine, is_slow);
        assert_eq!((granted(89, 0, true), granted(89, 0, false)), (1, 1));
        for in_flight in 90..96 {
            assert_eq!((granted(in_flight, 0, true), granted(in_flight, 0, false)), (0, 1), "{in_flight}");
        }
        // Of a few slots none are kept.
        assert_eq!(Slots { total: 1, in_flight: 0 }.grant(1, 0, true), 1);
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
        assert_eq!(Slots { total: 96, in_flight: 20 }.grant(3, 0, false), 3);
    }

    #[test]
    fn every_tenant_may_have_one_slot() {
        assert_eq!(grant(0, 95), 1);
        assert_eq!(grant(1, 94), 0);
        assert_eq!(Slots { total: 1, in_flight: 0 }.grant(1, 0, false), 1);
    }
}
