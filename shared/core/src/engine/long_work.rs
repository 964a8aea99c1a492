//! Work that keeps a thread busy for milliseconds: each tenant does one piece of it at a time, so that others have their turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::lock::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ids::Tenant;

/// So many tenants are remembered before the first search for those without such work.
const MIN_PRUNED: usize = 1_024;

#[derive(Default)]
pub(super) struct LongWork(Mutex<HashMap<Tenant, Weak<AsyncMutex<()>>>>);

impl LongWork {
    /// Waits for the turn of this tenant, which ends when the guard is dropped.
    pub(super) async fn turn(&self, tenant: &Tenant) -> OwnedMutexGuard<()> {
        self.of(tenant).lock_owned().await
    }

    fn of(&self, tenant: &Tenant) -> Arc<AsyncMutex<()>> {
        let mut by_tenant = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = by_tenant.get(tenant).and_then(Weak::upgrade) {
            return found;
        }
        if by_tenant.len() >= MIN_PRUNED {
            by_tenant.retain(|_, turn| turn.strong_count() > 0);
        }
        let new = Arc::default();
        by_tenant.insert(tenant.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_tenant_has_one_turn_at_a_time_and_others_have_their_own() {
        let work = LongWork::default();
        let turn = |tenant: &str| work.turn(&tenant.into()).now_or_never();
        let first = turn("a");
        assert!(first.is_some() && turn("a").is_none() && turn("b").is_some());
        drop(first);
        assert!(turn("a").is_some());
    }

    #[test]
    fn tenants_without_work_are_forgotten() {
        let work = LongWork::default();
        let held = work.turn(&"held".into()).now_or_never();
        for n in 0..MIN_PRUNED * 3 {
            work.turn(&n.to_string().as_str().into()).now_or_never();
        }
        assert!(work.0.lock().unwrap().len() <= MIN_PRUNED);
        assert!(work.turn(&"held".into()).now_or_never().is_none());
        drop(held);
    }
}
