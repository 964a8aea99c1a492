//! The tenants whose attempts have lately taken long. Slots that are kept for tenants with none are not for them: hundreds of tenants whose
//! receivers hang, with one attempt each, would take those too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::time::Timestamp;

/// An attempt that holds its slot for longer is long.
const LONG: Duration = Duration::from_secs(1);
/// How long a tenant is slow after a long attempt.
const REMEMBERED: Duration = Duration::from_secs(60);
/// So many are remembered before those that are no longer slow are looked for.
const MIN_PRUNED: usize = 1_024;

/// Until when each of them is slow, by the real clock.
#[derive(Default)]
pub(super) struct SlowTenants {
    until: HashMap<Arc<str>, Timestamp>,
    prune_at: usize,
}

impl SlowTenants {
    /// An attempt of this tenant held its slot for so long.
    pub(super) fn note(&mut self, tenant: &Arc<str>, held: Duration, now: Timestamp) {
        if held <= LONG {
            return;
        }
        if self.until.len() >= self.prune_at.max(MIN_PRUNED) {
            self.until.retain(|_, until| *until > now);
            self.prune_at = 2 * self.until.len();
        }
        self.until.insert(Arc::clone(tenant), now + REMEMBERED);
    }

    pub(super) fn is_slow(&self, tenant: &str, now: Timestamp) -> bool {
        self.until.get(tenant).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[test]
    fn a_tenant_is_slow_for_a_minute_after_a_long_attempt() {
        let mut slow = SlowTenants::default();
        slow.note(&"a".into(), LONG, NOW);
        assert!(!slow.is_slow("a", NOW));
        slow.note(&"a".into(), LONG + Duration::from_millis(1), NOW);
        assert!(slow.is_slow("a", NOW + REMEMBERED - Duration::from_millis(1)) && !slow.is_slow("b", NOW));
        assert!(!slow.is_slow("a", NOW + REMEMBERED));
    }

    #[test]
    fn those_that_are_no_longer_slow_are_forgotten() {
        let mut slow = SlowTenants::default();
        for n in 0..10 * MIN_PRUNED {
            slow.note(&n.to_string().into(), 2 * LONG, NOW + Duration::from_millis(100) * n as u32);
        }
        assert!(slow.until.len() <= 2 * MIN_PRUNED, "{}", slow.until.len());
    }
}
