//! Cursors: where the next page of one list starts. Opaque to clients, and of no use with another list.

use data_encoding::BASE64URL_NOPAD;
use holdfast_core::ids::Tenant;
use sha2::{Digest, Sha256};

const TAG_LEN: usize = 8;

/// Tells one list, with its filters, from every other.
pub(crate) struct ListTag(Sha256);

impl ListTag {
    pub(crate) fn new(list: &str, tenant: &Tenant, mut filters: Vec<(String, String)>) -> ListTag {
        filters.sort();
        let mut hasher = Sha256::new();
        let filters = filters.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        for part in [list, tenant.as_str()].into_iter().chain(filters) {
            // The length goes first so that no two lists of parts read the same.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        ListTag(hasher)
    }

    /// Covers the place too, so that a damaged cursor is refused and not followed to a place that nobody meant.
    fn tag(&self, after: &str) -> [u8; TAG_LEN] {
        let full = self.0.clone().chain_update(after).finalize();
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&full[..TAG_LEN]);
        tag
    }

    pub(crate) fn cursor(&self, after: &str) -> String {
        BASE64URL_NOPAD.encode(&[&self.tag(after), after.as_bytes()].concat())
    }

    /// `None`: not a cursor of this list.
    pub(crate) fn read(&self, cursor: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
        let (tag, after) = bytes.split_at_checked(TAG_LEN)?;
        let after = std::str::from_utf8(after).ok()?;
        (self.tag(after) == tag).then(|| after.to_owned())
    }
}
