//! Whose key a request is made with.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_core::ids::Tenant;

/// Who answers for what a request uses. In the extensions of every request that has a valid key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyHolder {
    Tenant(Tenant),
    Operators,
}

impl KeyHolder {
    /// The same for the same holder, in this process.
    pub(super) fn number(&self) -> NonZeroU64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
    }
}

/// A host puts one into the extensions of all requests of a connection, to learn whether it is used with a valid key.
#[derive(Clone, Default)]
pub struct KeyUse(Arc<AtomicU64>);

impl KeyUse {
    /// A number for the holder of the key that was used last: a tenant, or the operators. `None`: no request had a valid key.
    #[must_use]
    pub fn holder(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0.load(Ordering::Relaxed))
    }

    pub fn record(&self, holder: NonZeroU64) {
        self.0.store(holder.get(), Ordering::Relaxed);
    }
}
