//! Creates and reads subscriptions.

use std::time::Duration;

use super::super::{ConflictRetries, Engine, Loaded, Page, Result, Unavailable};
use crate::ids::{SubscriptionId, Tenant, UrlId, fingerprint};
use crate::ports::{Expect, Query, Refused, Write};
use crate::records::{
    Actor, AuditAction, Subscription, SubscriptionChange, SubscriptionGuard, TenantVersion, UrlListEntry,
    UrlRecord,
};
use crate::rules::filter::{Connector, Filter};
use crate::rules::signing::{self, Secret};
use crate::time::Timestamp;

/// The most subscriptions of one tenant.
const MAX_SUBSCRIPTIONS: u64 = 10_000;

/// A page of subscriptions ends with the one that reaches this.
pub(super) const MAX_LISTED_BYTES: usize = 500_000;
/// So many are read for it at a time.
pub(super) const LISTED_AT_A_TIME: usize = 25;

/// The most URLs of one tenant. Those whose subscriptions are gone count until they are removed, so that a subscription that moves all the
/// time does not fill the store.
const MAX_URLS: u64 = 5 * MAX_SUBSCRIPTIONS;

/// How long the change log goes back. A cache that is older reads all subscriptions.
const CHANGES_KEPT: Duration = Duration::from_secs(86_400);

/// Validated by the API: the URL is normalised, the patterns and filters are well-formed.
#[derive(Clone)]
pub struct NewSubscription {
    pub url: String,
    pub event_types: Vec<String>,
    pub filters: Vec<Filter>,
    pub filter_connector: Connector,
    pub auth_token: Option<String>,
    pub description: Option<String>,
    pub active: bool,
    /// One that the subscriber brings along. Without it, one is made.
    pub secret: Option<String>,
}

impl NewSubscription {
    /// An active subscription without filters.
    #[must_use]
    pub fn to(url: &str, event_type: &str) -> NewSubscription {
        NewSubscription {
            url: url.to_owned(),
            event_types: vec![event_type.to_owned()],
            filters: Vec::new(),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active: true,
            secret: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    #[error("{0} already subscribes this URL to the same events")]
    Equal(SubscriptionId),
    /// The URL leads to where attempts may not go.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("a tenant has at most {MAX_SUBSCRIPTIONS} subscriptions")]
    TooMany,
    /// What the operator lets this tenant have.
    #[error("the quota subscriptions of this tenant is {limit}")]
    OverQuota { limit: u64 },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    TooManyUrls(#[from] TooManyUrls),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tenant has {MAX_URLS} URLs, with those whose subscriptions are gone")]
pub struct TooManyUrls;

impl TooManyUrls {
    /// After the URL of a subscription was counted on `counter`. One that was known is never refused.
    pub(super) fn check(known_urls: u64, counter: &TenantVersion) -> Result<(), TooManyUrls> {
        if counter.urls > known_urls.max(MAX_URLS) { Err(TooManyUrls) } else { Ok(()) }
    }
}

/// Every process that accepts events keeps a tenant's subscriptions in memory, so that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tenant's subscriptions would need {needed} bytes of memory, and may take {max}")]
pub struct TooLarge {
    needed: u64,
    max: u64,
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
        [Write::put(self.counter, self.expect), Write::put(self.change, Expect::Any)]
    }
}

/// The record of a URL and its entry in the tenant's list. It is counted on `counter`.
pub(in crate::engine) fn new_url(counter: &mut TenantVersion, record: UrlRecord) -> [Write; 2] {
    let entry = UrlListEntry { tenant: record.tenant.clone(), id: record.id.clone() };
    counter.urls += 1;
    [Write::put(record, Expect::Absent), Write::put(entry, Expect::Any)]
}

impl Engine {
    pub async fn subscribe(
        &self,
        tenant: &Tenant,
        new: NewSubscription,
        by: &Actor,
    ) -> Result<Subscription, SubscribeError> {
        self.ports.sender.check(tenant, &new.url).await?;
        let now = self.ports.clock.now();
        let subscription = Subscription {
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
            secrets: vec![Secret {
                value: new.secret.unwrap_or_else(|| signing::new_secret(self.random())),
                until_real: None,
            }],
            created_at: now,
        };
        let mut retries = ConflictRetries::many();
        loop {
            if let Some(other) = self.equal_to(&subscription).await? {
                return Err(SubscribeError::Equal(other));
            }
            if self.create_subscription(&subscription, by).await? {
                return Ok(subscription);
            }
            retries.again("the tenant's list of subscriptions")?;
        }
    }

    /// The subscription that gets the same events at the same URL, if there is one.
    pub(super) async fn equal_to(&self, subscription: &Subscription) -> Result<Option<SubscriptionId>> {
        let guard = self.repository.get::<SubscriptionGuard>(guard_of(subscription).key()).await?;
        Ok(guard.map(|guard| guard.record.subscription_id))
    }

    /// `false`: another writer came first, look again.
    async fn create_subscription(
        &self,
        subscription: &Subscription,
        by: &Actor,
    ) -> Result<bool, SubscribeError> {
        let Subscription { tenant, id, url_id, url, .. } = subscription;
        let mut next = self.next_tenant_version(tenant, id, 1).await?;
        self.take_memory(&mut next.counter, 0, subscription.index_bytes())?;
        if next.counter.subscriptions > MAX_SUBSCRIPTIONS {
            return Err(SubscribeError::TooMany);
        }
        if let Some(limit) = next.counter.quotas.subscriptions.filter(|max| next.counter.subscriptions > *max)
        {
            return Err(SubscribeError::OverQuota { limit });
        }
        let known_urls = next.counter.urls;
        let mut writes = self.ensure_url(&mut next.counter, (url_id, url), subscription.created_at).await?;
        TooManyUrls::check(known_urls, &next.counter)?;
        writes.extend(next.writes());
        writes.push(Write::put(subscription.clone(), Expect::Absent));
        writes.push(Write::put(guard_of(subscription), Expect::Absent));
        let action = AuditAction::SubscriptionCreated;
        writes.push(self.audit(Some(tenant), action, id.as_str(), by).into_write());
        Ok(self.repository.try_write(writes).await?)
    }

    /// What is to be written for a URL that one more subscription has. A URL that the tenant has not had before is counted on `counter`,
    /// which is to be written in the same transaction.
    pub(super) async fn ensure_url(
        &self,
        counter: &mut TenantVersion,
        (id, url): (&UrlId, &str),
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        if let Some(Loaded { record: mut known, version }) =
            self.repository.get_url(&counter.tenant, id).await?
        {
            known.add_subscription();
            return Ok(vec![Write::put(known, Expect::Version(version))]);
        }
        let mut new = UrlRecord::new(counter.tenant.clone(), id.clone(), url.to_owned(), now);
        new.subscriptions = Some(1);
        Ok(new_url(counter, new).into())
    }

    /// What is to be written for a URL that one subscription fewer has.
    pub(super) async fn release_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<Write>> {
        let Some(Loaded { record: mut url, version }) = self.repository.get_url(tenant, id).await? else {
            return Ok(None);
        };
        url.remove_subscription(self.ports.clock.now(), self.settings.keep);
        Ok(Some(Write::put(url, Expect::Version(version))))
    }

    /// Counts the memory of a subscription that takes `after` bytes instead of `before`. One that takes no more than before is
    /// never refused: it may be on its way to less.
    pub(super) fn take_memory(
        &self,
        counter: &mut TenantVersion,
        before: u64,
        after: u64,
    ) -> Result<(), TooLarge> {
        let needed = counter.index_bytes.saturating_sub(before) + after;
        let max = self.settings.max_index_bytes;
        if needed > max && after > before {
            return Err(TooLarge { needed, max });
        }
        counter.index_bytes = needed;
        Ok(())
    }

    /// The version by which caches learn that this subscription changed. The tenant then has `by` more subscriptions.
    pub(super) async fn next_tenant_version(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        by: i64,
    ) -> Result<NextVersion> {
        let known = self.repository.get_tenant_version(tenant).await?;
        let (expect, mut counter) = (known.expect(), known.record);
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
    ) -> Result<Option<Subscription>> {
        Ok(self.repository.get_subscription(tenant, id).await?.map(|loaded| loaded.record))
    }

    /// In the order of their ids. A page of large subscriptions has fewer than `limit`: to read and show them takes a while.
    pub async fn list_subscriptions(
        &self,
        tenant: &Tenant,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<Subscription>> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut bytes = 0;
        loop {
            let count = (limit - page.items.len()).min(LISTED_AT_A_TIME);
            let query = Query::of(Subscription::partition(tenant), count).after(page.next.take());
            let some: Page<Subscription> = self.repository.list(query).await?;
            for subscription in some.items {
                if bytes >= MAX_LISTED_BYTES {
                    page.next = page.items.last().map(|last: &Subscription| last.id.as_str().to_owned());
                    return Ok(page);
                }
                bytes += subscription.shown_bytes();
                page.items.push(subscription);
            }
            page.next = some.next;
            if page.next.is_none() || page.items.len() >= limit || bytes >= MAX_LISTED_BYTES {
                return Ok(page);
            }
        }
    }
}
