use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use holdfast_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::database::Database;
use crate::error::OpenError;

/// How many jobs share a commit at most.
const MAX_TOGETHER: usize = 1024;

/// Something to write.
pub(crate) trait Job: Send {
    /// Makes the change, inside a transaction with others. May be called again if that transaction failed. A change that
    /// turns out not to be wanted (a condition that does not hold) is no error, and must have written nothing.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// Called once: the change is durable, or it failed for this reason and nothing of it was kept.
    fn done(self: Box<Self>, committed: Result<(), String>);
}

enum Command {
    Write(Box<dyn Job>),
    /// Only lets what follows each commit happen.
    Nudge,
    Stop,
}

/// The one thread that writes. It commits together whatever is waiting, so that many callers share one flush of the disk.
pub(crate) struct Writer {
    commands: Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// `after_commit` is called on the writing thread whenever all jobs so far are done.
    pub(crate) fn start(
        database: Database,
        after_commit: impl FnMut(&Connection) + Send + 'static,
    ) -> Result<Writer, OpenError> {
        let (commands, waiting) = mpsc::channel();
        let file = database.file().to_owned();
        let thread = thread::Builder::new()
            .name("holdfast-writer".to_owned())
            .spawn(move || work(database, &waiting, after_commit))
            .map_err(|e| OpenError::Failed { file, why: e.to_string() })?;
        Ok(Writer { commands, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn submit(&self, job: Box<dyn Job>) {
        self.command(Command::Write(job));
    }

    pub(crate) fn nudge(&self) {
        self.command(Command::Nudge);
    }

    /// Runs `work` in a transaction and answers what it answered, once that is durable. Goes on if the caller does not wait.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit(Box::new(Asked { work, answer: None, reply }));
        answer.await.unwrap_or_else(|_| Err("the database is closed".to_owned())).map_err(StoreError)
    }

    /// Finishes what was asked for and ends the thread.
    pub(crate) fn stop(&self) {
        self.command(Command::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // If it panicked, everyone who waits has been told by now: their jobs were dropped.
            let _ = thread.join();
        }
    }

    fn command(&self, command: Command) {
        // After the end nobody takes commands. A job that is dropped here tells its caller so.
        let _ = self.commands.send(command);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Asked<T, W> {
    work: W,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T, String>>,
}

impl<T: Send, W: FnMut(&Connection) -> rusqlite::Result<T> + Send> Job for Asked<T, W> {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.answer = Some((self.work)(connection)?);
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), String>) {
        let Asked { answer, reply, .. } = *self;
        let answer = committed.and_then(|()| answer.ok_or_else(|| "the job was not run".to_owned()));
        // The caller may have stopped waiting; the change is made all the same.
        let _ = reply.send(answer);
    }
}

fn work(database: Database, waiting: &Receiver<Command>, mut after_commit: impl FnMut(&Connection)) {
    let Database { connection, lock, .. } = database;
    let mut stop = false;
    while !stop && let Ok(first) = waiting.recv() {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Write(job) => jobs.push(job),
                Command::Nudge => {}
                Command::Stop => stop = true,
            }
            next = if stop || jobs.len() >= MAX_TOGETHER { None } else { waiting.try_recv().ok() };
        }
        finish(&connection, jobs);
        after_commit(&connection);
    }
    // Only saves time at the next opening: what the log holds is as safe as what the file holds.
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);");
    drop(connection);
    // Released last: nobody may open the file while this thread still has it open.
    drop(lock);
}

fn finish(connection: &Connection, mut jobs: Vec<Box<dyn Job>>) {
    if jobs.is_empty() {
        return;
    }
    let together = transact(connection, &mut jobs);
    match together {
        Ok(()) => jobs.into_iter().for_each(|job| job.done(Ok(()))),
        Err(e) if jobs.len() == 1 => jobs.into_iter().for_each(|job| job.done(Err(e.to_string()))),
        // One of them is to blame. Each is tried alone, so that it does not fail the others.
        Err(_) => {
            for mut job in jobs {
                let alone = transact(connection, std::slice::from_mut(&mut job));
                job.done(alone.map_err(|e| e.to_string()));
            }
        }
    }
}

fn transact(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    let result = run_and_commit(connection, jobs);
    // After some errors SQLite has rolled back already.
    if result.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    result
}

fn run_and_commit(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for job in jobs {
        job.run(connection)?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
