//! Who may do what, and what tenants and keys may look like.

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Posts events of its tenant, and nothing else.
    Ingest,
    /// Reads everything that is its tenant's except secrets, and changes nothing.
    Viewer,
    /// Everything that is its tenant's, posting events too.
    Admin,
    /// Everything of all tenants, and the keys.
    Operator,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Ingest, Role::Viewer, Role::Admin, Role::Operator];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Viewer => "viewer",
            Role::Admin => "admin",
            Role::Operator => "operator",
        }
    }

    /// Whether a key of this role may do what asks for `needed`. An admin may do what the others of its tenant may, and an operator everything;
    /// posting and reading have nothing to do with each other.
    #[must_use]
    pub fn suffices(self, needed: Role) -> bool {
        self as u8 == needed as u8 || (self as u8 >= Role::Admin as u8 && self as u8 >= needed as u8)
    }
}

/// What every key begins with, so that a leaked one is recognised.
pub const KEY_PREFIX: &str = "hf_";
const MAX_KEY_LEN: usize = 256;

/// Whether this could be a key at all. What could not is rejected without a read.
#[must_use]
pub fn may_be_key(text: &[u8]) -> bool {
    text.len() <= MAX_KEY_LEN && text.starts_with(KEY_PREFIX.as_bytes())
}

/// A new key: 160 random bits in lower-case letters and digits.
#[must_use]
pub fn new_key(random: [u8; 20]) -> String {
    format!("{KEY_PREFIX}{}", data_encoding::BASE32_NOPAD.encode(&random).to_ascii_lowercase())
}

/// Looks at every byte whatever comes before it, so that the time it takes does not tell how much of a guess is right.
#[must_use]
pub fn same_hash(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_its_own_and_those_above_it_more() {
        use Role::{Admin, Ingest, Operator, Viewer};
        for (role, may) in [
            (Ingest, &[Ingest][..]),
            (Viewer, &[Viewer]),
            (Admin, &[Ingest, Viewer, Admin]),
            (Operator, &[Ingest, Viewer, Admin, Operator]),
        ] {
            for needed in Role::ALL {
                assert_eq!(role.suffices(needed), may.contains(&needed), "{role:?} for {needed:?}");
            }
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
    }

    #[test]
    fn a_new_key_may_be_one() {
        let key = new_key([255; 20]);
        assert_eq!(key, format!("hf_{}", "7".repeat(32)));
        assert!(may_be_key(key.as_bytes()) && may_be_key(&[b"hf_", &[b'x'; 253][..]].concat()));
        for other in [&b""[..], b"hf", b"HF_x", b"x", &[b"hf_", &[b'x'; 254][..]].concat()] {
            assert!(!may_be_key(other));
        }
    }

    #[test]
    fn hashes_are_the_same_or_not() {
        for (a, b) in [("", "a"), ("ab", "aB"), ("ab", "abc"), ("xb", "ab")] {
            assert!(!same_hash(a, b) && !same_hash(b, a) && same_hash(a, a));
        }
    }
}
