use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_core::engine::{Actor, Engine, Unavailable};
use holdfast_core::ids::{KeyId, Tenant, fingerprint};
use holdfast_core::rules::access::{self, Role};

use super::built_in::{BuiltIn, HashedKey};
use super::cache::KeyCache;
use super::caller::Caller;
use crate::cursor::CursorKey;

const MAX_CACHED_TENANTS: usize = 10_000;

/// All valid keys: those that the host was configured with, and the stored ones. Only their hashes are kept.
pub struct Keys {
    built_in: Vec<BuiltIn>,
    cursor_key: CursorKey,
    cache: KeyCache,
    /// Tenants are never deleted, so one lookup for each is enough.
    tenants: Mutex<HashSet<Tenant>>,
}

impl Keys {
    #[must_use]
    pub fn new(built_in: Vec<BuiltIn>) -> Keys {
        let cursor_key = CursorKey::derive(built_in.iter().map(|key| key.key.0.as_str()));
        Keys { built_in, cursor_key, cache: KeyCache::default(), tenants: Mutex::default() }
    }

    /// One built-in key with the default tenant `home`.
    #[must_use]
    pub fn single(key: &str, home: Tenant) -> Keys {
        Keys::new(vec![BuiltIn {
            name: "built-in",
            key: HashedKey::of(key),
            home: Some(home),
            description: "The key that this host was started with",
            change: "Restart the host with another key instead.",
        }])
    }

    pub(crate) fn cursor_key(&self) -> CursorKey {
        self.cursor_key
    }

    pub(crate) fn built_in(&self) -> &[BuiltIn] {
        &self.built_in
    }

    /// The default tenants of the built-in keys, in order. They exist without a stored key.
    pub(super) fn homes(&self) -> Vec<&Tenant> {
        let mut homes: Vec<_> = self.built_in.iter().filter_map(|key| key.home.as_ref()).collect();
        homes.sort();
        homes.dedup();
        homes
    }

    /// After a key was deleted: this process rejects it at once, and others after their next lookup.
    pub(crate) fn evict(&self, id: &KeyId) {
        self.cache.evict(id);
    }

    pub(super) async fn find(&self, engine: &Engine, key: &[u8]) -> Result<Option<Caller>, Unavailable> {
        if !access::may_be_key(key) {
            return Ok(None);
        }
        let hash = fingerprint(key);
        if let Some(found) = self.built_in.iter().find(|built_in| access::same_hash(&built_in.key.0, &hash)) {
            let by = Actor::new(found.name, Role::Operator);
            return Ok(Some(Caller { by, home: found.home.clone() }));
        }
        let now = engine.clock().now_real();
        let cached = self.cache.get(&hash, now).filter(|key| key.is_valid_at(engine.clock().wall()));
        let key = match cached {
            Some(key) => key,
            None => {
                let revision = self.cache.revision();
                let Some(found) = engine.authenticate(&hash).await? else { return Ok(None) };
                let found = Arc::new(found);
                self.cache.insert(Arc::clone(&found), now, revision);
                found
            }
        };
        Ok(Some(Caller { by: Actor::new(key.id.as_str(), key.role), home: key.tenant.clone() }))
    }

    pub(super) async fn tenant_exists(&self, engine: &Engine, tenant: &Tenant) -> Result<bool, Unavailable> {
        let cached = || self.tenants.lock().unwrap_or_else(PoisonError::into_inner).contains(tenant);
        if self.homes().contains(&tenant) || cached() {
            return Ok(true);
        }
        let exists = engine.tenant_exists(tenant).await?;
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if exists && tenants.len() < MAX_CACHED_TENANTS {
            tenants.insert(tenant.clone());
        }
        Ok(exists)
    }
}
