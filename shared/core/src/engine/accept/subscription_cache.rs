//! The tenants' subscriptions in memory, known to be current by one small read.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{Engine, Result};
use crate::ids::{SubscriptionId, Tenant};
use crate::ports::Query;
use crate::records::{Key, Subscription, SubscriptionChange};
use crate::rules::matching::{Selector, SubscriptionIndex};

/// Beyond either of these, the least recently used tenant is evicted.
const MAX_TENANTS: usize = 10_000;
const MAX_SUBSCRIPTIONS: usize = 50_000;
const PAGE: usize = 500;
/// A cache that is further behind reads all subscriptions again.
const MAX_CHANGES: u64 = 200;

#[derive(Default)]
pub(crate) struct SubscriptionCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_tenant: HashMap<Tenant, Known>,
    /// How many subscriptions there are in all of them.
    size: usize,
    /// Counts uses, to tell which was the last.
    uses: u64,
}

/// A tenant's subscriptions as of a version, or later.
struct Known {
    version: u64,
    index: Arc<SubscriptionIndex>,
    used: u64,
}

/// What became of some subscriptions; `None` for those that are gone.
type Changed = Vec<(SubscriptionId, Option<Arc<Selector>>)>;

impl SubscriptionCache {
    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn get(&mut self, tenant: &Tenant) -> Option<(u64, Arc<SubscriptionIndex>)> {
        self.uses += 1;
        let known = self.by_tenant.get_mut(tenant)?;
        known.used = self.uses;
        Some((known.version, Arc::clone(&known.index)))
    }

    /// Unless it holds a newer version.
    fn put(&mut self, tenant: &Tenant, version: u64, index: Arc<SubscriptionIndex>) {
        if self.by_tenant.get(tenant).is_some_and(|known| known.version >= version) {
            return;
        }
        self.evict(tenant);
        self.uses += 1;
        self.size += index.len();
        self.by_tenant.insert(tenant.clone(), Known { version, index, used: self.uses });
        self.make_room();
    }

    /// Brings a tenant from a version between `from` and `to` to `to`. `None`: it is at none of them.
    fn catch_up(
        &mut self,
        tenant: &Tenant,
        (from, to): (u64, u64),
        changed: Changed,
    ) -> Option<Arc<SubscriptionIndex>> {
        let known = self.by_tenant.get_mut(tenant).filter(|known| known.version >= from)?;
        if known.version < to {
            let before = known.index.len();
            // Copied only if an event is being matched with it right now.
            let index = Arc::make_mut(&mut known.index);
            for (id, subscription) in changed {
                match subscription {
                    Some(subscription) => index.insert(&subscription),
                    None => index.remove(&id),
                }
            }
            known.version = to;
            self.size = self.size - before + known.index.len();
        }
        let index = Arc::clone(&known.index);
        self.make_room();
        Some(index)
    }

    fn make_room(&mut self) {
        // One that is too large alone is kept: it is in use.
        while self.by_tenant.len() > 1
            && (self.by_tenant.len() > MAX_TENANTS || self.size > MAX_SUBSCRIPTIONS)
        {
            let oldest = self.by_tenant.iter().min_by_key(|(_, known)| known.used);
            let Some(tenant) = oldest.map(|(tenant, _)| tenant.clone()) else { return };
            self.evict(&tenant);
        }
    }

    fn evict(&mut self, tenant: &Tenant) {
        if let Some(known) = self.by_tenant.remove(tenant) {
            self.size -= known.index.len();
        }
    }
}

impl Engine {
    /// The tenant's subscriptions as of this version or later. The version is read first, so that one made a moment ago counts:
    /// a change in between is loaded early, never missed.
    pub(super) async fn subscriptions_at(
        &self,
        tenant: &Tenant,
        version: u64,
    ) -> Result<Arc<SubscriptionIndex>> {
        let known = self.subscriptions.lock().get(tenant);
        if let Some((known_version, index)) = known {
            if known_version >= version {
                return Ok(index);
            }
            drop(index);
            if let Some(caught_up) = self.catch_up(tenant, known_version, version).await? {
                return Ok(caught_up);
            }
        }
        let index = Arc::new(self.load_subscriptions(tenant).await?);
        self.subscriptions.lock().put(tenant, version, Arc::clone(&index));
        Ok(index)
    }

    /// Reads only what changed. `None`: the change log no longer goes back that far.
    async fn catch_up(&self, tenant: &Tenant, from: u64, to: u64) -> Result<Option<Arc<SubscriptionIndex>>> {
        if to - from > MAX_CHANGES {
            return Ok(None);
        }
        let (reached, ids) = self.changes_after(tenant, from).await?;
        if reached < to {
            return Ok(None);
        }
        let keys: Vec<Key> = ids.iter().map(|id| Subscription::key(tenant, id)).collect();
        let found = self.repository.get_each::<Subscription>(&keys).await?;
        let changed = ids
            .into_iter()
            .zip(found)
            .map(|(id, found)| Ok((id, found?.map(|loaded| Arc::new(loaded.record.selector())))));
        let changed = changed.collect::<Result<Changed>>()?;
        Ok(self.subscriptions.lock().catch_up(tenant, (from, reached), changed))
    }

    /// Which subscriptions were changed by the versions after `from`, as far as they are known without a gap, and by which
    /// version the last of them was.
    async fn changes_after(&self, tenant: &Tenant, from: u64) -> Result<(u64, BTreeSet<SubscriptionId>)> {
        let query = Query::of(SubscriptionChange::partition(tenant), MAX_CHANGES as usize)
            .after(Some(SubscriptionChange::sort(from)));
        let (mut reached, mut ids) = (from, BTreeSet::new());
        for change in self.repository.list::<SubscriptionChange>(query).await?.items {
            if change.version != reached + 1 {
                break;
            }
            reached = change.version;
            ids.insert(change.subscription_id);
        }
        Ok((reached, ids))
    }

    async fn load_subscriptions(&self, tenant: &Tenant) -> Result<SubscriptionIndex> {
        let mut index = SubscriptionIndex::default();
        let mut after = None;
        loop {
            let query = Query::of(Subscription::partition(tenant), PAGE).after(after);
            let page = self.repository.list::<Subscription>(query).await?;
            for subscription in page.items {
                index.insert(&Arc::new(subscription.selector()));
            }
            after = page.next;
            if after.is_none() {
                return Ok(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(tenants: impl Iterator<Item = usize>) -> Cached {
        let mut cached = Cached::default();
        for number in tenants {
            cached.put(&Tenant(number.to_string()), 1, Arc::default());
        }
        cached
    }

    #[test]
    fn the_least_recently_used_tenant_is_evicted() {
        let mut cached = cached(0..MAX_TENANTS);
        cached.get(&"0".into()).unwrap();
        cached.put(&"one more".into(), 1, Arc::default());
        assert_eq!(cached.by_tenant.len(), MAX_TENANTS);
        assert!(cached.get(&"0".into()).is_some() && cached.get(&"1".into()).is_none());
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut cached = Cached::default();
        let (tenant, newer) = (Tenant::from("t"), Arc::<SubscriptionIndex>::default());
        cached.put(&tenant, 3, Arc::clone(&newer));
        cached.put(&tenant, 2, Arc::default());
        let (version, index) = cached.get(&tenant).unwrap();
        assert!(version == 3 && Arc::ptr_eq(&index, &newer));
        assert!(cached.catch_up(&tenant, (4, 5), Vec::new()).is_none(), "it does not know what 4 changed");
        assert!(cached.catch_up(&tenant, (1, 2), Vec::new()).is_some());
        assert_eq!(cached.get(&tenant).unwrap().0, 3);
        cached.catch_up(&tenant, (2, 5), Vec::new()).unwrap();
        assert_eq!(cached.get(&tenant).unwrap().0, 5);
    }
}
