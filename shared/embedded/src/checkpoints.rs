//! When the write-ahead log is copied into the database file, and by which thread.
//!
//! Copying takes long, and commits must not wait for it: a thread of its own copies and flushes, while the writing thread goes on and
//! adds to the log. SQLite starts the log anew only if all of it is copied when a commit begins, and if no read that began before that is
//! under way. So the writing thread copies the short rest itself and waits a moment for such reads: reads that begin then need no log.
//!
//! If commits are faster than copying, the log would grow without end. So a commit waits if more than half as much as is being copied has come
//! meanwhile: each time there is less to copy, until the rest is short. Before that, only small jobs are done. By this rule a long log, such
//! as one that could not be copied during a backup, keeps no one waiting until it is copied.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::database::{Database, failed};
use crate::error::OpenError;
use crate::files::Watch;

/// The copy of a page that was changed often replaces many, so that copying seldom writes less. But a flush of many pages slows down
/// the flushes of commits.
const PASS_PAGES: u32 = 4_000;
/// The writing thread copies at most this many pages itself, which takes about a millisecond.
const MAX_REST_PAGES: u32 = 100;
/// 64 MB. From this size of the log on, commits wait for the copying if they are faster.
const LONG_LOG_PAGES: u32 = 16_384;
/// And the writing thread copies up to this many itself, which takes some ten milliseconds: with fewer, a busy one might never get there.
const MAX_REST_PAGES_IF_LONG: u32 = 4_000;
/// 32 MB. From this size on, large jobs wait for the copying.
const SLOW_LOG_PAGES: u32 = LONG_LOG_PAGES / 2;
/// How long the writing thread waits for reads that use the log. Most are done within a millisecond; a backup is not.
const MAX_READERS_WAIT: Duration = Duration::from_millis(20);
/// How long other statements wait for locks, as rusqlite sets it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How much is in the log, and how much of that is in the database file too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    pages: u32,
    copied: u32,
}

/// What the writing thread does after a commit.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Asks the other thread to copy.
    StartPass,
    /// Waits for the other thread, so that the log does not grow meanwhile.
    AwaitPass,
    /// Copies itself.
    CopyRest,
}

/// Decides who copies and when.
#[derive(Debug)]
struct Plan {
    passing: Option<Pass>,
    /// The other thread has ended.
    is_alone: bool,
    /// How much of the log the other thread has copied and flushed.
    flushed: u32,
    /// From which size of the log on something is to be done. It grows while a reader, such as a backup, keeps the log from starting
    /// anew: trying again after each commit would be in vain.
    next_at: u32,
    last_pages: u32,
}

/// What the other thread is doing.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// How long the log was when it began.
    began_at: u32,
    /// How much of the log it has to copy.
    pages: u32,
}

impl Pass {
    /// How much of what may come while it copies has come.
    fn grown(&self, log_pages: u32) -> u32 {
        log_pages.saturating_sub(self.began_at)
    }

    /// Half as much as it copies, so that the next one has less to copy. A commit may add to that before it is noticed.
    fn max_growth(&self) -> u32 {
        (self.pages / 2).max(MAX_REST_PAGES_IF_LONG / 2)
    }
}

impl Plan {
    const NEW: Plan = Plan { passing: None, is_alone: false, flushed: 0, next_at: PASS_PAGES, last_pages: 0 };

    fn after_commit(&mut self, log: Log) -> Step {
        let has_started_anew = log.pages < self.last_pages || log.copied < self.flushed;
        if has_started_anew {
            *self = Plan { passing: self.passing, is_alone: self.is_alone, ..Plan::NEW };
        }
        self.last_pages = log.pages;
        let is_long = log.pages >= LONG_LOG_PAGES;
        if let Some(pass) = &self.passing {
            let is_full = is_long && pass.grown(log.pages) >= pass.max_growth();
            return if is_full { Step::AwaitPass } else { Step::Nothing };
        }
        if log.pages < self.next_at || log.copied == log.pages {
            return Step::Nothing;
        }
        let rest = log.pages.saturating_sub(self.flushed);
        let max_rest = if is_long { MAX_REST_PAGES_IF_LONG } else { MAX_REST_PAGES };
        if rest <= max_rest || self.is_alone {
            // If the log does not start anew after this, a reader is in the way.
            self.next_at = log.pages + PASS_PAGES;
            return Step::CopyRest;
        }
        self.passing = Some(Pass { began_at: log.pages, pages: rest });
        Step::StartPass
    }

    fn is_behind(&self) -> bool {
        let grown_much = |pass: &Pass| pass.grown(self.last_pages) >= pass.max_growth() / 2;
        self.last_pages >= SLOW_LOG_PAGES && self.passing.as_ref().is_some_and(grown_much)
    }

    /// `copied`: how much of the log the pass has copied and flushed, or `None` if it failed.
    fn after_pass(&mut self, copied: Option<u32>) {
        self.passing = None;
        match copied {
            Some(copied) if copied > self.flushed => self.flushed = copied,
            // A reader is in the way.
            _ => self.next_at = self.last_pages + PASS_PAGES,
        }
    }
}

/// Belongs to the writing thread.
pub(crate) struct Checkpoints {
    plan: Plan,
    /// `None` once the other thread is to end.
    start: Option<SyncSender<()>>,
    passes: Receiver<Option<u32>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(crate) fn start(database: &Database) -> Result<Checkpoints, OpenError> {
        let connection = open(database).map_err(|e| failed(&database.file, &e))?;
        let watch = Arc::clone(&database.watch);
        // The writing thread waits for the end of a pass before it asks for another.
        let (start, asked) = mpsc::sync_channel(1);
        let (ended, passes) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("holdfast-copier".to_owned())
            .spawn(move || {
                for () in asked {
                    if ended.send(pass(&connection, &watch)).is_err() {
                        break;
                    }
                }
            })
            .map_err(|e| OpenError::Failed { file: database.file.clone(), why: e.to_string() })?;
        Ok(Checkpoints { plan: Plan::NEW, start: Some(start), passes, thread: Some(thread) })
    }

    /// Called between commits, with the connection that writes.
    pub(crate) fn after_commit(&mut self, connection: &Connection) {
        while let Ok(copied) = self.passes.try_recv() {
            self.plan.after_pass(copied);
        }
        let done = checkpoint(connection, "NOOP").and_then(|log| {
            let mut step = self.plan.after_commit(log);
            if step == Step::AwaitPass {
                let copied = self.passes.recv();
                self.plan.is_alone = copied.is_err();
                self.plan.after_pass(copied.ok().flatten());
                step = self.plan.after_commit(checkpoint(connection, "NOOP")?);
            }
            match step {
                // Fails only if the thread has panicked. Then no pass ends, and this thread copies when the log has grown long.
                Step::StartPass => drop(self.start.as_ref().map(|start| start.try_send(()))),
                Step::CopyRest => restart(connection)?,
                Step::Nothing | Step::AwaitPass => {}
            }
            Ok(())
        });
        if let Err(error) = done {
            report(&error);
        }
    }
}

impl Checkpoints {
    /// Whether the copying needs time to catch up.
    pub(crate) fn are_behind(&self) -> bool {
        self.plan.is_behind()
    }
}

impl Drop for Checkpoints {
    /// Waits for the pass that is under way, so that the log can be closed.
    fn drop(&mut self) {
        self.start = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(database: &Database) -> rusqlite::Result<Connection> {
    let connection = Connection::open(&database.file)?;
    // The marker decides when the write-ahead log may go, and not which connection is closed last.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")?;
    Ok(connection)
}

fn pass(connection: &Connection, watch: &Watch) -> Option<u32> {
    watch.is_intact().ok()?;
    // SQLite flushes the database file only if it has copied the whole log. Flushed here, little is left to flush for the writing
    // thread.
    let copied = checkpoint(connection, "PASSIVE").map(|log| log.copied);
    let copied = copied.map_err(|error| report(&error)).ok()?;
    watch.flush_database().map_err(|error| report(&error)).ok()?;
    Some(copied)
}

fn report(error: &dyn std::error::Error) {
    tracing::error!(%error, "the write-ahead log could not be copied into the database file; it grows until it can");
}

/// Copies the rest of the log, and makes the next commit start it anew, unless reads that use it take long.
fn restart(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(MAX_READERS_WAIT)?;
    let copied = checkpoint(connection, "RESTART");
    connection.busy_timeout(BUSY_TIMEOUT)?;
    copied.map(drop)
}

/// Copies as much of the log as the mode says, and returns what is in it. `NOOP` copies nothing.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Log> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    // Both are -1 if nothing is known.
    let number = |found: i64| u32::try_from(found).unwrap_or(0);
    statement.query_row([], |row| Ok(Log { pages: number(row.get(1)?), copied: number(row.get(2)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(pages: u32, copied: u32) -> Log {
        Log { pages, copied }
    }

    #[test]
    fn passes_repeat_until_the_rest_is_short() {
        let mut plan = Plan::NEW;
        assert_eq!(plan.after_commit(log(PASS_PAGES - 1, 0)), Step::Nothing);
        assert_eq!(plan.after_commit(log(PASS_PAGES, 0)), Step::StartPass);
        assert_eq!(plan.after_commit(log(5_000, 0)), Step::Nothing, "one pass at a time");
        plan.after_pass(Some(4_000));
        assert_eq!(plan.after_commit(log(5_100, 4_000)), Step::StartPass);
        plan.after_pass(Some(5_100));
        assert_eq!(plan.after_commit(log(5_200, 5_100)), Step::CopyRest);
        assert_eq!(plan.after_commit(log(50, 0)), Step::Nothing, "it has started anew");
        assert_eq!(plan.after_commit(log(PASS_PAGES, 0)), Step::StartPass);
    }

    #[test]
    fn commits_that_are_faster_than_the_passes_wait_and_the_writing_thread_never_copies_much() {
        let mut plan = Plan::NEW;
        let (mut pages, mut commits_in_pass, mut waits) = (0, 0, 0);
        let copied_at_last = loop {
            pages += 1_000;
            let mut step = plan.after_commit(log(pages, plan.flushed));
            commits_in_pass += 1;
            // A pass takes as long as ten commits, however little there is to copy.
            if step == Step::AwaitPass || (plan.passing.is_some() && commits_in_pass == 10) {
                waits += u32::from(step == Step::AwaitPass);
                plan.after_pass(plan.passing.map(|pass| pass.began_at));
                step = plan.after_commit(log(pages, plan.flushed));
            }
            match step {
                Step::StartPass => commits_in_pass = 0,
                Step::CopyRest => break pages - plan.flushed,
                Step::Nothing | Step::AwaitPass => {}
            }
        };
        assert!(copied_at_last <= MAX_REST_PAGES_IF_LONG, "{copied_at_last}");
        assert!(waits > 0);
        assert!(pages < 2 * LONG_LOG_PAGES, "{pages}");
    }

    /// After a backup, during which nothing could be copied, all commits waited until the writing thread had copied hundreds of megabytes.
    #[test]
    fn a_log_that_has_grown_during_a_backup_is_copied_while_commits_go_on() {
        let mut plan = Plan::NEW;
        let long = 10 * LONG_LOG_PAGES;
        assert_eq!(plan.after_commit(log(long, 0)), Step::StartPass);
        assert_eq!(plan.after_commit(log(long + LONG_LOG_PAGES, 0)), Step::Nothing);
        assert!(!plan.is_behind(), "large jobs need not wait either");
        plan.after_pass(Some(long));
        assert_eq!(plan.after_commit(log(long + LONG_LOG_PAGES + 1, long)), Step::StartPass);
        plan.after_pass(Some(long + LONG_LOG_PAGES));
        assert_eq!(
            plan.after_commit(log(long + LONG_LOG_PAGES + 100, long + LONG_LOG_PAGES)),
            Step::CopyRest
        );
    }

    #[test]
    fn without_the_other_thread_the_writing_thread_copies_all() {
        let mut plan = Plan { is_alone: true, ..Plan::NEW };
        assert_eq!(plan.after_commit(log(PASS_PAGES - 1, 0)), Step::Nothing);
        assert_eq!(plan.after_commit(log(PASS_PAGES, 0)), Step::CopyRest);
    }

    #[test]
    fn large_jobs_wait_while_a_pass_is_late() {
        let mut plan = Plan::NEW;
        assert_eq!(plan.after_commit(log(SLOW_LOG_PAGES - 1_000, 0)), Step::StartPass);
        assert_eq!(plan.after_commit(log(SLOW_LOG_PAGES, 0)), Step::Nothing);
        assert!(!plan.is_behind(), "little has come meanwhile");
        assert_eq!(plan.after_commit(log(SLOW_LOG_PAGES + 1_000, 0)), Step::Nothing);
        assert!(plan.is_behind());
        plan.after_pass(Some(1_000));
        assert!(!plan.is_behind(), "if a reader is in the way, waiting does not help");
        plan.after_pass(Some(SLOW_LOG_PAGES + 1_000));
        assert_eq!(plan.after_commit(log(SLOW_LOG_PAGES + 1_010, SLOW_LOG_PAGES + 1_000)), Step::CopyRest);
        assert_eq!(plan.after_commit(log(PASS_PAGES, 0)), Step::StartPass);
        assert_eq!(plan.after_commit(log(SLOW_LOG_PAGES - 1, 0)), Step::Nothing);
        assert!(!plan.is_behind(), "the log is short");
    }

    #[test]
    fn a_reader_in_the_way_is_not_asked_after_each_commit() {
        let mut plan = Plan::NEW;
        assert_eq!(plan.after_commit(log(4_000, 0)), Step::StartPass);
        plan.after_pass(Some(1_000));
        assert_eq!(plan.after_commit(log(4_010, 1_000)), Step::StartPass);
        plan.after_pass(Some(1_000));
        assert_eq!(plan.after_commit(log(8_000, 1_000)), Step::Nothing);
        assert_eq!(plan.after_commit(log(8_010, 1_000)), Step::StartPass);
        plan.after_pass(None);
        assert_eq!(plan.after_commit(log(12_000, 1_000)), Step::Nothing);
    }
}
