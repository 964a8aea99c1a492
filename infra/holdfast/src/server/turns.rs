//! Lets connections have a thread in the turns of their holders. The runtime takes tasks in the order in which they are ready, whosever they
//! are, so a tenant with hundreds of connections that always have the next request ready would have almost all of the threads.
//!
//! What wakes a connection does not make its task ready, but puts it into the line of its holder. A few connections at a time are let out of
//! it, and only these are ready. While there are no more than these, none waits. Turns count by the time that they took: some take a
//! thousand times as long as others.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use holdfast_core::engine::{Entering, Gate, GateLimits, Inside};
use tokio::time::Instant;

use super::activity::Activity;

/// Strangers are told apart by this many groups of addresses. Without a bound, one with a new address for each connection would have
/// a new turn for each.
const STRANGER_GROUPS: u64 = 32;
/// A stranger's turn counts as so many, so that all groups together have at most as many turns as eight tenants.
const STRANGER_COST: u64 = 4;

/// A turn that takes longer counts as several. Most take less.
const TIME_PER_TURN: Duration = Duration::from_micros(100);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    /// Whose key was used last.
    Key(NonZeroU64),
    /// No valid key was used yet.
    Strangers(u64),
}

impl Holder {
    fn cost(self) -> u64 {
        match self {
            Holder::Key(_) => 1,
            Holder::Strangers(_) => STRANGER_COST,
        }
    }
}

/// The turns of all connections.
pub(super) struct ConnectionTurns {
    gate: Arc<Gate<Holder>>,
    /// Which group an address is in cannot be guessed.
    groups: RandomState,
}

impl ConnectionTurns {
    /// As many connections are ready at a time as there are threads: the one that has had its turn makes the next one ready. With more, the
    /// attempts, which share the threads, would wait behind all of them.
    pub(super) fn new(in_all: usize) -> ConnectionTurns {
        let limits = GateLimits { in_all, per_holder: in_all, one_each: false };
        ConnectionTurns { gate: Arc::new(Gate::new(limits)), groups: RandomState::new() }
    }

    /// Runs a connection of this peer. It is polled only in its turns.
    pub(super) fn run<F: Future>(&self, peer: IpAddr, activity: &Arc<Activity>, connection: F) -> InTurns<F> {
        let turn = Arc::new(Turn {
            gate: Arc::clone(&self.gate),
            activity: Arc::clone(activity),
            strangers: Holder::Strangers(self.groups.hash_one(peer) % STRANGER_GROUPS),
            state: Mutex::new(State { stage: Stage::New, task: Waker::noop().clone() }),
        });
        InTurns { waker: Arc::clone(&turn).into(), turn, connection: Box::pin(connection) }
    }
}

/// Of one connection. It is what the connection is woken by.
struct Turn {
    gate: Arc<Gate<Holder>>,
    activity: Arc<Activity>,
    /// Whose it is until a valid key is used.
    strangers: Holder,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// Makes the task of the connection ready.
    task: Waker,
}

enum Stage {
    /// Not polled yet.
    New,
    /// Nothing happened since the last turn.
    Idle,
    /// Something happened, and the turn has not come, or the task does not know yet.
    InLine(Entering<Holder>),
    /// It is the turn of this connection, and its task is ready.
    Ready(Inside<Holder>),
    /// The connection is being polled. `is_woken`: something happened meanwhile.
    Running { is_woken: bool },
    /// The connection is gone; what it waited for may still wake it.
    Ended,
}

impl Turn {
    fn holder(&self) -> Holder {
        self.activity.holder().map_or(self.strangers, Holder::Key)
    }

    /// Goes into the line. The task is woken when it is its turn, which may be now.
    fn join(&self, state: &mut State) {
        let holder = self.holder();
        let mut entering = self.gate.enter(&holder, holder.cost());
        state.stage = match Pin::new(&mut entering).poll(&mut Context::from_waker(&state.task)) {
            Poll::Pending => Stage::InLine(entering),
            Poll::Ready(inside) => {
                state.task.wake_by_ref();
                Stage::Ready(inside)
            }
        };
    }

    /// Begins to run, if it is the turn of this connection. It lasts until what is returned is dropped.
    fn poll_begin(&self, context: &mut Context<'_>) -> Poll<Inside<Holder>> {
        let mut state = self.lock();
        state.task.clone_from(context.waker());
        if matches!(state.stage, Stage::New) {
            let holder = self.holder();
            state.stage = Stage::InLine(self.gate.enter(&holder, holder.cost()));
        }
        let inside = match std::mem::replace(&mut state.stage, Stage::Idle) {
            Stage::Ready(inside) => inside,
            Stage::InLine(mut entering) => match Pin::new(&mut entering).poll(context) {
                Poll::Ready(inside) => inside,
                Poll::Pending => {
                    state.stage = Stage::InLine(entering);
                    return Poll::Pending;
                }
            },
            // The task was woken by something else.
            other => {
                state.stage = other;
                return Poll::Pending;
            }
        };
        state.stage = Stage::Running { is_woken: false };
        Poll::Ready(inside)
    }

    fn end_turn(&self, inside: Inside<Holder>, took: Duration) {
        let turns = (took.as_micros() / TIME_PER_TURN.as_micros()) as u64;
        inside.charge(turns.saturating_mul(self.holder().cost()));
        // First, so that one of another holder can be before the next turn of this one.
        drop(inside);
        let mut state = self.lock();
        match state.stage {
            Stage::Running { is_woken: true } => self.join(&mut state),
            _ => state.stage = Stage::Idle,
        }
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        match &mut state.stage {
            Stage::Idle => self.join(&mut state),
            Stage::Running { is_woken } => *is_woken = true,
            // It will be polled anyway, or never again.
            Stage::New | Stage::InLine(_) | Stage::Ready(_) | Stage::Ended => {}
        }
    }
}

/// A connection that is polled only in its turns.
pub(super) struct InTurns<F> {
    turn: Arc<Turn>,
    /// The same, as the connection sees it.
    waker: Waker,
    connection: Pin<Box<F>>,
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let InTurns { turn, waker, connection } = &mut *self;
        let inside = std::task::ready!(turn.poll_begin(context));
        let began = Instant::now();
        let polled = connection.as_mut().poll(&mut Context::from_waker(waker));
        turn.end_turn(inside, began.elapsed());
        polled
    }
}

impl<F> Drop for InTurns<F> {
    fn drop(&mut self) {
        // It leaves the line, and its turn to others.
        self.turn.lock().stage = Stage::Ended;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Counts how often a task was made ready.
    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection that never ends.
    struct Connection<'a> {
        task: Arc<Task>,
        /// By which it can be woken.
        waker: &'a RefCell<Option<Waker>>,
        running: Pin<Box<dyn Future<Output = ()> + 'a>>,
    }

    impl Connection<'_> {
        fn wake(&self) {
            self.waker.borrow().as_ref().expect("it was polled").wake_by_ref();
        }

        fn is_ready(&self) -> bool {
            self.task.0.load(Ordering::Relaxed) > 0
        }

        /// As the runtime does with a task that is ready.
        fn poll(&mut self) {
            self.task.0.store(0, Ordering::Relaxed);
            let waker = Arc::clone(&self.task).into();
            assert!(self.running.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }

    fn activity(holder: u64) -> Arc<Activity> {
        let activity = Activity::new(&Arc::default(), &Arc::default());
        NonZeroU64::new(holder).into_iter().for_each(|holder| activity.key_use().record(holder));
        Arc::new(activity)
    }

    /// Of a holder, or of a stranger if it is 0. Calls `step` at each turn.
    fn connect<'a>(
        turns: &ConnectionTurns,
        peer: IpAddr,
        holder: u64,
        step: impl Fn(&Waker) + 'a,
    ) -> Connection<'a> {
        let waker: &RefCell<Option<Waker>> = Box::leak(Box::default());
        let connection = poll_fn(move |context| {
            waker.replace(Some(context.waker().clone()));
            step(context.waker());
            Poll::<()>::Pending
        });
        let running = Box::pin(turns.run(peer, &activity(holder), connection));
        Connection { task: Arc::default(), waker, running }
    }

    /// Polls those that are ready, and then those that became ready meanwhile, until none is.
    fn run_all(connections: &mut [Connection<'_>]) {
        loop {
            let mut ready: Vec<_> =
                connections.iter_mut().filter(|connection| connection.is_ready()).collect();
            if ready.is_empty() {
                return;
            }
            ready.iter_mut().for_each(|connection| connection.poll());
        }
    }

    #[test]
    fn of_many_connections_few_are_ready_and_those_of_another_tenant_are_next() {
        let turns = ConnectionTurns::new(2);
        let order = &RefCell::new(Vec::new());
        let holders = [vec![1; 50], vec![2]].concat().into_iter();
        let mut all: Vec<_> = holders
            .map(|holder| connect(&turns, PEER, holder, move |_| order.borrow_mut().push(holder)))
            .collect();
        all.iter_mut().for_each(Connection::poll);
        assert_eq!(order.take().len(), 51, "each has its first turn, because no other is ready");
        all.iter().for_each(Connection::wake);
        all.iter().for_each(Connection::wake);
        assert_eq!(all.iter().filter(|connection| connection.is_ready()).count(), 2);
        all.iter_mut().for_each(|connection| {
            if !connection.is_ready() {
                connection.poll();
            }
        });
        assert!(order.borrow().is_empty(), "one that is polled for another reason waits for its turn");
        run_all(&mut all);
        let order = order.take();
        assert_eq!(order.len(), 51, "woken twice before its turn, each has one");
        assert!(order[..4].contains(&2), "the other tenant waited for {order:?}");
    }

    #[test]
    fn a_connection_that_has_more_to_do_is_behind_another_tenant() {
        let turns = ConnectionTurns::new(1);
        let (order, more) = (RefCell::new(Vec::new()), Cell::new(3));
        let again = |waker: &Waker| {
            order.borrow_mut().push("many requests");
            if more.replace(more.get() - 1) > 0 {
                waker.wake_by_ref();
            }
        };
        let mut all = [
            connect(&turns, PEER, 1, again),
            connect(&turns, PEER, 2, |_| order.borrow_mut().push("one request")),
        ];
        all.iter_mut().for_each(Connection::poll);
        run_all(&mut all);
        // The second turn was given before the other connection came.
        let [many, one] = ["many requests", "one request"];
        assert_eq!(order.take(), [many, many, one, many, many]);
    }

    /// Tenants whose turns took milliseconds had as many as one with small posts, which waited for seconds.
    #[test]
    fn a_turn_counts_by_the_time_that_it_took() {
        let turns = ConnectionTurns::new(1);
        let order = &RefCell::new(Vec::new());
        let slow = |_: &Waker| {
            let began = Instant::now();
            while began.elapsed() < TIME_PER_TURN * 30 {}
            order.borrow_mut().push("slow");
        };
        let mut all: Vec<_> = (0..2).map(|_| connect(&turns, PEER, 1, slow)).collect();
        all.extend((0..20).map(|_| connect(&turns, PEER, 2, |_| order.borrow_mut().push("quick"))));
        all.iter_mut().for_each(Connection::poll);
        order.take();
        all.iter().for_each(Connection::wake);
        run_all(&mut all);
        let order = order.take();
        assert_eq!(order.len(), 22);
        // The one that was woken first has its turn, and the other one waits for as many as that took.
        assert_eq!(order.iter().rposition(|turn| *turn == "slow"), Some(21), "{order:?}");
    }

    #[test]
    fn a_connection_that_is_gone_leaves_its_turn_to_others() {
        let turns = ConnectionTurns::new(1);
        let mut all: Vec<_> = (1..=3).map(|holder| connect(&turns, PEER, holder, |_| {})).collect();
        all.iter_mut().for_each(Connection::poll);
        all.iter().for_each(Connection::wake);
        let waker = all[0].waker.borrow().clone().expect("it was polled");
        assert!(all[0].is_ready());
        drop(all.remove(0));
        waker.wake();
        assert!(all[0].is_ready() && !all[1].is_ready());
        drop(all.remove(1));
        run_all(&mut all);
        assert!(turns.gate.enter(&Holder::Strangers(0), 1).now_or_never().is_some(), "none is in line");
    }

    /// Each new address had a head start of its own before the tenants, and there is always another one.
    #[test]
    fn strangers_with_a_new_address_each_time_do_not_keep_a_tenant_out() {
        const TURNS: u32 = 2_000;
        const WAITING: usize = 2;
        let turns = ConnectionTurns::new(1);
        let of_tenant = Cell::new(0);
        let always = |waker: &Waker| {
            of_tenant.set(of_tenant.get() + 1);
            waker.wake_by_ref();
        };
        let mut tenant = connect(&turns, PEER, 1, always);
        tenant.poll();
        let mut strangers = VecDeque::new();
        for n in 0..TURNS {
            while strangers.len() < WAITING {
                let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n * 2 + strangers.len() as u32));
                let mut stranger = connect(&turns, address, 0, |_| {});
                stranger.poll();
                strangers.push_back(stranger);
            }
            match strangers.iter().position(Connection::is_ready) {
                Some(ready) => strangers.remove(ready).into_iter().for_each(|mut stranger| stranger.poll()),
                None => tenant.poll(),
            }
        }
        assert!(of_tenant.get() > TURNS / 16, "the tenant had {} turns", of_tenant.get());
    }
}
