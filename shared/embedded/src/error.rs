use std::path::PathBuf;

/// Why a database cannot be used. Each says in one sentence what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the folder {} cannot be created or written to: {why}", .dir.display())]
    NotWritable { dir: PathBuf, why: String },
    #[error("the folder {} is in use by another Holdfast", .dir.display())]
    InUse { dir: PathBuf },
    #[error("{} is damaged or not a Holdfast database: {why}", .file.display())]
    Corrupt { file: PathBuf, why: String },
    #[error("{} was written by a newer Holdfast: its schema is version {found}, this Holdfast knows {known}", .file.display())]
    Newer { file: PathBuf, found: u32, known: u32 },
    #[error("{} cannot be opened: {why}", .file.display())]
    Failed { file: PathBuf, why: String },
}
