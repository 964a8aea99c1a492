//! A small file beside the database that says what must be there, so that a folder that lost data does not start as new.
//!
//! While the database is open, the marker says so, and the write-ahead log is never empty: the opening wrote to it. It is
//! emptied only after the marker says that the database was closed, when everything is in the database file.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::OpenError;
use crate::files;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Accepted events may be in the write-ahead log alone.
    Open,
    /// Everything is in the database file.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The id in the header of the database, which a backup changes.
    pub(crate) database: u32,
    pub(crate) state: State,
}

impl Marker {
    pub(crate) fn write(self, dir: &Path) -> io::Result<()> {
        let state = match self.state {
            State::Open => "open",
            State::Closed => "closed",
        };
        files::replace_file(&dir.join(files::MARKER), &format!("{state} {}\n", self.database))
    }

    /// `None` in a folder that never had a database, or for which this was asked for by deleting the marker.
    fn read(dir: &Path) -> Result<Option<Marker>, OpenError> {
        let file = dir.join(files::MARKER);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(OpenError::Failed { file, why: e.to_string() }),
        };
        let marker = parse(&text);
        marker.map(Some).ok_or(OpenError::DataMissing {
            file,
            why: "is damaged; delete it if the other files of the folder are complete, or restore a backup",
        })
    }
}

fn parse(text: &str) -> Option<Marker> {
    let (state, database) = text.trim_end().split_once(' ')?;
    let state = match state {
        "open" => State::Open,
        "closed" => State::Closed,
        _ => return None,
    };
    Some(Marker { database: database.parse().ok()?, state })
}

/// What the header of the database file says, before SQLite opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Missing,
    Empty,
    Id(u32),
}

/// Refuses a folder in which something is missing that was there.
pub(crate) fn check(dir: &Path, header: Header) -> Result<(), OpenError> {
    let log = dir.join(files::WRITE_AHEAD_LOG);
    let has_log = fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let marker = Marker::read(dir)?;
    let refuse = |file: &Path, why| Err(OpenError::DataMissing { file: file.to_owned(), why });
    match (header, marker) {
        (Header::Missing | Header::Empty, None) if !has_log => Ok(()),
        (Header::Missing, _) => refuse(
            &dir.join(files::DATABASE),
            "is missing, but this folder had a database; restore a backup, or delete the folder to start anew",
        ),
        (Header::Empty, _) => refuse(
            &dir.join(files::DATABASE),
            "is empty, but this folder had a database; restore a backup, or delete the folder to start anew",
        ),
        // SQLite would apply the log to a database that it does not belong to.
        (Header::Id(id), Some(marker)) if id != marker.database && has_log => refuse(
            &log,
            "belongs to another holdfast.db than the one in this folder; restore a backup into an empty folder",
        ),
        (Header::Id(id), Some(marker))
            if id == marker.database && marker.state == State::Open && !has_log =>
        {
            refuse(
                &log,
                "is missing or empty, but Holdfast did not stop in order, so that the last accepted events were in it; restore a backup, or delete holdfast.state to continue without them",
            )
        }
        (Header::Id(_), _) => Ok(()),
    }
}
