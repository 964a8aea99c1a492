//! How often a tenant changes its subscriptions. Each change leaves an entry in the audit list, which is kept for months and counts in no quota.
//!
//! Counted in the memory of each process, like the rate of posts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::lately::Lately;
use crate::ids::Tenant;
use crate::rules::bucket::Bucket;
use crate::time::Timestamp;

/// In the long run. At once, as many as let a tenant replace all of its subscriptions.
const PER_SECOND: u64 = 10;
const SECONDS: u32 = 2_000;

#[derive(Default)]
pub(in crate::engine) struct SubscriptionChanges(Mutex<Lately<Tenant, Bucket>>);

impl SubscriptionChanges {
    /// Counts a change, or says how long to wait.
    fn take(&self, tenant: &Tenant, now: Timestamp) -> Result<(), Duration> {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Bucket::full_of_seconds(SECONDS, PER_SECOND, now);
        lately
            .pace(tenant.clone(), |bucket| bucket.is_full(now), new)
            .map_or(Ok(()), |bucket| bucket.take(1, now))
    }
}

impl Engine {
    /// Counts that this tenant creates or changes a subscription, or says how long to wait.
    pub fn take_subscription_change(&self, tenant: &Tenant) -> Result<(), Duration> {
        self.subscription_changes.take(tenant, self.ports.clock.now_real())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(secs)
    }

    #[test]
    fn a_tenant_may_replace_all_of_its_subscriptions_and_then_change_ten_a_second() {
        let changes = SubscriptionChanges::default();
        let take = |tenant: &str, secs| changes.take(&tenant.into(), at(secs));
        assert!((0..20_000).all(|_| take("a", 0).is_ok()));
        assert_eq!(take("a", 0), Err(Duration::from_millis(100)));
        take("b", 0).unwrap();
        assert!((0..10).all(|_| take("a", 1).is_ok()));
        take("a", 1).unwrap_err();
    }
}
