use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use crate::error::OpenError;
use crate::schema;

const FILE: &str = "holdfast.db";
const LOCK: &str = "holdfast.lock";
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How often the database was opened.
const OPENS: &str = "opens";
/// Up to this size, opening checks every page; beyond it, only the schema and the length of the file.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

/// An open database that nothing uses yet. No other process can open it while this, or what is made of it, exists.
pub struct Database {
    pub(crate) connection: Connection,
    /// The operating system releases the lock when the process ends, however it ends.
    pub(crate) lock: File,
    pub(crate) file: PathBuf,
    /// How often the database was opened, this time included.
    pub(crate) opens: u32,
}

impl Database {
    /// Opens the database in `dir`, which is created if needed, and brings its schema up to date.
    pub fn open(dir: &Path) -> Result<Database, OpenError> {
        let lock = lock(dir)?;
        let file = dir.join(FILE);
        check_header(&file)?;
        create_for_owner(&file)?;
        let connection = Connection::open(&file).map_err(|e| failed(&file, &e))?;
        let mut database = Database { connection, lock, file, opens: 0 };
        database.prepare().map_err(|e| failed(&database.file, &e))??;
        Ok(database)
    }

    pub fn meta(&self, name: &str) -> Result<Option<String>, OpenError> {
        read_meta(&self.connection, name).map_err(|e| failed(&self.file, &e))
    }

    pub fn set_meta(&self, name: &str, value: &str) -> Result<(), OpenError> {
        write_meta(&self.connection, name, value).map_err(|e| failed(&self.file, &e))
    }

    fn prepare(&mut self) -> rusqlite::Result<Result<(), OpenError>> {
        self.connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -65536;
             PRAGMA temp_store = MEMORY;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )?;
        self.connection.set_prepared_statement_cache_capacity(64);
        if let Err(refused) = self.check()? {
            return Ok(Err(refused));
        }
        schema::migrate(&mut self.connection, schema::MIGRATIONS)?;
        let before: u32 = read_meta(&self.connection, OPENS)?.and_then(|n| n.parse().ok()).unwrap_or(0);
        self.opens = before.saturating_add(1);
        write_meta(&self.connection, OPENS, &self.opens.to_string())?;
        Ok(Ok(()))
    }

    fn check(&self) -> rusqlite::Result<Result<(), OpenError>> {
        let corrupt = |why: String| Ok(Err(OpenError::Corrupt { file: self.file.clone(), why }));
        let tables: u32 =
            self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
        let found = schema::version(&self.connection)?;
        if found > schema::VERSION {
            let (file, known) = (self.file.clone(), schema::VERSION);
            return Ok(Err(OpenError::Newer { file, found, known }));
        }
        if found == 0 && tables > 0 {
            return corrupt("its tables are not Holdfast's".to_owned());
        }
        let pages: u32 = self.connection.pragma_query_value(None, "page_count", |r| r.get(0))?;
        let page_size: u32 = self.connection.pragma_query_value(None, "page_size", |r| r.get(0))?;
        // The write-ahead log was just moved into the file, so a shorter file was cut off.
        let length = fs::metadata(&self.file).map_or(0, |m| m.len());
        let whole = u64::from(pages) * u64::from(page_size);
        if length < whole {
            return corrupt(format!("it has {length} of {whole} bytes"));
        }
        if length <= MAX_CHECKED_BYTES {
            let verdict: String = self.connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
            if verdict != "ok" {
                return corrupt(verdict);
            }
        }
        Ok(Ok(()))
    }
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let not_writable = |e: std::io::Error| OpenError::NotWritable { dir: dir.to_owned(), why: e.to_string() };
    fs::create_dir_all(dir).map_err(not_writable)?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK))
        .map_err(not_writable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => Err(not_writable(e)),
    }
}

/// Only the owner may read the file: it contains signing secrets, tokens and payloads. SQLite's other files get the same mode.
fn create_for_owner(file: &Path) -> Result<(), OpenError> {
    match File::options().write(true).create_new(true).mode(0o600).open(file) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            let dir = file.parent().unwrap_or(file).to_owned();
            Err(OpenError::NotWritable { dir, why: e.to_string() })
        }
        _ => Ok(()),
    }
}

/// SQLite would treat a short file as an empty database and overwrite it.
fn check_header(file: &Path) -> Result<(), OpenError> {
    let mut header = Vec::new();
    match File::open(file).and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut header)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(OpenError::Failed { file: file.to_owned(), why: e.to_string() }),
        Ok(0) => Ok(()),
        Ok(_) if header == MAGIC => Ok(()),
        Ok(_) => Err(OpenError::Corrupt {
            file: file.to_owned(),
            why: "it does not start like a database".to_owned(),
        }),
    }
}

pub(crate) fn failed(file: &Path, e: &rusqlite::Error) -> OpenError {
    let (file, why) = (file.to_owned(), e.to_string());
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Corrupt { file, why },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            OpenError::NotWritable { dir: file.parent().unwrap_or(&file).to_owned(), why }
        }
        _ => OpenError::Failed { file, why },
    }
}

fn read_meta(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |r| r.get(0)).optional()
}

fn write_meta(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, value])?;
    Ok(())
}
