//! Creates and reads subscriptions.

use std::time::Duration;

use super::{Engine, ListPage, Unavailable};
use crate::ids::{SubscriptionId, Tenant, UrlId, fingerprint};
use crate::ports::{Expect, Order, Query, Refused, Write};
use crate::records::{
    Record, Secret, Subscription, SubscriptionChange, SubscriptionGuard, TenantVersion, VERSION,
};
use crate::rules::filter::{Connector, Filter};
use crate::rules::signing;

/// The most subscriptions of one tenant.
pub(super) const MOST_SUBSCRIPTIONS: u64 = 10_000;

/// All of a tenant's subscriptions share one counter, so that many who subscribe at once meet each other often.
pub(super) const MOST_MEETINGS: usize = 200;

/// How long it can be told what changed. Whoever was away for longer reads all subscriptions.
const CHANGES_KEPT: Duration = Duration::from_secs(86_400);

/// Checked by the API: the URL is normalised, the patterns and filters are sound.
#[derive(Clone)]
pub struct NewSubscription {
    pub url: String,
    pub event_types: Vec<String>,
    pub filters: Vec<Filter>,
    pub filter_connector: Connector,
    pub auth_token: Option<String>,
    pub description: Option<String>,
    pub active: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    #[error("{0} already subscribes this URL to the same events")]
    Equal(SubscriptionId),
    /// The URL leads to where attempts may not go.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("a tenant has at most {MOST_SUBSCRIPTIONS} subscriptions")]
    TooMany,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Equal for subscriptions that would get the same events at the same URL.
fn fingerprint_of(subscription: &Subscription) -> String {
    let mut types = subscription.event_types.clone();
    types.sort();
    types.dedup();
    let parts = (&subscription.url, types, &subscription.filters, subscription.filter_connector);
    fingerprint(&serde_json::to_vec(&parts).expect("subscriptions are plain data"))
}

pub(super) fn guard_of(subscription: &Subscription) -> SubscriptionGuard {
    SubscriptionGuard {
        tenant: subscription.tenant.clone(),
        fingerprint: fingerprint_of(subscription),
        subscription_id: subscription.id.clone(),
    }
}

/// A change of the tenant's subscriptions, on its way into the transaction that makes it.
pub(super) struct NextVersion {
    pub(super) counter: TenantVersion,
    expect: Expect,
    change: SubscriptionChange,
}

impl NextVersion {
    pub(super) fn writes(self) -> [Write; 2] {
        [
            Write::put(Record::TenantVersion(self.counter), self.expect),
            Write::put(Record::SubscriptionChange(self.change), Expect::Any),
        ]
    }
}

impl Engine {
    pub async fn subscribe(
        &self,
        tenant: &Tenant,
        new: NewSubscription,
    ) -> Result<Subscription, SubscribeError> {
        self.check_target(&new.url).await?;
        let now = self.ports.clock.now();
        let subscription = Subscription {
            v: VERSION,
            tenant: tenant.clone(),
            id: SubscriptionId::new(self.random()),
            url_id: UrlId::of(&new.url),
            url: new.url,
            event_types: new.event_types,
            filters: new.filters,
            filter_connector: new.filter_connector,
            auth_token: new.auth_token,
            description: new.description,
            active: new.active,
            secrets: vec![Secret { value: signing::new_secret(self.random()), until_real: None }],
            created_at: now,
        };
        for _ in 0..MOST_MEETINGS {
            self.refuse_equal(&subscription).await?;
            if self.create_subscription(&subscription).await? {
                return Ok(subscription);
            }
        }
        Err(Unavailable("the tenant's subscriptions change too often".to_owned()).into())
    }

    async fn refuse_equal(&self, subscription: &Subscription) -> Result<(), SubscribeError> {
        match self.equal_to(subscription).await? {
            Some(other) => Err(SubscribeError::Equal(other)),
            None => Ok(()),
        }
    }

    /// Which subscription gets the same events at the same URL, if one does.
    pub(super) async fn equal_to(
        &self,
        subscription: &Subscription,
    ) -> Result<Option<SubscriptionId>, Unavailable> {
        let found = self.get_one(guard_of(subscription).key()).await?;
        Ok(found.and_then(|v| match v.record {
            Record::SubscriptionGuard(guard) => Some(guard.subscription_id),
            _ => None,
        }))
    }

    /// `false`: something changed meanwhile, look again.
    async fn create_subscription(&self, subscription: &Subscription) -> Result<bool, SubscribeError> {
        let Subscription { tenant, id, url_id, url, .. } = subscription;
        let mut next = self.next_tenant_version(tenant, id, 1).await?;
        if next.counter.subscriptions > MOST_SUBSCRIPTIONS {
            return Err(SubscribeError::TooMany);
        }
        let mut writes = self.meet_url(&mut next.counter, (url_id, url), subscription.created_at).await?;
        writes.extend(next.writes());
        writes.push(Write::put(Record::Subscription(subscription.clone()), Expect::Absent));
        writes.push(Write::put(Record::SubscriptionGuard(guard_of(subscription)), Expect::Absent));
        Ok(self.try_write(writes).await?)
    }

    /// The version that tells everybody that this subscription changed. The tenant then has `by` more than before.
    pub(super) async fn next_tenant_version(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        by: i64,
    ) -> Result<NextVersion, Unavailable> {
        let found = self.get_one(TenantVersion::key(tenant)).await?;
        let expect = found.as_ref().map_or(Expect::Absent, |v| Expect::Version(v.version));
        let mut counter = TenantVersion::found(tenant, found.map(|v| v.record));
        counter.version += 1;
        counter.subscriptions = counter.subscriptions.saturating_add_signed(by);
        let change = SubscriptionChange {
            tenant: tenant.clone(),
            version: counter.version,
            subscription_id: id.clone(),
            remove_at: self.ports.clock.now() + CHANGES_KEPT,
        };
        Ok(NextVersion { counter, expect, change })
    }

    pub async fn get_subscription(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<Option<Subscription>, Unavailable> {
        Ok(self.get_subscription_versioned(tenant, id).await?.map(|(subscription, _)| subscription))
    }

    pub(super) async fn get_subscription_versioned(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<Option<(Subscription, u64)>, Unavailable> {
        let found = self.get_one(Subscription::key(tenant, id)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Subscription(subscription) => Some((subscription, v.version)),
            _ => None,
        }))
    }

    /// In the order of their ids.
    pub async fn list_subscriptions(
        &self,
        tenant: &Tenant,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<Subscription>, Unavailable> {
        let partition = Subscription::partition(tenant);
        let query = Query { partition, prefix: String::new(), after, order: Order::Ascending, limit };
        let page = self.ports.store.query(query).await?;
        let items = page.items.into_iter().filter_map(|v| match v.record {
            Record::Subscription(subscription) => Some(subscription),
            _ => None,
        });
        Ok(ListPage { items: items.collect(), next: page.next })
    }
}
