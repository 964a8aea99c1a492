use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use crate::error::OpenError;
use crate::files::{self, Watch};
use crate::marker::{self, Header, Marker, State};
use crate::schema;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header has the application id, in which Holdfast keeps the id of the database.
const ID_AT: usize = 68;
/// How often the database was opened.
const OPENS: &str = "opens";
/// The opening that ended with a close, or nothing while the database is open and after a crash.
pub(crate) const CLOSED: &str = "closed";
/// Up to this size, opening checks every page; beyond it, only the schema and the length of the file.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

/// An open database. No other process can open it while this exists.
pub struct Database {
    pub(crate) connection: Connection,
    pub(crate) file: PathBuf,
    /// How often the database was opened, this time included.
    pub(crate) opens: u32,
    pub(crate) watch: Arc<Watch>,
    dir: PathBuf,
    id: u32,
    /// Released last, so that no other process opens the file while the connection has it open.
    _lock: File,
}

/// What opening found out and wrote.
struct Prepared {
    opens: u32,
    id: u32,
}

impl Database {
    /// Opens the database in `dir`, which is created if needed, and brings its schema up to date.
    pub fn open(dir: &Path) -> Result<Database, OpenError> {
        let lock = files::lock_folder(dir)?;
        let file = dir.join(files::DATABASE);
        marker::check(dir, read_header(&file)?)?;
        let not_writable =
            |e: std::io::Error| OpenError::NotWritable { dir: dir.to_owned(), why: e.to_string() };
        files::create_file(&file).map_err(not_writable)?;
        let mut connection = Connection::open(&file).map_err(|e| failed(&file, &e))?;
        let Prepared { opens, id } = prepare(&mut connection, &file).map_err(|e| failed(&file, &e))??;
        let watch = Arc::new(Watch::start(dir).map_err(not_writable)?);
        // Before anything is accepted, and after the write-ahead log exists.
        Marker { database: id, state: State::Open }.write(dir).map_err(not_writable)?;
        Ok(Database { connection, file, opens, watch, dir: dir.to_owned(), id, _lock: lock })
    }

    pub fn meta(&self, name: &str) -> Result<Option<String>, OpenError> {
        read_meta(&self.connection, name).map_err(|e| failed(&self.file, &e))
    }

    pub fn set_meta(&self, name: &str, value: &str) -> Result<(), OpenError> {
        write_meta(&self.connection, name, value).map_err(|e| failed(&self.file, &e))
    }

    /// Moves everything into the database file, and marks it as complete. If that fails, the next opening needs the write-ahead
    /// log, as after a crash.
    fn close(&self) {
        // Other files than ours are left alone.
        if self.watch.check().is_err() || !matches!(checkpoint(&self.connection), Ok(true)) {
            return;
        }
        if (Marker { database: self.id, state: State::Closed }).write(&self.dir).is_ok() {
            let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);");
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.close();
    }
}

fn prepare(connection: &mut Connection, file: &Path) -> rusqlite::Result<Result<Prepared, OpenError>> {
    // SQLite must not remove the write-ahead log when the last connection is closed: after that, the marker would be wrong.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Not by SQLite after a commit: see `Checkpoints`.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -32768;
         PRAGMA temp_store = MEMORY;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    // Without emptying the log, because the marker may say that it must not be empty.
    let in_one_file = checkpoint(connection)?;
    if let Err(refused) = check(connection, file, in_one_file)? {
        return Ok(Err(refused));
    }
    schema::migrate(connection, schema::MIGRATIONS)?;
    let id = ensure_id(connection)?;
    let before: u32 = read_meta(connection, OPENS)?.and_then(|n| n.parse().ok()).unwrap_or(0);
    // After a close, the file has the exact receive counts, and this opening goes on from them.
    let was_closed = read_meta(connection, CLOSED)?.is_some_and(|closed| closed == before.to_string());
    let opens = if was_closed { before } else { before.saturating_add(1) };
    write_meta(connection, OPENS, &opens.to_string())?;
    write_meta(connection, CLOSED, "")?;
    Ok(Ok(Prepared { opens, id }))
}

/// Copies the write-ahead log into the database file. `false`: a reader, such as a backup, was in the way.
fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

/// The id of the database, which is in the header of its file, so that it can be read without SQLite.
fn ensure_id(connection: &Connection) -> rusqlite::Result<u32> {
    let found: u32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found != 0 {
        return Ok(found);
    }
    let id = write_new_id(connection)?;
    // The header must have it before the marker does.
    checkpoint(connection)?;
    Ok(id)
}

pub(crate) fn write_new_id(connection: &Connection) -> rusqlite::Result<u32> {
    let id: u32 = connection.query_row("SELECT max(1, random() & 0x7fffffff)", [], |row| row.get(0))?;
    connection.pragma_update(None, "application_id", id)?;
    Ok(id)
}

fn check(connection: &Connection, file: &Path, in_one_file: bool) -> rusqlite::Result<Result<(), OpenError>> {
    let corrupt = |why: String| Ok(Err(OpenError::Corrupt { file: file.to_owned(), why }));
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    let found = schema::version(connection)?;
    if found > schema::VERSION {
        return Ok(Err(OpenError::Newer { file: file.to_owned(), found, known: schema::VERSION }));
    }
    if found == 0 && tables > 0 {
        return corrupt("its tables are not Holdfast's".to_owned());
    }
    if found != 0 && found < schema::OLDEST {
        return Ok(Err(OpenError::Older { file: file.to_owned(), found, oldest: schema::OLDEST }));
    }
    let pages: u32 = connection.pragma_query_value(None, "page_count", |r| r.get(0))?;
    let page_size: u32 = connection.pragma_query_value(None, "page_size", |r| r.get(0))?;
    let length = fs::metadata(file).map_or(0, |m| m.len());
    let whole = u64::from(pages) * u64::from(page_size);
    if in_one_file && length < whole {
        return corrupt(format!("it has {length} of {whole} bytes"));
    }
    if length <= MAX_CHECKED_BYTES {
        let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        if verdict != "ok" {
            return corrupt(verdict);
        }
    }
    Ok(Ok(()))
}

/// SQLite would treat a short file as an empty database and overwrite it.
pub(crate) fn read_header(file: &Path) -> Result<Header, OpenError> {
    let mut header = Vec::new();
    match File::open(file).and_then(|f| f.take(100).read_to_end(&mut header)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Header::Missing),
        Err(e) => Err(OpenError::Failed { file: file.to_owned(), why: e.to_string() }),
        Ok(0) => Ok(Header::Empty),
        Ok(_) if header.starts_with(MAGIC) => {
            let id = header.get(ID_AT..).and_then(<[u8]>::first_chunk);
            Ok(Header::Id(id.map_or(0, |id| u32::from_be_bytes(*id))))
        }
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

pub(crate) fn write_meta(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, value])?;
    Ok(())
}
