//! Runs worlds of the simulation on this store and its queues, with little memory, and checks the promises in each:
//! `cargo run --profile simulation -p holdfast-embedded --example simulation [seeds] [every]`.
//!
//! One thread of the store writes, so the same seed may tell another story each time. `shared/sim/README.md` says what a world is.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::engine::Settings;
use holdfast_core::ports::{Clock, Inbox, Queue, QueueName, Store};
use holdfast_core::records::{Key, Record};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options, decode_record};
use holdfast_sim::block_on;
use holdfast_sim::simulation::{Backend, Broken, Story, VISIBILITY, run_on};
use rusqlite::{Connection, OpenFlags};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// In memory, where there is such a place: a world makes thousands of writes, and whether a disk keeps its word is not tested here.
const MEMORY: &str = "/dev/shm";

struct OnFile {
    embedded: Embedded,
    clock: Arc<dyn Clock>,
    /// Reads what no port shows.
    connection: Mutex<Connection>,
    // Dropped last: the database lives in it.
    _folder: tempfile::TempDir,
}

impl OnFile {
    fn open(clock: Arc<dyn Clock>, keep_bodies: Option<Duration>) -> Result<OnFile, Failure> {
        let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir())?;
        let options = Options {
            visibility: VISIBILITY,
            memory_messages: 20,
            group_messages: 3,
            memory_bytes: 500,
            keep_bodies,
            readers: 1,
            ..Options::default()
        };
        let embedded = Embedded::open(folder.path(), Arc::clone(&clock), options)?;
        let file = folder.path().join("holdfast.db");
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(OnFile { embedded, clock, connection: Mutex::new(connection), _folder: folder })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> T {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        read(&connection).expect("the database can be read")
    }
}

fn record(row: &rusqlite::Row<'_>) -> rusqlite::Result<Record> {
    let (partition, sort): (String, String) = (row.get(0)?, row.get(1)?);
    let data: Vec<u8> = row.get(2)?;
    Ok(decode_record(&Key { partition, sort }, &data).expect("this release wrote it"))
}

impl Backend for OnFile {
    fn store(&self) -> &dyn Store {
        &*self.embedded.store
    }

    fn queue(&self) -> &dyn Queue {
        &*self.embedded.queue
    }

    fn inbox(&self) -> &dyn Inbox {
        &*self.embedded.queue
    }

    fn has_slow_queue(&self) -> bool {
        false
    }

    fn all(&self) -> Vec<Record> {
        self.read(|connection| {
            let query = "SELECT partition, sort, data FROM records ORDER BY partition, sort";
            connection.prepare_cached(query)?.query_map([], record)?.collect()
        })
    }

    fn purge(&self, now: Timestamp) {
        block_on(self.embedded.purge(now, usize::MAX)).expect("the store can write");
    }

    fn next_look_at(&self) -> Option<Timestamp> {
        let query = "SELECT min(look_at) FROM records WHERE look_at IS NOT NULL";
        let look_at: Option<i64> =
            self.read(|connection| connection.prepare_cached(query)?.query_row([], |row| row.get(0)));
        look_at.map(Timestamp::from_millis)
    }

    fn next_ready_at(&self, queue: QueueName) -> Option<Timestamp> {
        let ready_at = self.embedded.queue.next_ready_at(queue);
        if self.embedded.queue.messages(queue) == 0 || ready_at.is_some_and(|at| at <= self.clock.now()) {
            return ready_at;
        }
        // The writing thread also reads what waits in the file: its time must not be the world's.
        block_on(self.embedded.probe_write()).expect("the store can write");
        self.embedded.queue.next_ready_at(queue)
    }

    fn messages(&self, queue: QueueName) -> usize {
        self.embedded.queue.messages(queue) as usize
    }
}

/// The broken promise of this world, and its story.
fn run(seed: u64) -> Option<(Broken, Vec<String>)> {
    // In every other world, bodies are stored apart from their messages.
    let keep_bodies = (seed / 20).is_multiple_of(2).then(|| Settings::default().body_lifetime());
    let open = |clock| Arc::new(OnFile::open(clock, keep_bodies).expect("a new database can be opened")) as _;
    let outcome = run_on(seed, Story::told(), open);
    Some((outcome.broken?, outcome.story))
}

fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let seeds = arguments.next().unwrap_or(Ok(2_000))?;
    let every = arguments.next().unwrap_or(Ok(20))?.max(1);
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(every, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let found = run(seed).map(|found| (seed, found));
                    broken.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (seed, (promise, story)) in &broken {
        let file = std::env::temp_dir().join(format!("holdfast-simulation-{seed}.txt"));
        std::fs::write(&file, story.join("\n"))?;
        println!("seed {seed}: {}: {}; its story: {}", promise.promise, promise.what, file.display());
    }
    println!("{} seeds on the embedded store, {} broken", seeds.div_ceil(every), broken.len());
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
