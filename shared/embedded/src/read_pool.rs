//! Threads for reads that may have to wait for the disk.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use holdfast_core::ports::Clock;
use holdfast_core::rules::turns::Turns;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Failure;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// One thread for each connection. Tenants take turns, by the time that their reads took, and one tenant has at most half of the threads.
pub(crate) struct ReadPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    news: Condvar,
    clock: Arc<dyn Clock>,
    max_per_tenant: usize,
}

#[derive(Default)]
struct State {
    line: Turns<Arc<str>, Read>,
    /// How many threads each tenant has. Only tenants that have some.
    running: HashMap<Arc<str>, usize>,
    stop: bool,
}

impl ReadPool {
    pub(crate) fn start(connections: Vec<Connection>, clock: Arc<dyn Clock>) -> std::io::Result<ReadPool> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            news: Condvar::new(),
            clock,
            max_per_tenant: connections.len().div_ceil(2),
        });
        let pool = ReadPool { shared: Arc::clone(&shared), threads: Mutex::default() };
        for connection in connections {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new()
                .name("holdfast-reader".to_owned())
                .spawn(move || shared.work(&connection))?;
            pool.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(pool)
    }

    /// Reads on one of the threads, when it is the turn of this tenant. An empty name stands for Holdfast itself.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        tenant: &str,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, result) = oneshot::channel();
        let read = move |connection: &Connection| {
            // The caller may have stopped waiting.
            if !reply.is_closed() {
                let _ = reply.send(read(connection));
            }
        };
        self.shared.submit(tenant.into(), Box::new(read));
        // A read that is dropped undone drops its sender: the threads have ended, or it panicked.
        result.await.map_err(|_| Failure::Closed)?
    }

    /// Ends the threads after what they are reading. What is in line, and what comes later, fails.
    pub(crate) fn stop(&self) {
        let in_line = {
            let mut state = self.shared.lock();
            state.stop = true;
            std::mem::take(&mut state.line)
        };
        drop(in_line);
        self.shared.news.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // It does not panic: it catches the panics of reads.
            let _ = thread.join();
        }
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, tenant: Arc<str>, read: Read) {
        let mut state = self.lock();
        if !state.stop {
            state.line.push(&tenant, read, 1);
            self.news.notify_one();
        }
    }

    fn work(&self, connection: &Connection) {
        while let Some((tenant, read)) = self.next() {
            let started = self.clock.now_real();
            // A record that cannot be decoded must not end the thread, which others need. Its reader gets an error.
            let _ = catch_unwind(AssertUnwindSafe(|| read(connection)));
            let took = self.clock.now_real().since(started);
            self.lock().finished(&tenant, took.as_millis() as u64);
        }
    }

    /// Waits for a read that may be made. `None`: the thread is to end.
    fn next(&self) -> Option<(Arc<str>, Read)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(next) = state.next(self.max_per_tenant) {
                return Some(next);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn next(&mut self, max_per_tenant: usize) -> Option<(Arc<str>, Read)> {
        let State { line, running, .. } = self;
        let next = line.next(|tenant| running.get(tenant).is_none_or(|running| *running < max_per_tenant))?;
        *running.entry(Arc::clone(&next.0)).or_default() += 1;
        Some(next)
    }

    fn finished(&mut self, tenant: &Arc<str>, took_ms: u64) {
        self.line.charge(tenant, took_ms);
        if let Some(running) = self.running.get_mut(tenant) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::time::Timestamp;
    use holdfast_sim::VirtualClock;

    use super::*;

    #[test]
    fn a_tenant_has_half_of_the_threads() {
        for (threads, of_a_tenant) in [(1, 1), (2, 1), (4, 2), (5, 3)] {
            let connections = (0..threads).map(|_| Connection::open_in_memory().unwrap()).collect();
            let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
            let pool = ReadPool::start(connections, clock).unwrap();
            assert_eq!(pool.shared.max_per_tenant, of_a_tenant);
        }
    }

    #[test]
    fn tenants_take_turns_by_the_time_that_their_reads_took() {
        let [many, one] = ["many", "one"].map(Arc::<str>::from);
        let mut state = State::default();
        let push = |state: &mut State, tenant| state.line.push(tenant, Box::new(|_| {}), 1);
        let next = |state: &mut State| state.next(2).map(|(tenant, _)| tenant);
        (0..10).for_each(|_| push(&mut state, &many));
        assert_eq!([next(&mut state), next(&mut state)], [Some(many.clone()), Some(many.clone())]);
        assert_eq!(next(&mut state), None, "it has its share of the threads");
        push(&mut state, &one);
        assert_eq!(next(&mut state), Some(one.clone()));
        state.finished(&one, 0);
        // Reads of the disk that took 100 ms count as much as a hundred short ones.
        state.finished(&many, 100);
        for _ in 0..60 {
            push(&mut state, &one);
            assert_eq!(next(&mut state), Some(one.clone()));
            state.finished(&one, 0);
        }
        assert_eq!(next(&mut state), Some(many.clone()));
        state.finished(&many, 0);
        state.finished(&many, 0);
        assert!(state.running.is_empty());
    }
}
