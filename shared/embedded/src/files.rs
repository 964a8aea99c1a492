//! The files of a data folder: who may open them, which process uses them, and whether they are still there.

use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{FileLost, OpenError};

pub(crate) const DATABASE: &str = "holdfast.db";
pub(crate) const WRITE_AHEAD_LOG: &str = "holdfast.db-wal";
pub(crate) const SHARED_MEMORY: &str = "holdfast.db-shm";
pub(crate) const MARKER: &str = "holdfast.state";

const FOR_OWNER: u32 = 0o600;
const FOLDER_FOR_OWNER: u32 = 0o700;
/// What other users may do.
const OTHERS: u32 = 0o077;

/// Creates the folder if needed, closes it to other users, and locks it for this process.
///
/// The lock is on the folder itself: unlike a lock file, it cannot be removed and created again while a process holds it, and
/// another user cannot open a closed folder to lock it. The operating system releases it when the process ends, however it ends.
pub(crate) fn lock_folder(dir: &Path) -> Result<File, OpenError> {
    let not_writable = |e: io::Error| OpenError::NotWritable { dir: dir.to_owned(), why: e.to_string() };
    create_folder(dir).map_err(not_writable)?;
    close_folder(dir)?;
    let folder = File::open(dir).map_err(not_writable)?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => return Err(not_writable(e)),
    }
    // Another folder may have been moved here between opening and locking.
    let (locked, here) = (folder.metadata().map_err(not_writable)?, fs::metadata(dir).map_err(not_writable)?);
    if FileId::of(&locked) != FileId::of(&here) {
        return Err(OpenError::InUse { dir: dir.to_owned() });
    }
    for name in [DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY, MARKER] {
        close_file(&dir.join(name))?;
    }
    Ok(folder)
}

pub(crate) fn create_folder(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_FOR_OWNER).create(dir)
}

/// Creates an empty file that only its owner can read, unless it exists: a database contains signing secrets, tokens and
/// payloads. SQLite gives its other files the same mode.
pub(crate) fn create_file(file: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).mode(FOR_OWNER).open(file) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

/// Writes a file for its owner only, so that after a crash it has the old content or the new one.
pub fn replace_file(file: &Path, content: &str) -> io::Result<()> {
    use std::io::Write;
    let temporary = file.with_extension("new");
    let mut options = File::options();
    let mut written = options.write(true).create(true).truncate(true).mode(FOR_OWNER).open(&temporary)?;
    written.write_all(content.as_bytes())?;
    written.sync_all()?;
    fs::rename(&temporary, file)?;
    sync_folder_of(file)
}

/// Makes the names of new files durable.
pub(crate) fn sync_folder_of(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[derive(Debug, PartialEq, Eq)]
enum Access {
    OwnerOnly,
    TooWide,
    OtherOwner,
}

fn access(owner: u32, mode: u32, me: u32) -> Access {
    if owner != me {
        Access::OtherOwner
    } else if mode & OTHERS != 0 {
        Access::TooWide
    } else {
        Access::OwnerOnly
    }
}

fn access_of(path: &Path, metadata: &Metadata) -> Result<Access, OpenError> {
    let me = rustix::process::geteuid().as_raw();
    match access(metadata.uid(), metadata.mode(), me) {
        Access::OtherOwner => Err(unsafe_file(
            path,
            format!(
                "belongs to user {}, and Holdfast runs as user {me}; run Holdfast as its owner, or change the owner with `chown`",
                metadata.uid()
            ),
        )),
        access => Ok(access),
    }
}

fn unsafe_file(path: &Path, why: impl Into<String>) -> OpenError {
    OpenError::Unsafe { path: path.to_owned(), why: why.into() }
}

fn close_folder(dir: &Path) -> Result<(), OpenError> {
    let failed = |e: io::Error| unsafe_file(dir, format!("cannot be closed to other users: {e}"));
    let metadata = fs::metadata(dir).map_err(failed)?;
    if access_of(dir, &metadata)? == Access::OwnerOnly {
        return Ok(());
    }
    // A folder that others use too, such as `/tmp`, must not be closed to them.
    let is_ours = dir.join(DATABASE).exists() || dir.join(MARKER).exists();
    if !is_ours && fs::read_dir(dir).map_err(failed)?.next().is_some() {
        let mode = metadata.mode() & 0o7777;
        return Err(unsafe_file(
            dir,
            format!(
                "is open to other users (mode {mode:o}) and contains other files; choose a folder for Holdfast alone, or close this one with `chmod 700`"
            ),
        ));
    }
    fs::set_permissions(dir, Permissions::from_mode(FOLDER_FOR_OWNER)).map_err(failed)
}

/// Closes a file of the data folder to other users, if there is such a file. Refuses one of another user.
pub fn close_file(file: &Path) -> Result<(), OpenError> {
    let failed = |e: io::Error| unsafe_file(file, format!("cannot be closed to other users: {e}"));
    let metadata = match fs::symlink_metadata(file) {
        Ok(metadata) => metadata,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(e) => return Err(failed(e)),
    };
    if !metadata.is_file() {
        // SQLite would look for the write-ahead log beside the file that a link points to.
        return Err(unsafe_file(
            file,
            "is not a regular file; move the whole data folder instead of linking files",
        ));
    }
    match access_of(file, &metadata)? {
        Access::TooWide => fs::set_permissions(file, Permissions::from_mode(FOR_OWNER)).map_err(failed),
        _ => Ok(()),
    }
}

/// Which file this is, under whatever name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Notices when a file of the open database is removed or replaced: SQLite keeps writing to the old file, which is gone when
/// the process ends.
pub(crate) struct Watch {
    files: Vec<(PathBuf, FileId)>,
    /// To flush the database file. Each connection is closed before it lets go of the watch: closing this file releases the locks that
    /// SQLite has on it.
    database: File,
    /// Once a file is lost, it stays lost: what was written since is not in a file that lies there later.
    lost: OnceLock<Arc<FileLost>>,
}

impl Watch {
    /// Watches the files that are there now, so that all of them must exist.
    pub(crate) fn start(dir: &Path) -> io::Result<Watch> {
        let file = |name| {
            let path = dir.join(name);
            let id = FileId::of(&fs::metadata(&path)?);
            Ok((path, id))
        };
        let files =
            [DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY].map(file).into_iter().collect::<io::Result<_>>()?;
        let database = File::open(dir.join(DATABASE))?;
        Ok(Watch { files, database, lost: OnceLock::new() })
    }

    /// Returns once everything that was written to the database file, without the write-ahead log, is on the disk.
    pub(crate) fn flush_database(&self) -> io::Result<()> {
        self.database.sync_data()
    }

    /// What the last check found.
    pub(crate) fn is_intact(&self) -> Result<(), Arc<FileLost>> {
        self.lost.get().map_or(Ok(()), |lost| Err(Arc::clone(lost)))
    }

    /// Looks at the files, which takes microseconds.
    pub(crate) fn check(&self) -> Result<(), Arc<FileLost>> {
        self.is_intact()?;
        let Some(found) = self.files.iter().find_map(|(path, id)| find_loss(path, *id)) else {
            return Ok(());
        };
        tracing::error!(error = %found, "the database is lost; all requests fail from now on");
        Err(Arc::clone(self.lost.get_or_init(|| Arc::new(found))))
    }
}

fn find_loss(path: &Path, id: FileId) -> Option<FileLost> {
    let what = match fs::metadata(path) {
        Ok(metadata) if FileId::of(&metadata) == id => return None,
        Ok(_) => "replaced",
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => "removed",
        // That it cannot be looked at does not mean that it is gone.
        Err(_) => return None,
    };
    Some(FileLost { file: path.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_has_access() {
        let table = [
            (1000, 0o600, Access::OwnerOnly),
            (1000, 0o100_700, Access::OwnerOnly),
            (1000, 0o640, Access::TooWide),
            (1000, 0o602, Access::TooWide),
            (1000, 0o755, Access::TooWide),
            (1001, 0o600, Access::OtherOwner),
            (0, 0o777, Access::OtherOwner),
        ];
        for (owner, mode, expected) in table {
            assert_eq!(access(owner, mode, 1000), expected, "{owner} {mode:o}");
        }
    }
}
