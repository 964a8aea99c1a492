//! How often a tenant changes its subscriptions and URLs. Each change leaves an entry in the audit list, which is kept for months and counts in no
//! quota.
//!
//! Counted in the memory of each process, like the rate of posts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Engine;
use super::lately::Lately;
use crate::ids::Tenant;
use crate::rules::bucket::Bucket;
use crate::time::Timestamp;

/// In the long run. At once, as many as let a tenant replace all of its subscriptions.
const PER_SECOND: u64 = 10;
const SECONDS: u32 = 2_000;
/// A change with a text counts as one more for each of these, which is about what an entry takes.
const TEXT_BYTES: usize = 256;

#[derive(Default)]
pub(super) struct TenantChanges(Mutex<Lately<Tenant, Bucket>>);

impl TenantChanges {
    fn take(&self, tenant: &Tenant, text_bytes: usize, now: Timestamp) -> Result<(), Duration> {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Bucket::full_of_seconds(SECONDS, PER_SECOND, now);
        let cost = 1 + text_bytes / TEXT_BYTES;
        lately
            .pace(tenant.clone(), |bucket| bucket.is_full(now), new)
            .map_or(Ok(()), |bucket| bucket.take(cost as u64, now))
    }
}

impl Engine {
    /// Counts that this tenant creates or changes a subscription, or changes a URL, or says how long to wait. `text_bytes`: of what its caller
    /// has written about it.
    pub fn take_change(&self, tenant: &Tenant, text_bytes: usize) -> Result<(), Duration> {
        self.tenant_changes.take(tenant, text_bytes, self.ports.clock.now_real())
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
        let changes = TenantChanges::default();
        let take = |tenant: &str, secs| changes.take(&tenant.into(), 0, at(secs));
        assert!((0..20_000).all(|_| take("a", 0).is_ok()));
        assert_eq!(take("a", 0), Err(Duration::from_millis(100)));
        take("b", 0).unwrap();
        assert!((0..10).all(|_| take("a", 1).is_ok()));
        take("a", 1).unwrap_err();
    }

    #[test]
    fn a_change_with_a_long_text_counts_as_several() {
        let changes = TenantChanges::default();
        let take = |text_bytes| changes.take(&"a".into(), text_bytes, at(0));
        assert_eq!((0..).take_while(|_| take(4_096).is_ok()).count(), 20_000 / 17);
    }
}
