use holdfast_core::ids::{Tenant, fingerprint};

/// The hash of a key, which does not reveal the key.
pub struct HashedKey(pub(super) String);

impl HashedKey {
    #[must_use]
    pub fn of(key: &str) -> HashedKey {
        HashedKey(fingerprint(key.as_bytes()))
    }
}

/// An operator key that the host was configured with. It is listed beside the stored ones, and cannot be deleted.
pub struct BuiltIn {
    /// Used where stored keys have their id: in lists and in histories.
    pub name: &'static str,
    pub key: HashedKey,
    /// The default tenant of calls with this key. It exists without a stored key.
    pub home: Option<Tenant>,
    pub description: &'static str,
    /// A sentence for the answer to a delete: where the key comes from, and how to change it.
    pub change: &'static str,
}

impl BuiltIn {
    /// A key without a default tenant.
    #[must_use]
    pub fn operator(name: &'static str, key: &str, description: &'static str, change: &'static str) -> Self {
        BuiltIn { name, key: HashedKey::of(key), home: None, description, change }
    }
}
