use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Things in line: the tenants take turns, and what each of them has in line is in order.
pub(crate) struct Turns<T> {
    order: VecDeque<Arc<str>>,
    in_line: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { order: VecDeque::new(), in_line: HashMap::new() }
    }
}

impl<T> Turns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many tenants are in line.
    pub(crate) fn tenants(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn has(&self, tenant: &str) -> bool {
        self.in_line.contains_key(tenant)
    }

    pub(crate) fn push(&mut self, tenant: &Arc<str>, one: T) {
        match self.in_line.get_mut(tenant) {
            Some(line) => line.push_back(one),
            None => {
                self.order.push_back(Arc::clone(tenant));
                self.in_line.insert(Arc::clone(tenant), VecDeque::from([one]));
            }
        }
    }

    /// The next one of the first tenant in line that `may` have a turn. The tenant goes to the end of the line.
    pub(crate) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<T> {
        let at = self.order.iter().position(|tenant| may(tenant))?;
        let tenant = self.order.remove(at)?;
        let line = self.in_line.get_mut(&tenant)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.in_line.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        next
    }

    pub(crate) fn any(&self, may: impl Fn(&str) -> bool) -> bool {
        self.order.iter().any(|tenant| may(tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(in_line: &[(&str, i64)]) -> Turns<i64> {
        let mut turns = Turns::default();
        for (tenant, one) in in_line {
            turns.push(&Arc::from(*tenant), *one);
        }
        turns
    }

    fn drain(mut turns: Turns<i64>, may: impl Fn(&str) -> bool) -> Vec<i64> {
        std::iter::from_fn(|| turns.next(&may)).collect()
    }

    #[test]
    fn tenants_take_turns_and_each_is_served_in_order() {
        let in_line = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)];
        assert_eq!(drain(turns(&in_line), |_| true), [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn a_tenant_that_may_not_have_a_turn_keeps_its_place() {
        let mut turns = turns(&[("a", 1), ("b", 2), ("b", 3)]);
        assert_eq!(turns.next(|tenant| tenant != "a"), Some(2));
        assert!(!turns.any(|tenant| tenant == "c"));
        assert_eq!(drain(turns, |_| true), [1, 3]);
    }
}
