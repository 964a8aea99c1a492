use std::path::PathBuf;
use std::sync::Arc;

use holdfast_core::ports::{QueueError, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the folder {} cannot be created or written to: {why}", .dir.display())]
    NotWritable { dir: PathBuf, why: String },
    #[error("the folder {} is in use by another Holdfast", .dir.display())]
    InUse { dir: PathBuf },
    #[error("{} is damaged or not a Holdfast database: {why}", .file.display())]
    Corrupt { file: PathBuf, why: String },
    #[error("{} was written by a newer Holdfast: its schema has version {found}, and this Holdfast reads up to version {known}", .file.display())]
    Newer { file: PathBuf, found: u32, known: u32 },
    #[error("{} was written by a Holdfast before the first release: its schema has version {found}, and this Holdfast reads from version {oldest}; choose another folder", .file.display())]
    Older { file: PathBuf, found: u32, oldest: u32 },
    /// Starting would look like success and hide that data is missing.
    #[error("{} {why}", .file.display())]
    DataMissing { file: PathBuf, why: &'static str },
    /// Other users could read or change it.
    #[error("{} {why}", .path.display())]
    Unsafe { path: PathBuf, why: String },
    #[error("{} cannot be opened: {why}", .file.display())]
    Failed { file: PathBuf, why: String },
}

/// A file of the open database was removed or replaced, so that what is written now is lost when the process ends.
#[derive(Debug, thiserror::Error)]
#[error("{} was {what} while Holdfast had it open; stop Holdfast, restore a backup and start it again", .file.display())]
pub(crate) struct FileLost {
    pub(crate) file: PathBuf,
    pub(crate) what: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    FileLost(#[from] Arc<FileLost>),
    #[error("the database is closed")]
    Closed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        match failure {
            Failure::Sqlite(error) => StoreError::Failed(Arc::new(error)),
            Failure::FileLost(error) => StoreError::Failed(error),
            Failure::Closed => StoreError::Closed,
            Failure::Store(error) => error,
        }
    }
}

impl From<Failure> for QueueError {
    fn from(failure: Failure) -> QueueError {
        match failure {
            Failure::Sqlite(error) => QueueError::Failed(Arc::new(error)),
            Failure::FileLost(error) => QueueError::Failed(error),
            Failure::Closed => QueueError::Closed,
            Failure::Store(error) => QueueError::Failed(Arc::new(error)),
        }
    }
}
