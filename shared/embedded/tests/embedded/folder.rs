//! Who can open the files, and that only one process does.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holdfast_embedded::{Database, OpenError};

const FILES: [&str; 4] = ["holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "holdfast.state"];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn refusal(dir: &Path) -> OpenError {
    Database::open(dir).err().expect("it was opened")
}

#[test]
fn a_new_folder_and_its_files_are_for_the_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _database = Database::open(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);
    for name in FILES {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_folder_and_files_that_were_opened_to_others_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    set_mode(dir.path(), 0o755);
    for name in FILES {
        set_mode(&dir.path().join(name), 0o666);
    }
    let _database = Database::open(dir.path()).unwrap();
    assert_eq!(mode(dir.path()), 0o700);
    for name in FILES {
        assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_folder_that_others_use_too_is_refused_and_left_open() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("theirs"), "").unwrap();
    set_mode(dir.path(), 0o755);
    let refused = refusal(dir.path());
    assert!(matches!(refused, OpenError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("mode 755"), "{refused}");
    assert_eq!(mode(dir.path()), 0o755);
}

#[test]
fn a_linked_database_is_refused() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Database::open(elsewhere.path()).unwrap());
    std::os::unix::fs::symlink(elsewhere.path().join("holdfast.db"), dir.path().join("holdfast.db")).unwrap();
    let refused = refusal(dir.path());
    assert!(matches!(refused, OpenError::Unsafe { .. }), "{refused}");
}

#[test]
fn a_second_holdfast_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let refused = refusal(dir.path());
    assert!(matches!(refused, OpenError::InUse { .. }));
    assert!(refused.to_string().contains("in use by another Holdfast"));
    drop(database);
    Database::open(dir.path()).unwrap();
}

#[test]
fn removing_files_does_not_let_a_second_holdfast_in() {
    let dir = tempfile::tempdir().unwrap();
    let _database = Database::open(dir.path()).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(matches!(refusal(dir.path()), OpenError::InUse { .. }));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was created");
}
