//! Checksums over what is stored: SQLite has none on its pages and would return a flipped byte as data.

use holdfast_core::records::Unreadable;

/// The checksum of a row: of its key, so that a row under another key is noticed too, and of its content.
pub(crate) fn of(key: &[&[u8]], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in key {
        hasher.update(part);
        hasher.update(&[0]);
    }
    hasher.update(content);
    hasher.finalize()
}

pub(crate) fn check(stored: i64, key: &[&[u8]], content: &[u8]) -> Result<(), Unreadable> {
    if i64::from(of(key, content)) == stored { Ok(()) } else { Err(mismatch()) }
}

fn mismatch() -> Unreadable {
    Unreadable::Corrupt(
        "its checksum does not match, so the file is damaged; restore a backup to get it back".to_owned(),
    )
}
