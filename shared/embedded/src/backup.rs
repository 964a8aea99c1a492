//! A consistent copy of a database, also while a server uses it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::check::{self, CheckCursor};
use crate::database::{failed, read_header, write_new_id};
use crate::error::OpenError;
use crate::files;
use crate::marker::{self, Header, Marker, State};

/// The copy until it is complete.
const UNFINISHED: &str = "holdfast.db.new";
/// How many rows of the copy are checked at a time.
const CHECKED_ROWS: usize = 1000;

/// Makes `to`, which must be new or empty, a data folder with everything that was durable in `dir` when this was called, and
/// with those of the other `files` of `dir` that exist. Returns which rows are damaged: they are copied as they are.
///
/// A server that uses `dir` keeps running. Its write-ahead log grows meanwhile, because the copy reads one state of the database.
/// Not for the process of that server: closing a file of the database releases all locks that SQLite has on it in this process.
pub fn backup(dir: &Path, to: &Path, files: &[&str]) -> Result<Vec<String>, OpenError> {
    let source = dir.join(files::DATABASE);
    let header = read_header(&source)?;
    marker::check(dir, header)?;
    if !matches!(header, Header::Id(_)) {
        return Err(OpenError::DataMissing {
            file: source,
            why: "is missing or empty, so there is nothing to back up",
        });
    }
    let _lock = files::lock_folder(to)?;
    let not_writable = |e: io::Error| OpenError::NotWritable { dir: to.to_owned(), why: e.to_string() };
    if fs::read_dir(to).map_err(not_writable)?.next().is_some() {
        let why = "already contains files; choose a new or an empty folder for the backup".to_owned();
        return Err(OpenError::Unsafe { path: to.to_owned(), why });
    }
    // First, so that a folder with half a backup does not start as new.
    Marker { database: 0, state: State::Closed }.write(to).map_err(not_writable)?;
    let unfinished = to.join(UNFINISHED);
    files::create_file(&unfinished).map_err(not_writable)?;
    copy_database(&source, &unfinished)?;
    let (id, damaged) = finish_copy(&unfinished).map_err(|e| failed(&unfinished, &e))?;
    let finish = || {
        for name in files {
            copy_file(&dir.join(name), &to.join(name))?;
        }
        File::open(&unfinished)?.sync_all()?;
        Marker { database: id, state: State::Closed }.write(to)?;
        let database = to.join(files::DATABASE);
        fs::rename(&unfinished, &database)?;
        files::sync_folder_of(&database)
    };
    finish().map_err(not_writable)?;
    Ok(damaged)
}

fn copy_database(from: &Path, to: &Path) -> Result<(), OpenError> {
    let Some(target) = to.to_str() else {
        return Err(OpenError::Failed { file: to.to_owned(), why: "its path is not UTF-8".to_owned() });
    };
    // Unlike SQLite's backup in steps, which starts again whenever another process writes, this reads one state to the end.
    let copy = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(from, flags)?;
        // After a kill, the folder needs its write-ahead log at the next start.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute("VACUUM INTO ?1", [target])
    };
    copy().map(drop).map_err(|e| failed(from, &e))
}

/// Gives the copy its own id, so that the write-ahead log of the original is not taken for its own, and reads it once.
fn finish_copy(file: &Path) -> rusqlite::Result<(u32, Vec<String>)> {
    let connection = Connection::open(file)?;
    let id = write_new_id(&connection)?;
    let mut damaged = Vec::new();
    let mut cursor = Some(CheckCursor::START);
    while let Some(after) = cursor {
        let step = check::step(&connection, after, CHECKED_ROWS)?;
        damaged.extend(step.damaged);
        cursor = step.next;
    }
    Ok((id, damaged))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read_to_string(from) {
        Ok(content) => files::replace_file(to, &content),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}
