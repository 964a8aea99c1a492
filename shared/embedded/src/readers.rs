use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use holdfast_core::ports::Clock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::database::{Database, failed};
use crate::error::{Failure, OpenError};
use crate::files::Watch;
use crate::read_pool::ReadPool;

/// What a connection keeps in memory, in KiB. Enough for what one read needs: SQLite forgets all of it when something was written since
/// the last read, and records that are read again and again have a cache of their own.
const CACHE_KIB: u32 = 4_096;

/// Read-only connections. Each read sees everything that was committed before it started.
///
/// Small reads of records that are few and always in memory, such as keys and tenants, run on the caller's thread: handing them to another
/// one would cost more. Lists, bodies and other records may have to come from the disk, and have threads of their own: a request worker that
/// waits for the disk would keep all tenants waiting.
pub(crate) struct Readers {
    connections: Vec<Mutex<Connection>>,
    turn: AtomicUsize,
    watch: Arc<Watch>,
    pool: ReadPool,
}

impl Readers {
    pub(crate) fn open(
        database: &Database,
        count: usize,
        clock: Arc<dyn Clock>,
    ) -> Result<Readers, OpenError> {
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&database.file, flags)?;
            // The marker decides when the write-ahead log may go, and not who closes the file last.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB};"))?;
            connection.set_prepared_statement_cache_capacity(32);
            Ok(connection)
        };
        let open_all = || {
            let all: rusqlite::Result<Vec<_>> = (0..count.max(1)).map(|_| open()).collect();
            all.map_err(|e| failed(&database.file, &e))
        };
        let pool = ReadPool::start(open_all()?, clock)
            .map_err(|e| OpenError::Failed { file: database.file.clone(), why: e.to_string() })?;
        Ok(Readers {
            connections: open_all()?.into_iter().map(Mutex::new).collect(),
            turn: AtomicUsize::new(0),
            watch: Arc::clone(&database.watch),
            pool,
        })
    }

    /// An error once the files of the database are lost.
    pub(crate) fn is_intact(&self) -> Result<(), Failure> {
        Ok(self.watch.is_intact()?)
    }

    /// Reads on the caller's thread: only a few small records that are probably in memory.
    pub(crate) fn read_here<T, E>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        self.is_intact()?;
        Ok(self.with_connection(read)?)
    }

    /// Reads on another thread, when it is the turn of this tenant. An empty name stands for Holdfast itself.
    pub(crate) async fn read<T, E>(
        &self,
        tenant: &str,
        read: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        Failure: From<E>,
    {
        self.is_intact()?;
        self.pool.read(tenant, move |connection| Ok(read(connection)?)).await
    }

    /// Ends the threads. Reads that need one fail from now on.
    pub(crate) fn stop(&self) {
        self.pool.stop();
    }

    fn with_connection<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        for connection in &self.connections {
            match connection.try_lock() {
                Ok(connection) => return read(&connection),
                Err(TryLockError::Poisoned(poisoned)) => return read(&poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        read(&self.connections[turn].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
