//! What surrounds a batch of deliveries: their subscriptions, and the health of their URLs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::{Engine, Unavailable};
use crate::ids::{DeliveryKey, SubscriptionId, Tenant, UrlId};
use crate::ports::{MOST_KEYS, Versioned};
use crate::records::{Key, Reason, Record, Subscription, UrlRecord};
use crate::rules::health::UrlState;
use crate::rules::resettle::wanting;
use crate::time::Timestamp;

/// An attempt starts at most this long after its health read began, so that a freeze is obeyed at once.
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn is_fresh(read_began_real: Timestamp, now_real: Timestamp) -> bool {
    now_real.since(read_began_real) <= FRESH
}

pub(super) struct Surroundings {
    read_began_real: Timestamp,
    subscriptions: HashMap<(Tenant, SubscriptionId), Subscription>,
    urls: HashMap<(Tenant, UrlId), UrlRecord>,
}

/// Whether a delivery may be attempted now.
pub(super) enum Prospect<'a> {
    Attempt {
        subscription: &'a Subscription,
        generation: u64,
    },
    /// The URL is disabled or frozen.
    Park {
        subscription: &'a Subscription,
    },
    /// Nobody wants it any more.
    Die(Reason),
}

impl Surroundings {
    pub(super) fn is_fresh(&self, now_real: Timestamp) -> bool {
        is_fresh(self.read_began_real, now_real)
    }

    pub(super) fn prospect(&self, key: &DeliveryKey) -> Prospect<'_> {
        let found = self.subscriptions.get(&(key.tenant.clone(), key.subscription_id.clone()));
        let subscription = match wanting(found) {
            Ok(subscription) => subscription,
            Err(reason) => return Prospect::Die(reason),
        };
        match self.urls.get(&(key.tenant.clone(), subscription.url_id.clone())) {
            Some(url) if url.health.state == UrlState::Enabled => {
                Prospect::Attempt { subscription, generation: url.health.generation }
            }
            _ => Prospect::Park { subscription },
        }
    }
}

impl Engine {
    /// Reads what surrounds these deliveries, consistently. `url_id` is where a delivery was headed: almost always still right.
    pub(super) async fn look_around(
        &self,
        deliveries: impl Iterator<Item = (&DeliveryKey, &UrlId)>,
    ) -> Result<Surroundings, Unavailable> {
        let read_began_real = self.ports.clock.now_real();
        let mut keys = BTreeSet::new();
        for (key, url_id) in deliveries {
            keys.insert(Subscription::key(&key.tenant, &key.subscription_id));
            keys.insert(UrlRecord::key(&key.tenant, url_id));
        }
        let mut around =
            Surroundings { read_began_real, subscriptions: HashMap::new(), urls: HashMap::new() };
        self.read_into(&mut around, keys).await?;
        // A subscription may have moved to another URL since.
        let moved: BTreeSet<Key> = around
            .subscriptions
            .values()
            .filter(|s| !around.urls.contains_key(&(s.tenant.clone(), s.url_id.clone())))
            .map(|s| UrlRecord::key(&s.tenant, &s.url_id))
            .collect();
        self.read_into(&mut around, moved).await?;
        Ok(around)
    }

    async fn read_into(&self, around: &mut Surroundings, keys: BTreeSet<Key>) -> Result<(), Unavailable> {
        let keys: Vec<Key> = keys.into_iter().collect();
        for found in self.get_all(&keys).await?.into_iter().flatten() {
            match found.record {
                Record::Subscription(s) => {
                    around.subscriptions.insert((s.tenant.clone(), s.id.clone()), s);
                }
                Record::Url(u) => {
                    around.urls.insert((u.tenant.clone(), u.id.clone()), u);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Any number of keys, in as many reads as it takes.
    pub(super) async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Unavailable> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(MOST_KEYS) {
            all.extend(self.ports.store.get(some).await?);
        }
        Ok(all)
    }

    pub(super) async fn get_url(
        &self,
        tenant: &Tenant,
        id: &UrlId,
    ) -> Result<Option<(UrlRecord, u64)>, Unavailable> {
        let found = self.get_one(UrlRecord::key(tenant, id)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Url(url) => Some((url, v.version)),
            _ => None,
        }))
    }
}
