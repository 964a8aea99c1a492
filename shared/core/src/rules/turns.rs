//! Who is next when many tenants want the same thing: a thread, a slot, the disk.
//!
//! Each tenant has a clock that advances by the cost of what it gets, and the tenant that is done first by its clock is next. So tenants that
//! want more than there is get the same share, however small or large the pieces are in which they ask. A tenant that comes back after
//! others were served is set a little behind them, by at most [`HEAD_START`]: a small request goes before all backlogs, however many there
//! are. What a tenant had while others were in line counts, so that it gains nothing by asking often or by stopping in between.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// How much a tenant that had nothing in line gets before the others have their turns. In the unit of the costs.
pub const HEAD_START: u64 = 32;
/// So many tenants with nothing in line are remembered. Of more, those that had least are forgotten, which are nearest to a new tenant.
const MAX_IDLE: usize = 1_024;

/// A moment on the clock that all tenants share, and a number that makes it unique. Of two at the same moment, the earlier one is first.
type Place = (u64, u64);

/// Things in line, of tenants that take turns. Those of one tenant are in order.
pub struct Turns<K, T> {
    tenants: HashMap<K, InLine<T>>,
    /// Those with something in line, by when their next one would be done.
    order: BTreeMap<Place, K>,
    /// Those with nothing in line, by when their last one was done.
    idle: BTreeMap<Place, K>,
    /// When the last one was done, or a later moment.
    now: u64,
    /// Numbers places.
    count: u64,
}

struct InLine<T> {
    line: VecDeque<(T, u64)>,
    /// When the last one that was served was done, on the clock of this tenant.
    done: u64,
    place: Place,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Turns<K, T> {
        Turns { tenants: HashMap::new(), order: BTreeMap::new(), idle: BTreeMap::new(), now: 0, count: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> Turns<K, T> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn any(&self, may: impl Fn(&K) -> bool) -> bool {
        self.order.values().any(may)
    }

    /// What the next thing of this tenant costs, if it has any in line.
    pub fn next_cost(&self, tenant: &K) -> Option<u64> {
        self.tenants.get(tenant)?.line.front().map(|(_, cost)| *cost)
    }

    /// How many things this tenant has in line.
    pub fn in_line(&self, tenant: &K) -> usize {
        self.tenants.get(tenant).map_or(0, |found| found.line.len())
    }

    pub fn push(&mut self, tenant: &K, one: T, cost: u64) {
        let found = self.tenants.entry(tenant.clone()).or_insert_with(InLine::new);
        found.line.push_back((one, cost));
        if found.line.len() == 1 {
            self.place(tenant);
        }
    }

    /// The next thing of the first tenant that `may` have a turn, and whose it is.
    pub fn next(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let (place, tenant) = self.order.iter().find(|(_, tenant)| may(tenant))?;
        let (place, tenant) = (*place, tenant.clone());
        self.take(place, tenant)
    }

    /// The same, if the thing costs no more than this.
    pub fn next_within(&mut self, max_cost: u64) -> Option<(K, T)> {
        let is_within = |tenant| self.next_cost(tenant).is_some_and(|cost| cost <= max_cost);
        let (place, tenant) = self.order.iter().find(|(_, tenant)| is_within(tenant))?;
        let (place, tenant) = (*place, tenant.clone());
        self.take(place, tenant)
    }

    fn take(&mut self, place: Place, tenant: K) -> Option<(K, T)> {
        let found = self.tenants.get_mut(&tenant)?;
        let (one, cost) = found.line.pop_front()?;
        // One that might not have a turn for a while has lost it: others need not wait until it has caught up.
        found.done = place.0.max(self.now.saturating_sub(HEAD_START).saturating_add(cost));
        let done = found.done;
        self.now = self.now.max(done);
        self.place(&tenant);
        if self.order.is_empty() {
            // What it got before this was kept from no other tenant, so only this puts it behind those that come now.
            self.now = self.now.max(done.saturating_add(HEAD_START.saturating_sub(cost)));
        }
        self.forget_idle();
        Some((tenant, one))
    }

    /// What this tenant got turned out to cost `more`.
    pub fn charge(&mut self, tenant: &K, more: u64) {
        if more > 0 {
            let earliest = self.now.saturating_sub(HEAD_START);
            let found = self.tenants.entry(tenant.clone()).or_insert_with(InLine::new);
            found.done = found.done.max(earliest).saturating_add(more);
            self.place(tenant);
        }
    }

    /// Removes the things of this tenant that are no longer wanted.
    pub fn remove(&mut self, tenant: &K, unwanted: impl Fn(&T) -> bool) {
        if let Some(found) = self.tenants.get_mut(tenant) {
            found.line.retain(|(one, _)| !unwanted(one));
            self.place(tenant);
            self.forget_idle();
        }
    }

    /// Puts a tenant where it belongs, from wherever it is.
    fn place(&mut self, tenant: &K) {
        let Some(found) = self.tenants.get_mut(tenant) else { return };
        self.order.remove(&found.place);
        self.idle.remove(&found.place);
        self.count += 1;
        match found.line.front() {
            Some((_, cost)) => {
                let start = found.done.max(self.now.saturating_sub(HEAD_START));
                found.place = (start.saturating_add(*cost), self.count);
                self.order.insert(found.place, tenant.clone());
            }
            None => {
                found.place = (found.done, self.count);
                self.idle.insert(found.place, tenant.clone());
            }
        }
    }

    /// Forgets tenants that would be treated as new ones.
    fn forget_idle(&mut self) {
        while let Some(((done, _), tenant)) = self.idle.first_key_value()
            && (done.saturating_add(HEAD_START) <= self.now || self.idle.len() > MAX_IDLE)
        {
            self.tenants.remove(tenant);
            self.idle.pop_first();
        }
    }
}

impl<T> InLine<T> {
    fn new() -> InLine<T> {
        // No place has the number zero.
        InLine { line: VecDeque::new(), done: 0, place: (0, 0) }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
