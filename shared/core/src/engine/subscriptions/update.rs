//! Changes a subscription. Its live deliveries follow.

use super::super::{ConflictRetries, Engine, Loaded, Unavailable};
use super::create::{TooLarge, TooManyUrls, guard_of};
use crate::ids::{SubscriptionId, Tenant, UrlId};
use crate::ports::{Expect, Refused, Write};
use crate::records::{Actor, AuditAction, Subscription};
use crate::rules::filter::{Connector, Filter};

/// Validated by the API like a new subscription. `None` leaves a field as it is; an inner `None` removes it.
#[derive(Clone, Default)]
pub struct SubscriptionPatch {
    pub url: Option<String>,
    pub event_types: Option<Vec<String>>,
    pub filters: Option<Vec<Filter>>,
    pub filter_connector: Option<Connector>,
    pub auth_token: Option<Option<String>>,
    pub description: Option<Option<String>>,
    pub active: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("there is no such subscription")]
    Unknown,
    #[error("{0} already subscribes this URL to the same events")]
    Equal(SubscriptionId),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    TooManyUrls(#[from] TooManyUrls),
    /// The URL leads to where attempts may not go.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl SubscriptionPatch {
    fn apply(self, subscription: &mut Subscription) {
        if let Some(url) = self.url {
            subscription.url_id = UrlId::of(&url);
            subscription.url = url;
        }
        set(&mut subscription.event_types, self.event_types);
        set(&mut subscription.filters, self.filters);
        set(&mut subscription.filter_connector, self.filter_connector);
        set(&mut subscription.auth_token, self.auth_token);
        set(&mut subscription.description, self.description);
        set(&mut subscription.active, self.active);
    }
}

/// As the API names them.
fn changed_fields(before: &Subscription, after: &Subscription) -> Vec<&'static str> {
    let fields = [
        ("url", before.url != after.url),
        ("event_types", before.event_types != after.event_types),
        ("filters", before.filters != after.filters),
        ("filter_connector", before.filter_connector != after.filter_connector),
        ("auth_token", before.auth_token != after.auth_token),
        ("description", before.description != after.description),
        ("active", before.active != after.active),
    ];
    fields.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}

fn set<T>(field: &mut T, to: Option<T>) {
    if let Some(to) = to {
        *field = to;
    }
}

impl Engine {
    /// Returns the subscription as it is then.
    pub async fn update_subscription(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        patch: SubscriptionPatch,
        by: &Actor,
    ) -> Result<Subscription, UpdateError> {
        if let Some(url) = &patch.url {
            self.ports.sender.check(tenant, url).await?;
        }
        let mut retries = ConflictRetries::many();
        loop {
            let before = self.repository.get_subscription(tenant, id).await?.ok_or(UpdateError::Unknown)?;
            let mut after = before.record.clone();
            patch.clone().apply(&mut after);
            if after == before.record || self.change_subscription(&before, &after, by).await? {
                return Ok(after);
            }
            retries.again(id)?;
        }
    }

    /// `false`: another writer came first, look again.
    async fn change_subscription(
        &self,
        before: &Loaded<Subscription>,
        after: &Subscription,
        by: &Actor,
    ) -> Result<bool, UpdateError> {
        let Loaded { record: before, version } = before;
        let mut next = self.next_tenant_version(&after.tenant, &after.id, 0).await?;
        self.take_memory(&mut next.counter, before.index_bytes(), after.index_bytes())?;
        let moved = before.url_id != after.url_id;
        let mut writes = Vec::new();
        if moved {
            let (now, known_urls) = (self.ports.clock.now(), next.counter.urls);
            writes.extend(self.ensure_url(&mut next.counter, (&after.url_id, &after.url), now).await?);
            TooManyUrls::check(known_urls, &next.counter)?;
            writes.extend(self.release_url(&before.tenant, &before.url_id).await?);
        }
        writes.extend(next.writes());
        writes.push(Write::put(after.clone(), Expect::Version(*version)));
        let audit = self.audit(Some(&after.tenant), AuditAction::SubscriptionUpdated, after.id.as_str(), by);
        writes.push(audit.changing(&changed_fields(before, after)).into_write());
        let (old, new) = (guard_of(before), guard_of(after));
        if old != new {
            if let Some(other) = self.equal_to(after).await? {
                return Err(UpdateError::Equal(other));
            }
            writes.push(Write::delete(old.key(), Expect::Any));
            writes.push(Write::put(new, Expect::Absent));
        }
        let deactivated = before.active && !after.active;
        let job = if moved || deactivated {
            let (job, write) = self.new_reassign_job(&after.tenant, &after.id).await?;
            writes.push(write);
            Some(job)
        } else {
            None
        };
        if !self.repository.try_write(writes).await? {
            return Ok(false);
        }
        if let Some(job) = job {
            self.send_job_ticket(&job).await;
        }
        Ok(true)
    }
}
