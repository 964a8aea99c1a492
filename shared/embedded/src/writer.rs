use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_core::ports::Clock;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::database::Database;
use crate::error::{Failure, OpenError};
use crate::lane::Lane;
use crate::turns::Turns;

/// How many jobs share a commit at most, and after how long no more are added: what comes next must not wait for long.
const MAX_JOBS_PER_COMMIT: usize = 1024;
const MAX_COMMIT_TIME: Duration = Duration::from_millis(20);
/// How often an idle writer looks whether its files are still there. A busy one looks at every commit.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) trait Job: Send {
    /// Makes the change, inside a transaction with others. Called again if that transaction failed. If the change turns out not to
    /// be wanted, because a condition does not hold, it writes nothing and returns no error.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// Called once: the change is durable, or it failed and nothing of it was kept.
    fn done(self: Box<Self>, committed: Result<(), Failure>);
}

enum Command {
    Write(Lane, Box<dyn Job>),
    /// Only runs what follows each commit.
    Nudge,
    Stop,
}

/// The one thread that writes. It commits waiting jobs together, so that many callers share one flush of the disk. If they are too
/// many for one commit, the tenants take turns.
pub(crate) struct Writer {
    commands: Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// `after_commit` is called on the writing thread after each commit, and again while it returns that it has more to do.
    pub(crate) fn start(
        database: Database,
        clock: Arc<dyn Clock>,
        after_commit: impl FnMut(&Connection) -> bool + Send + 'static,
    ) -> Result<Writer, OpenError> {
        let (commands, waiting) = mpsc::channel();
        let file = database.file.clone();
        let thread = thread::Builder::new()
            .name("holdfast-writer".to_owned())
            .spawn(move || work(database, &*clock, &waiting, after_commit))
            .map_err(|e| OpenError::Failed { file, why: e.to_string() })?;
        Ok(Writer { commands, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a job, made with the sender of its reply, and waits for the reply. The job is done even if the caller stops waiting.
    pub(crate) async fn submit<T>(
        &self,
        lane: Lane,
        job: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Box<dyn Job>,
    ) -> Result<T, Failure> {
        let (reply, result) = oneshot::channel();
        self.submit_only(lane, job(reply));
        // A job that is dropped undone drops its sender: the thread has ended.
        result.await.map_err(|_| Failure::Closed)?
    }

    /// Queues a job without waiting for it.
    pub(crate) fn submit_only(&self, lane: Lane, job: Box<dyn Job>) {
        self.command(Command::Write(lane, job));
    }

    pub(crate) fn nudge(&self) {
        self.command(Command::Nudge);
    }

    /// Runs `work` in a transaction and returns its result once that is durable.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.submit(lane, |reply| Box::new(Closure { work, result: None, reply })).await
    }

    /// Finishes the queued jobs and ends the thread.
    pub(crate) fn stop(&self) {
        self.command(Command::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // If it panicked, its jobs were dropped, and their callers have got an error.
            let _ = thread.join();
        }
    }

    fn command(&self, command: Command) {
        // Fails only when the thread has ended: the job is dropped, which its caller notices.
        let _ = self.commands.send(command);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Closure<T, W> {
    work: W,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Failure>>,
}

impl<T: Send, W: FnMut(&Connection) -> rusqlite::Result<T> + Send> Job for Closure<T, W> {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.result = Some((self.work)(connection)?);
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        let Closure { result, reply, .. } = *self;
        // The caller may have stopped waiting.
        let _ = reply.send(committed.map(|()| result.expect("a committed job was run")));
    }
}

fn work(
    database: Database,
    clock: &dyn Clock,
    commands: &Receiver<Command>,
    mut after_commit: impl FnMut(&Connection) -> bool,
) {
    let mut waiting = Turns::default();
    let (mut stop, mut more) = (false, false);
    while !stop || !waiting.is_empty() {
        let idle = if more || stop || !waiting.is_empty() { Duration::ZERO } else { IDLE_CHECK_INTERVAL };
        let mut next = match commands.recv_timeout(idle) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) if idle.is_zero() => None,
            Err(RecvTimeoutError::Timeout) => {
                // Readers and the next jobs see what it finds.
                let _ = database.watch.check();
                None
            }
            Err(RecvTimeoutError::Disconnected) => {
                stop = true;
                None
            }
        };
        while let Some(command) = next {
            match command {
                Command::Write(lane, job) => waiting.push(&lane.0, job),
                Command::Nudge => {}
                Command::Stop => stop = true,
            }
            next = commands.try_recv().ok();
        }
        let started = clock.now_real();
        let has_time = |done| done < MAX_JOBS_PER_COMMIT && clock.now_real().since(started) < MAX_COMMIT_TIME;
        finish(&database, &mut waiting, has_time);
        more = after_commit(&database.connection);
    }
}

/// Makes and commits the next jobs: at least one, and more while there is time.
fn finish(database: &Database, waiting: &mut Turns<Box<dyn Job>>, has_time: impl Fn(usize) -> bool) {
    let mut jobs: Vec<_> = waiting.next(|_| true).into_iter().collect();
    if jobs.is_empty() {
        return;
    }
    if database.watch.is_intact().is_err() {
        return acknowledge(database, jobs);
    }
    let committed = transact(&database.connection, |connection| {
        while let Some(job) = jobs.last_mut() {
            job.run(connection)?;
            match has_time(jobs.len()).then(|| waiting.next(|_| true)).flatten() {
                Some(job) => jobs.push(job),
                None => break,
            }
        }
        Ok(())
    });
    match committed {
        Ok(()) => acknowledge(database, jobs),
        // One of them failed. Each is tried alone, so that it does not fail the others.
        Err(_) if jobs.len() > 1 => {
            for mut job in jobs {
                match transact(&database.connection, |connection| job.run(connection)) {
                    Ok(()) => acknowledge(database, vec![job]),
                    Err(error) => job.done(Err(error.into())),
                }
            }
        }
        Err(error) => jobs.remove(0).done(Err(error.into())),
    }
}

/// Answers the callers, unless the commit went into a file that is no longer there.
fn acknowledge(database: &Database, jobs: Vec<Box<dyn Job>>) {
    let intact = database.watch.check();
    for job in jobs {
        job.done(intact.clone().map_err(Failure::from));
    }
}

fn transact(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let run_and_commit = || {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        work(connection)?;
        connection.prepare_cached("COMMIT")?.execute([]).map(drop)
    };
    let result = run_and_commit();
    // After some errors SQLite has rolled back already.
    if result.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    result
}
