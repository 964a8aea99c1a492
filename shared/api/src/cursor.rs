//! Cursors: where the next page of one list starts. Opaque to clients, and rejected by every other list.

use data_encoding::BASE64URL_NOPAD;
use holdfast_core::ids::Tenant;
use sha2::{Digest, Sha256};

const CHECKSUM_LEN: usize = 8;

/// Writes and reads the cursors of one list with its filters.
pub(crate) struct CursorCodec(Sha256);

impl CursorCodec {
    pub(crate) fn new(list: &str, tenant: &Tenant, mut filters: Vec<(String, String)>) -> CursorCodec {
        filters.sort();
        let mut hasher = Sha256::new();
        let filters = filters.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        for part in [list, tenant.as_str()].into_iter().chain(filters) {
            // The length goes first, so that different lists never hash the same bytes.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        CursorCodec(hasher)
    }

    /// Covers the position too, so that a damaged cursor is rejected instead of continuing at another position.
    fn checksum(&self, after: &str) -> Vec<u8> {
        self.0.clone().chain_update(after).finalize()[..CHECKSUM_LEN].to_vec()
    }

    pub(crate) fn encode(&self, after: &str) -> String {
        BASE64URL_NOPAD.encode(&[&*self.checksum(after), after.as_bytes()].concat())
    }

    /// `None`: not a cursor of this list.
    pub(crate) fn decode(&self, cursor: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
        let (checksum, after) = bytes.split_at_checked(CHECKSUM_LEN)?;
        let after = std::str::from_utf8(after).ok()?;
        (self.checksum(after) == checksum).then(|| after.to_owned())
    }
}
