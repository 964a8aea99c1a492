use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::group::GroupId;

/// Groups in line: the tenants take turns, and the groups of each tenant do.
#[derive(Default)]
pub(super) struct Turns {
    order: VecDeque<Arc<str>>,
    groups: HashMap<Arc<str>, VecDeque<GroupId>>,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many tenants are in line.
    pub(super) fn tenants(&self) -> usize {
        self.order.len()
    }

    pub(super) fn has(&self, tenant: &str) -> bool {
        self.groups.contains_key(tenant)
    }

    pub(super) fn push(&mut self, tenant: &Arc<str>, group: GroupId) {
        match self.groups.get_mut(tenant) {
            Some(groups) => groups.push_back(group),
            None => {
                self.order.push_back(Arc::clone(tenant));
                self.groups.insert(Arc::clone(tenant), VecDeque::from([group]));
            }
        }
    }

    /// The next group of the first tenant in line that `may` have a turn. The tenant goes to the end of the line.
    pub(super) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<GroupId> {
        let at = self.order.iter().position(|tenant| may(tenant))?;
        let tenant = self.order.remove(at)?;
        let groups = self.groups.get_mut(&tenant)?;
        let group = groups.pop_front();
        if groups.is_empty() {
            self.groups.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        group
    }

    pub(super) fn any(&self, may: impl Fn(&str) -> bool) -> bool {
        self.order.iter().any(|tenant| may(tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(in_line: &[(&str, i64)]) -> Turns {
        let mut turns = Turns::default();
        for (tenant, group) in in_line {
            turns.push(&Arc::from(*tenant), GroupId(*group));
        }
        turns
    }

    fn drain(mut turns: Turns, may: impl Fn(&str) -> bool) -> Vec<i64> {
        std::iter::from_fn(|| turns.next(&may)).map(|group| group.0).collect()
    }

    #[test]
    fn tenants_take_turns_and_then_their_groups() {
        let in_line = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)];
        assert_eq!(drain(turns(&in_line), |_| true), [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn a_tenant_that_may_not_have_a_turn_keeps_its_place() {
        let mut turns = turns(&[("a", 1), ("b", 2), ("b", 3)]);
        assert_eq!(turns.next(|tenant| tenant != "a"), Some(GroupId(2)));
        assert!(!turns.any(|tenant| tenant == "c"));
        assert_eq!(drain(turns, |_| true), [1, 3]);
    }
}
