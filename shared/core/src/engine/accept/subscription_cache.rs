//! The tenants' subscriptions in memory, known to be current by one small read.
//!
//! Each tenant has a budget of memory. Its index is read and brought up to date under a lock of the tenant's own, so that no other
//! tenant waits for it, and posts that need it at the same time do the work once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::lock::Mutex as AsyncMutex;

use crate::engine::{Engine, Result, Unavailable};
use crate::ids::{SubscriptionId, Tenant};
use crate::ports::Query;
use crate::records::{Key, Subscription, SubscriptionChange, TenantVersion};
use crate::rules::matching::{Explainer, Member, Selection, Selector, SubscriptionIndex};

/// Beyond either of these, the least recently used tenant is evicted.
const MAX_TENANTS: usize = 10_000;
/// How many tenants with all of their budget fit.
const MAX_FULL_TENANTS: u64 = 4;
const PAGE: usize = 500;
/// A cache that is further behind reads all subscriptions again.
const MAX_CHANGES: u64 = 200;
/// How much of a long search is done before others have their turn: a few milliseconds.
const WORK_PER_TURN: usize = 50_000;
/// Before the searches of a post, for all of its events together, count as long. Every post has this much without waiting for a turn.
pub(super) const WORK_AT_ONCE: usize = 5_000;

#[derive(Default)]
pub(crate) struct SubscriptionCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_tenant: HashMap<Tenant, Entry>,
    /// How much memory all of them take.
    bytes: u64,
    /// Counts uses, to tell which was the last.
    uses: u64,
}

struct Entry {
    subscriptions: Arc<OfTenant>,
    bytes: u64,
    used: u64,
}

/// The subscriptions of one tenant.
#[derive(Default)]
struct OfTenant {
    /// Locked while they are read or brought up to date.
    known: AsyncMutex<Option<Known>>,
}

/// As of a version, or later.
struct Known {
    version: u64,
    /// `None`: they need more memory than their tenant may take.
    index: Option<Arc<SubscriptionIndex>>,
}

/// What became of some subscriptions; `None` for those that are gone.
type Changed = Vec<(SubscriptionId, Option<Selector>)>;

impl SubscriptionCache {
    /// How large the tenant's index is, as far as it is known.
    pub(super) fn bytes_of(&self, tenant: &Tenant) -> u64 {
        self.lock().by_tenant.get(tenant).map_or(0, |entry| entry.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn get(&mut self, tenant: &Tenant) -> Arc<OfTenant> {
        self.uses += 1;
        let new = || Entry { subscriptions: Arc::default(), bytes: 0, used: 0 };
        let entry = self.by_tenant.entry(tenant.clone()).or_insert_with(new);
        entry.used = self.uses;
        Arc::clone(&entry.subscriptions)
    }

    /// A tenant's subscriptions have this size now.
    fn resize(&mut self, tenant: &Tenant, bytes: u64, max_bytes: u64) {
        if let Some(entry) = self.by_tenant.get_mut(tenant) {
            self.bytes = self.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
        }
        while self.by_tenant.len() > 1 && (self.by_tenant.len() > MAX_TENANTS || self.bytes > max_bytes) {
            let oldest = self.by_tenant.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) else { return };
            if let Some(evicted) = self.by_tenant.remove(&oldest) {
                self.bytes -= evicted.bytes;
            }
        }
    }
}

impl Known {
    fn index(&self, max_bytes: u64) -> Result<Arc<SubscriptionIndex>> {
        self.index.clone().ok_or(Unavailable::SubscriptionsTooLarge { max_bytes })
    }

    /// Copies the index only if an event is being matched with it right now.
    fn apply(&mut self, version: u64, changed: Changed, max_bytes: u64) {
        if let Some(index) = &mut self.index {
            let index = Arc::make_mut(index);
            for (id, selector) in changed {
                match selector {
                    Some(selector) => index.insert(&selector),
                    None => index.remove(&id),
                }
            }
            if index.bytes() > max_bytes {
                self.index = None;
            }
        }
        self.version = version;
    }
}

/// The subscriptions that get an event.
pub(super) struct Recipients {
    pub(super) members: Vec<Arc<Member>>,
    /// There are none, and only because of filters.
    pub(super) are_refused: bool,
}

impl Engine {
    /// The tenant's subscriptions as of this version or later. The version is read first, so that one made a moment ago counts:
    /// a change in between is loaded early, never missed.
    pub(super) async fn subscriptions_at(&self, current: &TenantVersion) -> Result<Arc<SubscriptionIndex>> {
        let TenantVersion { tenant, version, .. } = current;
        let version = *version;
        let max_bytes = self.settings.max_index_bytes;
        let of_tenant = self.subscriptions.lock().get(tenant);
        let mut known = of_tenant.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.version >= version) {
            return known.index(max_bytes);
        }
        let from = known.as_ref().filter(|known| known.index.is_some()).map(|known| known.version);
        let changes = match from {
            Some(from) => self.changes_between(tenant, from, version).await?,
            None => None,
        };
        match (&mut *known, changes) {
            (Some(known), Some((reached, changed))) => known.apply(reached, changed, max_bytes),
            (known, _) => *known = Some(self.load_subscriptions(current).await?),
        }
        let index = known.as_ref().map_or(Ok(Arc::default()), |known| known.index(max_bytes));
        let bytes = index.as_ref().map_or(0, |index| index.bytes());
        self.subscriptions.lock().resize(tenant, bytes, max_bytes.saturating_mul(MAX_FULL_TENANTS));
        index
    }

    /// What the versions after `from` changed, and the version reached. `None`: the change log no longer goes back that far.
    async fn changes_between(&self, tenant: &Tenant, from: u64, to: u64) -> Result<Option<(u64, Changed)>> {
        if to - from > MAX_CHANGES {
            return Ok(None);
        }
        let (reached, ids) = self.changes_after(tenant, from).await?;
        if reached < to {
            return Ok(None);
        }
        let keys: Vec<Key> = ids.iter().map(|id| Subscription::key(tenant, id)).collect();
        let found = self.repository.get_each::<Subscription>(&keys).await?;
        let changed = ids.into_iter().zip(found);
        let changed = changed.map(|(id, found)| Ok((id, found?.map(|loaded| loaded.record.selector()))));
        Ok(Some((reached, changed.collect::<Result<_>>()?)))
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

    /// By the latest snapshot and what changed since. If there is none, or too much changed, all of them are read, and a snapshot is
    /// stored for the next process that starts.
    async fn load_subscriptions(&self, current: &TenantVersion) -> Result<Known> {
        if let Some(known) = self.load_by_snapshot(current).await? {
            return Ok(known);
        }
        let TenantVersion { tenant, version, .. } = current;
        let Some((index, selectors)) = self.load_all_subscriptions(tenant).await? else {
            return Ok(Known { version: *version, index: None });
        };
        self.store_snapshot(current, &selectors).await;
        Ok(Known { version: *version, index: Some(Arc::new(index)) })
    }

    async fn load_by_snapshot(&self, current: &TenantVersion) -> Result<Option<Known>> {
        let TenantVersion { tenant, version, .. } = current;
        let is_near = |from: &u64| version.checked_sub(*from).is_some_and(|behind| behind <= MAX_CHANGES);
        let Some(from) = current.snapshot.filter(is_near) else { return Ok(None) };
        let Some(selectors) = self.load_snapshot(tenant, from).await else { return Ok(None) };
        let mut index = SubscriptionIndex::default();
        selectors.iter().for_each(|selector| index.insert(selector));
        let mut known = Known { version: from, index: Some(Arc::new(index)) };
        let Some((reached, changed)) = self.changes_between(tenant, from, *version).await? else {
            return Ok(None);
        };
        known.apply(reached, changed, self.settings.max_index_bytes);
        Ok(Some(known))
    }

    /// `None`: they need more memory than their tenant may take. No more than that is read.
    async fn load_all_subscriptions(
        &self,
        tenant: &Tenant,
    ) -> Result<Option<(SubscriptionIndex, Vec<Selector>)>> {
        let (mut index, mut selectors) = (SubscriptionIndex::default(), Vec::new());
        let mut after = None;
        loop {
            let query = Query::of(Subscription::partition(tenant), PAGE).after(after);
            let page = self.repository.list::<Subscription>(query).await?;
            // Those that are not active take no deliveries, and do not count in the budget.
            for subscription in page.items.into_iter().filter(|subscription| subscription.active) {
                let selector = subscription.selector();
                index.insert(&selector);
                selectors.push(selector);
                if index.bytes() > self.settings.max_index_bytes {
                    tracing::error!(%tenant, max_bytes = self.settings.max_index_bytes, "subscriptions.too_large");
                    return Ok(None);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(Some((index, selectors)));
            }
        }
    }

    /// Those that want an event. `at_once`: how much the post may still do without waiting for a turn.
    pub(super) async fn find_recipients(
        &self,
        tenant: &Tenant,
        subscriptions: &SubscriptionIndex,
        (event_type, body): (&str, &[u8]),
        at_once: &mut usize,
    ) -> Recipients {
        let mut search = subscriptions.search(event_type, body);
        if !search.step(at_once) {
            self.work_in_turns(tenant, || search.step(&mut { WORK_PER_TURN })).await;
        }
        Recipients { are_refused: search.is_refused(), members: search.matched() }
    }

    /// What becomes of an event at one subscription. The body is read for it, so it takes its turns among the tenants.
    pub(in crate::engine) async fn select(
        &self,
        tenant: &Tenant,
        one: &Selector,
        (event_type, body): (&str, &[u8]),
    ) -> Selection {
        let explainer = Explainer::new(one);
        let mut explaining = explainer.ask(event_type, body);
        self.work_in_turns(tenant, || explaining.step(&mut { WORK_PER_TURN })).await;
        // The last piece has found it.
        explaining.selection().unwrap_or(Selection::Matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_tenant_is_evicted() {
        let mut cached = Cached::default();
        for name in ["a", "b", "c"] {
            cached.get(&name.into());
            cached.resize(&name.into(), 40, 100);
        }
        assert_eq!((cached.by_tenant.len(), cached.bytes), (2, 80));
        assert!(!cached.by_tenant.contains_key(&Tenant::from("a")));
        cached.get(&"b".into());
        // One that is too large alone is kept: it is in use.
        cached.get(&"d".into());
        cached.resize(&"d".into(), 200, 100);
        assert_eq!((cached.by_tenant.len(), cached.bytes), (1, 200));
        assert!(cached.by_tenant.contains_key(&Tenant::from("d")));
    }
}
