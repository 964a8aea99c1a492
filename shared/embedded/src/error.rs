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
    #[error("{} cannot be opened: {why}", .file.display())]
    Failed { file: PathBuf, why: String },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("the writing thread has ended")]
    Closed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        match failure {
            Failure::Sqlite(error) => StoreError::Failed(Arc::new(error)),
            Failure::Closed => StoreError::Closed,
            Failure::Store(error) => error,
        }
    }
}

impl From<Failure> for QueueError {
    fn from(failure: Failure) -> QueueError {
        match failure {
            Failure::Sqlite(error) => QueueError::Failed(Arc::new(error)),
            Failure::Closed => QueueError::Closed,
            Failure::Store(error) => QueueError::Failed(Arc::new(error)),
        }
    }
}
