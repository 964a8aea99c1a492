use holdfast_core::ids::{Tenant, fingerprint};

/// What is kept of a key: its hash, which tells nobody the key.
pub struct HashedKey(pub(super) String);

impl HashedKey {
    #[must_use]
    pub fn of(key: &str) -> HashedKey {
        HashedKey(fingerprint(key.as_bytes()))
    }
}

/// An operator's key that the host was configured with. It is listed beside the stored ones, and cannot be deleted.
pub struct BuiltIn {
    /// Stands where stored keys have their id: in lists and in histories.
    pub name: &'static str,
    pub key: HashedKey,
    /// The tenant that is meant when a call names none. It exists although nobody made a key for it.
    pub home: Option<Tenant>,
    pub description: &'static str,
    /// A sentence for whoever tries to delete it: where it comes from, and how to change it.
    pub change: &'static str,
}
