//! What decides whether deliveries may be attempted: their subscriptions, and the health of their URLs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::repository::typed;
use super::super::{Engine, Result};
use crate::ids::{DeliveryKey, Tenant, UrlId};
use crate::ports::Versioned;
use crate::records::{Key, Record, Subscription, UrlRecord, active_subscription};
use crate::rules::delivery::Reason;
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// An attempt starts at most this long after its health read began, so that a freeze takes effect at once.
const MAX_AGE: Duration = Duration::from_secs(1);

pub(crate) fn is_fresh(read_began_real: Timestamp, now_real: Timestamp) -> bool {
    now_real.since(read_began_real) <= MAX_AGE
}

/// The subscriptions and URLs of a batch of deliveries, as of one moment.
pub(crate) struct DeliveryContext {
    read_began_real: Timestamp,
    found: BTreeMap<Key, Versioned>,
}

/// What the health of the URL said when it allowed an attempt.
#[derive(Clone, Copy)]
pub(crate) struct AllowedBy {
    pub(crate) generation: u64,
    /// The attempt before this one failed.
    pub(crate) is_failing: bool,
    /// How long the URL's recent answers took.
    pub(crate) recent_ms: u32,
}

impl AllowedBy {
    /// A URL of which nothing is known.
    const NEW: AllowedBy = AllowedBy { generation: 0, is_failing: false, recent_ms: 0 };
}

/// Whether a delivery may be attempted now.
pub(crate) enum Admission {
    Attempt {
        subscription: Subscription,
        allowed_by: AllowedBy,
    },
    /// The URL is disabled or frozen.
    Park {
        subscription: Subscription,
    },
    /// The subscription no longer takes deliveries.
    Dead(Reason),
}

impl DeliveryContext {
    pub(super) fn is_fresh(&self, now_real: Timestamp) -> bool {
        is_fresh(self.read_began_real, now_real)
    }

    /// An error if a newer release wrote the subscription or the URL.
    pub(crate) fn admission(&self, key: &DeliveryKey) -> Result<Admission> {
        let found = self.subscription(&Subscription::key(&key.tenant, &key.subscription_id))?;
        let subscription = match active_subscription(found.as_ref()) {
            Ok(subscription) => subscription.clone(),
            Err(reason) => return Ok(Admission::Dead(reason)),
        };
        let url = self.found.get(&UrlRecord::key(&key.tenant, &subscription.url_id)).cloned();
        Ok(match typed::<UrlRecord>(url)?.map(|url| url.record) {
            Some(url) if url.health.state != UrlState::Enabled => Admission::Park { subscription },
            Some(url) => {
                let health = &url.health;
                let allowed_by = AllowedBy {
                    generation: health.generation,
                    is_failing: health.streak > 0,
                    recent_ms: url.recent_ms,
                };
                Admission::Attempt { subscription, allowed_by }
            }
            // A URL without a record is enabled, as a new one is. It gets a record when its outcome is counted.
            None => Admission::Attempt { subscription, allowed_by: AllowedBy::NEW },
        })
    }

    /// The text of the URL for which a delivery was headed; empty if there is no such URL any more.
    pub(super) fn url(&self, tenant: &Tenant, id: &UrlId) -> Result<String> {
        let url = typed::<UrlRecord>(self.found.get(&UrlRecord::key(tenant, id)).cloned())?;
        Ok(url.map(|url| url.record.url).unwrap_or_default())
    }

    fn subscription(&self, key: &Key) -> Result<Option<Subscription>> {
        Ok(typed(self.found.get(key).cloned())?.map(|loaded| loaded.record))
    }

    /// The URLs that were not read, because subscriptions moved there in the meantime.
    fn moved_to(&self) -> BTreeSet<Key> {
        let subscriptions = self.found.values().filter_map(|found| match &found.record {
            Record::Subscription(subscription) => Some(subscription),
            _ => None,
        });
        let urls =
            subscriptions.map(|subscription| UrlRecord::key(&subscription.tenant, &subscription.url_id));
        urls.filter(|key| !self.found.contains_key(key)).collect()
    }
}

impl Engine {
    /// Reads the context of these deliveries, consistently. `url_id` is where a delivery was headed: almost always still right.
    pub(crate) async fn load_context(
        &self,
        deliveries: impl Iterator<Item = (&DeliveryKey, &UrlId)>,
    ) -> Result<DeliveryContext> {
        let read_began_real = self.ports.clock.now_real();
        let mut keys = BTreeSet::new();
        for (key, url_id) in deliveries {
            keys.insert(Subscription::key(&key.tenant, &key.subscription_id));
            keys.insert(UrlRecord::key(&key.tenant, url_id));
        }
        let mut context = DeliveryContext { read_began_real, found: BTreeMap::new() };
        self.read_into(&mut context, keys).await?;
        let moved = context.moved_to();
        self.read_into(&mut context, moved).await?;
        Ok(context)
    }

    async fn read_into(&self, context: &mut DeliveryContext, keys: BTreeSet<Key>) -> Result<()> {
        let keys: Vec<Key> = keys.into_iter().collect();
        let found = self.repository.get_all(&keys).await?;
        let found = keys.into_iter().zip(found).filter_map(|(key, found)| Some((key, found?)));
        context.found.extend(found.map(|(key, found)| (key, without_selector(found))));
        Ok(())
    }
}

/// Which events a subscription gets was decided when they were accepted, and may take a hundred kilobytes: too much to be copied for each
/// delivery of a batch.
fn without_selector(mut found: Versioned) -> Versioned {
    if let Record::Subscription(subscription) = &mut found.record {
        subscription.event_types = Vec::new();
        subscription.filters = Vec::new();
    }
    found
}
