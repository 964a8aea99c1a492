//! Cursors: where the next page of one list starts. Opaque to clients, rejected by every other list, and made only here: the store
//! gets no position that a client invented.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use holdfast_core::ids::Tenant;
use sha2::{Digest, Sha256};

/// Enough that guessing is hopeless.
const MAC_LEN: usize = 16;

/// The secret of an installation that its cursors are made with. All processes of the installation have the same.
#[derive(Clone, Copy)]
pub(crate) struct CursorKey([u8; 32]);

impl CursorKey {
    /// Derived from the operators' keys, because every host has them and clients do not know them.
    pub(crate) fn derive<'a>(secrets: impl IntoIterator<Item = &'a str>) -> CursorKey {
        let mut hasher = Sha256::new_with_prefix("holdfast cursors");
        for secret in secrets {
            hasher.update((secret.len() as u64).to_be_bytes());
            hasher.update(secret);
        }
        CursorKey(hasher.finalize().into())
    }
}

/// Writes and reads the cursors of one list with its filters.
pub(crate) struct CursorCodec(Hmac<Sha256>);

impl CursorCodec {
    pub(crate) fn new(
        key: &CursorKey,
        list: &str,
        tenant: &Tenant,
        mut filters: Vec<(String, String)>,
    ) -> CursorCodec {
        filters.sort();
        let mut mac = Hmac::new_from_slice(&key.0).expect("HMAC takes keys of any length");
        let filters = filters.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        for part in [list, tenant.as_str()].into_iter().chain(filters) {
            // The length goes first, so that different lists never hash the same bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        CursorCodec(mac)
    }

    /// Covers the position too, so that a damaged cursor is rejected instead of continuing at another position.
    fn mac(&self, after: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(after)
    }

    pub(crate) fn encode(&self, after: &str) -> String {
        let mac = self.mac(after.as_bytes()).finalize().into_bytes();
        BASE64URL_NOPAD.encode(&[&mac[..MAC_LEN], after.as_bytes()].concat())
    }

    /// `None`: not a cursor of this list.
    pub(crate) fn decode(&self, cursor: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
        let (mac, after) = bytes.split_at_checked(MAC_LEN)?;
        self.mac(after).verify_truncated_left(mac).ok()?;
        String::from_utf8(after.to_vec()).ok()
    }
}
