use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{AuditId, Tenant};
use crate::rules::access::Role;
use crate::time::Timestamp;

/// Who changes something: the holder of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The id of the key, or the name of one that the host was configured with.
    pub key_id: String,
    pub role: Role,
}

impl Actor {
    #[must_use]
    pub fn new(key_id: impl Into<String>, role: Role) -> Actor {
        Actor { key_id: key_id.into(), role }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditAction {
    #[serde(rename = "subscription.created")]
    SubscriptionCreated,
    #[serde(rename = "subscription.updated")]
    SubscriptionUpdated,
    #[serde(rename = "subscription.deleted")]
    SubscriptionDeleted,
    #[serde(rename = "subscription.secret_rotated")]
    SecretRotated,
    #[serde(rename = "url.enabled")]
    UrlEnabled,
    #[serde(rename = "url.frozen")]
    UrlFrozen,
    #[serde(rename = "url.disabled")]
    UrlDisabled,
    #[serde(rename = "url.replayed")]
    UrlReplayed,
    #[serde(rename = "delivery.replayed")]
    DeliveryReplayed,
    #[serde(rename = "key.created")]
    KeyCreated,
    #[serde(rename = "key.deleted")]
    KeyDeleted,
    #[serde(rename = "tenant.quotas_changed")]
    QuotasChanged,
}

/// One change by the holder of a key. Written in the transaction of the change, so that nothing changes without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// `None`: the change of an operator's key that has no tenant.
    pub tenant: Option<Tenant>,
    pub id: AuditId,
    pub at: Timestamp,
    pub action: AuditAction,
    pub key_id: String,
    pub role: Role,
    /// The id of what was changed.
    pub target: String,
    /// What the caller gave as the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The names of the fields that were changed, never their values: these may be secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    pub remove_at: Timestamp,
}

impl AuditEntry {
    /// How long it is kept, also if what was changed is gone.
    pub const KEPT: Duration = Duration::from_secs(90 * 86_400);

    #[must_use]
    pub fn new(
        tenant: Option<&Tenant>,
        action: AuditAction,
        target: impl Into<String>,
        by: &Actor,
        (at, random): (Timestamp, [u8; 16]),
    ) -> AuditEntry {
        AuditEntry {
            tenant: tenant.cloned(),
            id: AuditId::new(at, random),
            at,
            action,
            key_id: by.key_id.clone(),
            role: by.role,
            target: target.into(),
            reason: None,
            changed: Vec::new(),
            remove_at: at + Self::KEPT,
        }
    }

    #[must_use]
    pub fn because(self, reason: Option<&str>) -> AuditEntry {
        AuditEntry { reason: reason.map(ToOwned::to_owned), ..self }
    }

    #[must_use]
    pub fn changing(self, fields: &[&str]) -> AuditEntry {
        AuditEntry { changed: fields.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// `None`: of what belongs to no tenant. No tenant is called `*`.
    #[must_use]
    pub fn partition(tenant: Option<&Tenant>) -> String {
        format!("audit#{}", tenant.map_or("*", Tenant::as_str))
    }

    /// In the order of time. The id makes two changes of the same moment two entries.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Self::partition(self.tenant.as_ref()), format!("{}#{}", self.at.sort_key(), self.id))
    }
}
