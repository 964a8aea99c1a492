//! Lets few at a time do what would keep others from their turn, such as work that keeps a thread busy for milliseconds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use super::Engine;
use crate::ids::Tenant;
use crate::rules::turns::Turns;

/// How many may be inside at a time.
#[derive(Clone, Copy, Debug)]
pub struct GateLimits {
    pub in_all: usize,
    /// Of one holder, such as a tenant.
    pub per_holder: usize,
    /// A holder that has none inside is let in although there are as many as may be in all. For what takes memory rather than a thread:
    /// however long the others stay, each holder gets on.
    pub one_each: bool,
}

impl GateLimits {
    fn allow(&self, inside: usize, of_holder: usize) -> bool {
        of_holder < self.per_holder && (inside < self.in_all || (self.one_each && of_holder == 0))
    }
}

/// A door with a line before it, in which the holders take turns as [`Turns`] says.
pub struct Gate<K: Clone + Eq + Hash>(Arc<Inner<K>>);

struct Inner<K> {
    limits: GateLimits,
    state: Mutex<State<K>>,
}

struct State<K> {
    inside: usize,
    /// Only holders that have some inside.
    inside_by_holder: HashMap<K, usize>,
    /// By number.
    line: Turns<K, u64>,
    /// Those in line. One that is not there any more has been let in.
    waiting: HashMap<u64, Option<Waker>>,
    count: u64,
}

impl<K: Clone + Eq + Hash> Gate<K> {
    #[must_use]
    pub fn new(limits: GateLimits) -> Gate<K> {
        let state = State {
            inside: 0,
            inside_by_holder: HashMap::new(),
            line: Turns::default(),
            waiting: HashMap::new(),
            count: 0,
        };
        Gate(Arc::new(Inner { limits, state: Mutex::new(state) }))
    }

    /// Waits to be let in. `cost` says how long it will be inside, compared with others.
    pub fn enter(&self, holder: &K, cost: u64) -> Entering<K> {
        self.join(self.0.lock(), holder, cost)
    }

    /// The same, unless so many of this holder are in line already.
    pub fn enter_if_short(&self, holder: &K, cost: u64, max_waiting: usize) -> Option<Entering<K>> {
        let state = self.0.lock();
        (state.line.in_line(holder) < max_waiting).then(|| self.join(state, holder, cost))
    }

    fn join(&self, mut state: MutexGuard<'_, State<K>>, holder: &K, cost: u64) -> Entering<K> {
        state.count += 1;
        let number = state.count;
        state.line.push(holder, number, cost);
        state.waiting.insert(number, None);
        self.0.let_in(state);
        Entering { gate: Arc::clone(&self.0), holder: holder.clone(), number, is_done: false }
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets in as many as there is room for.
    fn let_in(&self, mut state: MutexGuard<'_, State<K>>) {
        let mut woken = Vec::new();
        while state.inside < self.limits.in_all || self.limits.one_each {
            let State { inside, inside_by_holder, line, .. } = &mut *state;
            let of_holder = |holder: &K| inside_by_holder.get(holder).copied().unwrap_or(0);
            let may = |holder: &K| self.limits.allow(*inside, of_holder(holder));
            let Some((holder, number)) = line.next(may) else { break };
            state.inside += 1;
            *state.inside_by_holder.entry(holder).or_default() += 1;
            woken.extend(state.waiting.remove(&number).flatten());
        }
        // A task may run as soon as it is woken, and may come back here.
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    fn leave(&self, holder: &K) {
        let mut state = self.lock();
        state.inside -= 1;
        if let Entry::Occupied(mut own) = state.inside_by_holder.entry(holder.clone()) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
        self.let_in(state);
    }
}

/// A place in the line, which is left when it is dropped.
pub struct Entering<K: Clone + Eq + Hash> {
    gate: Arc<Inner<K>>,
    holder: K,
    number: u64,
    is_done: bool,
}

impl<K: Clone + Eq + Hash + Unpin> Future for Entering<K> {
    type Output = Inside<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Inside<K>> {
        if let Some(waker) = self.gate.lock().waiting.get_mut(&self.number) {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        self.is_done = true;
        Poll::Ready(Inside { gate: Arc::clone(&self.gate), holder: self.holder.clone() })
    }
}

/// Lets a task in for one step at a time, so that what it waits for in between keeps no one else out.
pub struct StepTurns<K: Clone + Eq + Hash>(Option<Entering<K>>);

impl<K: Clone + Eq + Hash> Default for StepTurns<K> {
    fn default() -> StepTurns<K> {
        StepTurns(None)
    }
}

impl<K: Clone + Eq + Hash + Unpin> StepTurns<K> {
    /// Ready when it is the turn of the next step, which lasts until what is returned is dropped.
    pub fn poll_enter(&mut self, gate: &Gate<K>, holder: &K, context: &mut Context<'_>) -> Poll<Inside<K>> {
        let entering = self.0.get_or_insert_with(|| gate.enter(holder, 1));
        let inside = ready!(Pin::new(entering).poll(context));
        self.0 = None;
        Poll::Ready(inside)
    }
}

impl<K: Clone + Eq + Hash> Drop for Entering<K> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.gate.lock();
        if state.waiting.remove(&self.number).is_some() {
            state.line.remove(&self.holder, |number| *number == self.number);
            return;
        }
        // It was let in and does not know yet.
        drop(state);
        self.gate.leave(&self.holder);
    }
}

/// Inside until it is dropped.
pub struct Inside<K: Clone + Eq + Hash> {
    gate: Arc<Inner<K>>,
    holder: K,
}

impl<K: Clone + Eq + Hash> Inside<K> {
    /// It turned out to cost so much more.
    pub fn charge(&self, more: u64) {
        self.gate.lock().line.charge(&self.holder, more);
    }
}

impl<K: Clone + Eq + Hash> Drop for Inside<K> {
    fn drop(&mut self) {
        self.gate.leave(&self.holder);
    }
}

/// What a piece of long work costs at least, and for each millisecond that it took: a tenth of a millisecond counts as one.
const PIECE_COST: u64 = 1;
const COST_PER_MS: u64 = 10;

impl Engine {
    /// Does work that would keep a thread busy for long, in pieces of a few milliseconds. `piece` returns whether it was the last one.
    /// Between two of them other tasks run, and other tenants that have such work take their turns, by the time that they took.
    pub(super) async fn work_in_turns(&self, tenant: &Tenant, mut piece: impl FnMut() -> bool) {
        loop {
            let turn = self.long_work.enter(tenant, PIECE_COST).await;
            let began = self.ports.clock.now_real();
            let is_done = piece();
            let took = self.ports.clock.now_real().since(began);
            turn.charge(COST_PER_MS.saturating_mul(took.as_millis() as u64));
            drop(turn);
            if is_done {
                return;
            }
            yield_now().await;
        }
    }
}

/// Lets other tasks run.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn gate(in_all: usize, per_holder: usize) -> Gate<&'static str> {
        Gate::new(GateLimits { in_all, per_holder, one_each: false })
    }

    fn is_empty(gate: &Gate<&'static str>) -> bool {
        let state = gate.0.lock();
        state.inside == 0
            && state.inside_by_holder.is_empty()
            && state.line.is_empty()
            && state.waiting.is_empty()
    }

    #[test]
    fn a_holder_has_few_inside_and_others_have_their_own() {
        let gate = gate(usize::MAX, 2);
        let enter = |holder| gate.enter(&holder, 1).now_or_never();
        let (one, two) = (enter("a"), enter("a"));
        assert!(one.is_some() && two.is_some() && enter("a").is_none());
        assert!(enter("b").is_some());
        drop(one);
        assert!(enter("a").is_some());
        drop(two);
        assert!(is_empty(&gate));
    }

    #[test]
    fn all_holders_together_have_few_inside_and_take_turns() {
        let gate = gate(1, 1);
        let first = gate.enter(&"a", 1).now_or_never();
        assert!(first.is_some());
        let mut waiting: Vec<_> =
            ["a", "a", "b", "c"].map(|holder| (holder, gate.enter(&holder, 1))).into_iter().collect();
        assert!(gate.enter_if_short(&"a", 1, 2).is_none(), "two are in line");
        let mut inside = first;
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(inside.take());
            let at = waiting.iter_mut().position(|(_, entering)| {
                inside = entering.now_or_never();
                inside.is_some()
            });
            order.push(waiting.remove(at.expect("one is let in")).0);
        }
        assert_eq!(order, ["b", "c", "a", "a"]);
    }

    /// A tenant whose pieces took 4 ms had as many turns as one whose pieces took 0.1 ms, and the pieces of that one piled up.
    #[test]
    fn what_a_piece_took_counts_and_not_that_it_is_one() {
        let gate = gate(1, 1);
        let first = gate.enter(&"long", PIECE_COST).now_or_never().expect("the gate is empty");
        let holders = ["long"].into_iter().chain(["short"; 20]);
        let mut waiting: Vec<_> = holders.map(|holder| (holder, gate.enter(&holder, PIECE_COST))).collect();
        first.charge(4 * COST_PER_MS);
        let mut inside = Some(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(inside.take());
            let at = waiting.iter_mut().position(|(_, entering)| {
                inside = entering.now_or_never();
                inside.is_some()
            });
            order.push(waiting.remove(at.expect("one is let in")).0);
        }
        assert_eq!(order.pop(), Some("long"));
        assert!(order.iter().all(|holder| *holder == "short"), "{order:?}");
    }

    #[test]
    fn a_holder_with_none_inside_does_not_wait_for_others() {
        let gate = Gate::new(GateLimits { in_all: 2, per_holder: 2, one_each: true });
        let enter = |holder| gate.enter(&holder, 1).now_or_never();
        let all: Vec<_> = ["a", "a", "b", "c"].map(enter).into();
        assert!(all.iter().all(Option::is_some));
        assert!(enter("b").is_none(), "a second one only if there is room in all");
        drop(all);
        assert!(is_empty(&gate));
        let _two = (enter("b"), enter("b"));
        assert!(enter("b").is_none() && enter("a").is_some());
    }

    #[test]
    fn one_that_no_longer_waits_leaves_its_place_to_others() {
        let gate = gate(1, 1);
        let first = gate.enter(&"a", 1).now_or_never();
        let (second, mut third) = (gate.enter(&"b", 1), gate.enter(&"c", 1));
        drop(second);
        drop(first);
        assert!((&mut third).now_or_never().is_some());
        // Also if it was let in before it could know.
        let (fourth, fifth) = (gate.enter(&"a", 1), gate.enter(&"b", 1));
        drop(fourth);
        assert!(fifth.now_or_never().is_some());
        drop(third);
        assert!(is_empty(&gate));
    }

    #[test]
    fn one_that_is_let_in_is_woken() {
        let gate = gate(1, 1);
        let first = gate.enter(&"a", 1).now_or_never();
        let woken = futures_util::task::noop_waker();
        let mut second = std::pin::pin!(gate.enter(&"b", 1));
        let _ = second.as_mut().poll(&mut Context::from_waker(&woken));
        assert!(gate.0.lock().waiting.values().all(Option::is_some), "it can be woken");
        drop(first);
        assert!(second.now_or_never().is_some());
    }
}
