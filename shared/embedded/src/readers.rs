use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::database::{Database, failed};
use crate::error::{Failure, OpenError};
use crate::files::Watch;

/// Read-only connections. Each read sees everything that was committed before it started.
///
/// Reads are short and mostly from memory, so they run on the caller's thread: handing them to another one would cost more.
pub(crate) struct Readers {
    connections: Vec<Mutex<Connection>>,
    turn: AtomicUsize,
    watch: Arc<Watch>,
}

impl Readers {
    pub(crate) fn open(database: &Database, count: usize) -> Result<Readers, OpenError> {
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&database.file, flags)?;
            // The marker decides when the write-ahead log may go, and not who closes the file last.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.execute_batch("PRAGMA cache_size = -16384;")?;
            connection.set_prepared_statement_cache_capacity(32);
            Ok(Mutex::new(connection))
        };
        let connections: rusqlite::Result<Vec<_>> = (0..count.max(1)).map(|_| open()).collect();
        let connections = connections.map_err(|e| failed(&database.file, &e))?;
        Ok(Readers { connections, turn: AtomicUsize::new(0), watch: Arc::clone(&database.watch) })
    }

    /// An error once the files of the database are lost.
    pub(crate) fn is_intact(&self) -> Result<(), Failure> {
        Ok(self.watch.is_intact()?)
    }

    pub(crate) fn read<T, E>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        self.is_intact()?;
        Ok(self.with_connection(read)?)
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
