use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_core::ports::Clock;
use holdfast_core::rules::turns::Turns;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::checkpoints::Checkpoints;
use crate::database::Database;
use crate::error::{Failure, OpenError};
use crate::lane::Lane;

/// How many jobs share a commit at most, and after how long no more are added: what comes next must not wait for long.
const MAX_JOBS_PER_COMMIT: usize = 1024;
const MAX_COMMIT_TIME: Duration = Duration::from_millis(5);
/// How much the jobs of a commit may cost if they are of several tenants, because some of them may be waiting for a tenant with many: 2 MB,
/// which take a few milliseconds to flush.
const MAX_SHARED_COMMIT_COST: u64 = 512;
/// How long what follows a commit may take, and how long if jobs are waiting.
const MAX_FOLLOW_UP_TIME: Duration = Duration::from_millis(10);
const MAX_HURRIED_FOLLOW_UP_TIME: Duration = Duration::from_millis(2);
/// How long a job takes that costs 1, at most. One that takes longer, because it has to wait for the disk, costs as much as it took.
const TIME_PER_COST: Duration = Duration::from_micros(200);
/// What a job may cost while the write-ahead log has to be copied first, and how often the writer looks whether it is.
const MAX_COST_WHILE_BEHIND: u64 = 8;
const BEHIND_CHECK_INTERVAL: Duration = Duration::from_millis(2);
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
    /// `after_commit` is called on the writing thread after each commit, and again while it returns that it has more to do. Its second
    /// argument says whether it has time to go on, or is to return.
    pub(crate) fn start(
        database: Database,
        clock: Arc<dyn Clock>,
        after_commit: impl FnMut(&Connection, &mut dyn FnMut() -> bool) -> bool + Send + 'static,
    ) -> Result<Writer, OpenError> {
        let (commands, waiting) = mpsc::channel();
        let file = database.file.clone();
        let checkpoints = Checkpoints::start(&database)?;
        let thread = thread::Builder::new()
            .name("holdfast-writer".to_owned())
            .spawn(move || work(&database, checkpoints, &*clock, &waiting, after_commit))
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
        self.run_then(lane, work, |_| ()).await
    }

    /// The same, with what is to be done between the commit and the answer, even if the caller stops waiting.
    pub(crate) async fn run_then<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, Failure> {
        self.submit(lane, |reply| Box::new(Closure { work, then, result: None, reply })).await
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

struct Closure<T, W, A> {
    work: W,
    then: A,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Failure>>,
}

impl<T, W, A> Job for Closure<T, W, A>
where
    T: Send,
    W: FnMut(&Connection) -> rusqlite::Result<T> + Send,
    A: FnOnce(&T) + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.result = Some((self.work)(connection)?);
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        let Closure { then, result, reply, .. } = *self;
        let done = committed.map(|()| {
            let result = result.expect("a committed job was run");
            then(&result);
            result
        });
        // The caller may have stopped waiting.
        let _ = reply.send(done);
    }
}

/// The jobs in line, and whether the thread is to end after them.
struct Line<'a> {
    commands: &'a Receiver<Command>,
    waiting: Turns<Arc<str>, Waiting>,
    stop: bool,
    /// What a job may cost for now.
    max_cost: u64,
}

struct Waiting {
    job: Box<dyn Job>,
    cost: u64,
}

impl Line<'_> {
    /// Waits for a command, but no longer than this. Returns whether there was one.
    fn wait(&mut self, max: Duration) -> bool {
        match self.commands.recv_timeout(max) {
            Ok(command) => self.admit(command),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => self.stop = true,
        }
        true
    }

    /// Puts everything in line that has come meanwhile.
    fn admit_all(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.admit(command);
        }
    }

    fn admit(&mut self, command: Command) {
        match command {
            Command::Write(Lane { tenant, cost }, job) => {
                self.waiting.push(&tenant, Waiting { job, cost }, cost);
            }
            Command::Nudge => {}
            Command::Stop => self.stop = true,
        }
    }

    /// Whose job is next, and the job.
    fn next(&mut self) -> Option<(Arc<str>, Waiting)> {
        // A tenant's job that came during a commit takes its turn in it, and does not wait for the next one.
        self.admit_all();
        self.waiting.next_within(self.max_cost)
    }

    /// A job of this tenant took so long. What it cost more than was known before is added.
    fn charge(&mut self, tenant: &Arc<str>, cost: u64, took: Duration) {
        let took = (took.as_micros() / TIME_PER_COST.as_micros()) as u64;
        self.waiting.charge(tenant, took.saturating_sub(cost));
    }

    /// Whether there is a job that may be done now.
    fn has_next(&self) -> bool {
        self.waiting.any(|tenant| self.waiting.next_cost(tenant).is_some_and(|cost| cost <= self.max_cost))
    }
}

fn work(
    database: &Database,
    mut checkpoints: Checkpoints,
    clock: &dyn Clock,
    commands: &Receiver<Command>,
    mut after_commit: impl FnMut(&Connection, &mut dyn FnMut() -> bool) -> bool,
) {
    let mut line = Line { commands, waiting: Turns::default(), stop: false, max_cost: u64::MAX };
    let mut more = false;
    while !line.stop || !line.waiting.is_empty() {
        line.max_cost = if checkpoints.are_behind() && !line.stop { MAX_COST_WHILE_BEHIND } else { u64::MAX };
        if !line.waiting.is_empty() && !line.has_next() {
            line.wait(BEHIND_CHECK_INTERVAL);
        }
        let is_busy = more || line.stop || !line.waiting.is_empty();
        if !is_busy && !line.wait(IDLE_CHECK_INTERVAL) {
            // Readers and the next jobs see what it finds.
            let _ = database.watch.check();
        }
        finish(database, &mut line, clock);
        checkpoints.after_commit(&database.connection);
        let started = clock.now_real();
        more = after_commit(&database.connection, &mut || {
            line.admit_all();
            let is_hurried = !line.waiting.is_empty();
            let limit = if is_hurried { MAX_HURRIED_FOLLOW_UP_TIME } else { MAX_FOLLOW_UP_TIME };
            clock.now_real().since(started) < limit
        });
    }
}

/// What is in a commit.
struct Size {
    jobs: usize,
    cost: u64,
    /// Whether they are of several tenants.
    is_shared: bool,
}

/// Whether a commit that has taken so long may have another job.
fn has_time(commit: &Size, took: Duration) -> bool {
    commit.jobs < MAX_JOBS_PER_COMMIT
        && !(commit.is_shared && commit.cost >= MAX_SHARED_COMMIT_COST)
        && took < MAX_COMMIT_TIME
}

/// Makes and commits the next jobs: at least one, and more while there is time.
fn finish(database: &Database, line: &mut Line<'_>, clock: &dyn Clock) {
    let Some((tenant, Waiting { job, cost })) = line.next() else { return };
    let mut jobs = vec![job];
    if database.watch.is_intact().is_err() {
        return acknowledge(database, jobs);
    }
    let started = clock.now_real();
    let committed = transact(&database.connection, |connection| {
        let mut size = Size { jobs: 1, cost, is_shared: false };
        let mut running = (tenant.clone(), cost);
        let mut began = started;
        while let Some(job) = jobs.last_mut() {
            job.run(connection)?;
            let now = clock.now_real();
            line.charge(&running.0, running.1, now.since(began));
            began = now;
            match has_time(&size, now.since(started)).then(|| line.next()).flatten() {
                Some((next, Waiting { job, cost })) => {
                    size = Size {
                        jobs: size.jobs + 1,
                        cost: size.cost.saturating_add(cost),
                        is_shared: size.is_shared || next != tenant,
                    };
                    running = (next, cost);
                    jobs.push(job);
                }
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

#[cfg(test)]
mod tests {
    use holdfast_core::time::Timestamp;
    use holdfast_sim::{VirtualClock, block_on};

    use super::*;

    #[test]
    fn a_job_that_comes_during_a_commit_of_another_tenant_is_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let writer = Writer::start(Database::open(dir.path()).unwrap(), clock, |_, _| false).unwrap();
        let writer = Arc::new(writer);
        let (reply, answer) = oneshot::channel();
        let mut second = Some(Closure {
            // This setting ends with its transaction.
            work: |connection: &Connection| {
                connection.pragma_query_value(None, "defer_foreign_keys", |row| row.get::<_, bool>(0))
            },
            then: |_: &bool| (),
            result: None,
            reply,
        });
        block_on(async {
            let submit = Arc::clone(&writer);
            let first = move |connection: &Connection| {
                if let Some(second) = second.take() {
                    submit.submit_only(Lane::of_tenant("b"), Box::new(second));
                }
                connection.pragma_update(None, "defer_foreign_keys", true)
            };
            writer.run(Lane::of_tenant("a"), first).await.unwrap();
            assert!(answer.await.unwrap().unwrap());
        });
    }

    /// Jobs of 250 ms that cost 1, because what they needed was not in memory, took as many turns as any others.
    #[test]
    fn a_job_that_takes_long_costs_its_tenant_as_much() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let database = Database::open(dir.path()).unwrap();
        let writer = Writer::start(database, Arc::clone(&clock) as _, |_, _| false).unwrap();
        let order = Arc::new(Mutex::new(String::new()));
        let submit = |tenant: &str, takes: Duration, begin: Option<Receiver<()>>| {
            let (clock, order) = (Arc::clone(&clock), Arc::clone(&order));
            let name = tenant.to_owned();
            let work = move |_: &Connection| {
                if let Some(begin) = &begin {
                    begin.recv().unwrap();
                }
                clock.advance(takes);
                order.lock().unwrap().push_str(&name);
                Ok(())
            };
            let (reply, _) = oneshot::channel();
            let job = Closure { work, then: |_: &()| (), result: None, reply };
            writer.submit_only(Lane::of_tenant(tenant), Box::new(job));
        };
        let (begin, all_in_line) = mpsc::channel();
        submit("-", Duration::ZERO, Some(all_in_line));
        for _ in 0..5 {
            submit("a", Duration::from_millis(250), None);
            submit("b", Duration::ZERO, None);
        }
        begin.send(()).unwrap();
        writer.stop();
        let order = order.lock().unwrap();
        assert!(order.ends_with("aaaa"), "{order}");
    }
}
