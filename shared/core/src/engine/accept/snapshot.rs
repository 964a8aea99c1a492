//! Snapshots of a tenant's subscriptions, so that a process that starts reads a few bodies and not every subscription.
//!
//! A snapshot has a version of the tenant's subscriptions in its name. It has all changes up to that version, and may have later ones
//! already: a process that uses it reads those that the change log names again. It is stored in parts by the ids of the subscriptions. Each
//! part is right by itself, so that two processes may store a snapshot of the same version at the same time.

use std::time::Duration;

use bytes::Bytes;

use crate::engine::repository::Change;
use crate::engine::{Engine, Loaded, Result, Unavailable};
use crate::ids::{EventKey, Tenant};
use crate::ports::{BodyKey, chain};
use crate::records::{Subscription, TenantVersion, VERSION};
use crate::rules::matching::Selector;

/// One key takes 3,000 reads a second, and many processes may start at once.
const PARTS: usize = 16;
/// A tenant with fewer is read as fast without one.
const MIN_SUBSCRIPTIONS: usize = 500;
/// So that each part is one item of a store, and is replaced whole.
const MAX_PART_BYTES: usize = 350_000;
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// The most often that a tenant's snapshot is stored, so that a tenant whose subscriptions always change does not fill the store.
const MIN_INTERVAL: Duration = Duration::from_secs(3_600);

/// With the version of the format: a release that knows more of a subscription does not read what an older one left out.
fn part_key(tenant: &Tenant, version: u64, part: usize) -> BodyKey {
    BodyKey::new(tenant, &EventKey(format!("subscriptions-{VERSION}-{version}-{part:02}")))
}

/// `None`: a part is too large.
fn encode(tenant: &Tenant, selectors: &[Selector]) -> Option<Vec<Bytes>> {
    let mut parts: Vec<Vec<&Selector>> = vec![Vec::new(); PARTS];
    for selector in selectors {
        let part = usize::from(Subscription::key(tenant, &selector.id).sweep_shard()) % PARTS;
        parts[part].push(selector);
    }
    let encode = |part: Vec<&Selector>| serde_json::to_vec(&part).ok().map(Bytes::from);
    let fits = |part: &Bytes| part.len() <= MAX_PART_BYTES;
    parts.into_iter().map(|part| encode(part).filter(fits)).collect()
}

impl Engine {
    /// `None`: it is not there any more, or cannot be read. It is only a faster way to what the subscriptions say.
    pub(super) async fn load_snapshot(&self, tenant: &Tenant, version: u64) -> Option<Vec<Selector>> {
        let keys: Vec<BodyKey> = (0..PARTS).map(|part| part_key(tenant, version, part)).collect();
        let found = match self.ports.store.get_bodies(&keys).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = chain(&error), %tenant, "snapshot.unreadable");
                return None;
            }
        };
        let mut selectors = Vec::new();
        for part in found {
            selectors.extend(serde_json::from_slice::<Vec<Selector>>(&part?).ok()?);
        }
        Some(selectors)
    }

    /// Stores all subscriptions as they were read after the tenant had this version, if they are many and the last snapshot is old. A
    /// failure is not an error: the next process that starts does it.
    pub(super) async fn store_snapshot(&self, current: &TenantVersion, selectors: &[Selector]) {
        let TenantVersion { tenant, version, snapshot_at, .. } = current;
        let now = self.ports.clock.now();
        if selectors.len() < MIN_SUBSCRIPTIONS || snapshot_at.is_some_and(|at| now < at + MIN_INTERVAL) {
            return;
        }
        let Some(parts) = encode(tenant, selectors) else { return };
        if let Err(error) = self.try_store_snapshot(tenant, *version, parts).await {
            tracing::warn!(error = chain(&error), %tenant, "snapshot.not_stored");
        }
    }

    async fn try_store_snapshot(&self, tenant: &Tenant, version: u64, parts: Vec<Bytes>) -> Result<()> {
        let bodies = parts.into_iter().enumerate().map(|(n, part)| (part_key(tenant, version, n), part));
        let now = self.ports.clock.now();
        self.ports.store.put_bodies(bodies.collect(), now + KEPT).await?;
        let point_to_it = |Loaded { record: mut known, .. }: Loaded<TenantVersion>| {
            if known.snapshot >= Some(version) {
                return Ok::<_, Unavailable>(Change::Keep(()));
            }
            known.snapshot = Some(version);
            known.snapshot_at = Some(now);
            Ok(Change::Write(known, Vec::new(), ()))
        };
        self.repository.update(TenantVersion::key(tenant), point_to_it).await?;
        Ok(())
    }
}
