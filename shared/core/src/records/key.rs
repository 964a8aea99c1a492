use std::fmt;

use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{KeyId, Tenant};
use crate::rules::access::Role;
use crate::time::Timestamp;

/// A key to the API, without its text. Its id is derived from the hash, so that one record serves both to authenticate a caller and to
/// list the keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub id: KeyId,
    /// Only an operator's key may have none.
    pub tenant: Option<Tenant>,
    pub role: Role,
    /// SHA-256 of the whole key, in hex.
    pub hash: String,
    pub description: Option<String>,
    /// Keys live in real time: a schedule that runs faster does not make them older.
    pub created_at_real: Timestamp,
    pub expires_at_real: Option<Timestamp>,
}

// By hand, so that not even the hash reaches a log through `{:?}`.
impl fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRecord")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl KeyRecord {
    pub const PARTITION: &str = "keys";

    #[must_use]
    pub fn key(id: &KeyId) -> Key {
        Key::new(Self::PARTITION.to_owned(), id.as_str())
    }

    #[must_use]
    pub fn is_valid_at(&self, now_real: Timestamp) -> bool {
        self.expires_at_real.is_none_or(|expires_at| now_real < expires_at)
    }
}

/// Changes with every operator's key that is created or deleted, in the same transaction, so that two requests that delete the last two
/// at the same time conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorGuard {
    pub changes: u64,
}

impl OperatorGuard {
    #[must_use]
    pub fn key() -> Key {
        Key::new("operators".to_owned(), "guard")
    }
}

/// A tenant exists once it has a key, and stays: its things outlive its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRecord {
    pub tenant: Tenant,
    pub created_at_real: Timestamp,
}

impl TenantRecord {
    pub const PARTITION: &str = "tenants";

    #[must_use]
    pub fn key(tenant: &Tenant) -> Key {
        Key::new(Self::PARTITION.to_owned(), tenant.as_str())
    }
}
