//! Quotas of a tenant: what an operator lets it use. All are off unless set.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest value of a quota: exact in JSON, and more than any tenant needs.
pub const MAX_QUOTA: u64 = 1_000_000_000_000_000;

/// From this part of a quota on, in percent, its tenant is warned.
const NEAR_PERCENT: u128 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    EventsPerSecond,
    Subscriptions,
    WaitingBytes,
    StoredBytes,
}

impl Quota {
    /// As the API names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Quota::EventsPerSecond => "events_per_second",
            Quota::Subscriptions => "subscriptions",
            Quota::WaitingBytes => "waiting_bytes",
            Quota::StoredBytes => "stored_bytes",
        }
    }
}

/// The quotas of one tenant; `None` is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    /// Events that may be posted, on average over a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u64>,
    /// Bytes of bodies that wait for their receivers: queued, waiting or parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_bytes: Option<u64>,
    /// Bytes of bodies in the store, until they are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

impl Quotas {
    #[must_use]
    pub fn are_off(&self) -> bool {
        *self == Quotas::default()
    }

    /// The names of those that are another in `other`.
    #[must_use]
    pub fn changed_in(&self, other: &Quotas) -> Vec<&'static str> {
        let quotas = [
            (Quota::EventsPerSecond, self.events_per_second != other.events_per_second),
            (Quota::Subscriptions, self.subscriptions != other.subscriptions),
            (Quota::WaitingBytes, self.waiting_bytes != other.waiting_bytes),
            (Quota::StoredBytes, self.stored_bytes != other.stored_bytes),
        ];
        quotas.into_iter().filter(|(_, is_changed)| *is_changed).map(|(quota, _)| quota.as_str()).collect()
    }

    /// With the changes of `patch`.
    #[must_use]
    pub fn patched(self, patch: &QuotaPatch) -> Quotas {
        Quotas {
            events_per_second: patch.events_per_second.unwrap_or(self.events_per_second),
            subscriptions: patch.subscriptions.unwrap_or(self.subscriptions),
            waiting_bytes: patch.waiting_bytes.unwrap_or(self.waiting_bytes),
            stored_bytes: patch.stored_bytes.unwrap_or(self.stored_bytes),
        }
    }
}

/// What to change: `None` leaves a quota as it is, `Some(None)` switches it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaPatch {
    pub events_per_second: Option<Option<u64>>,
    pub subscriptions: Option<Option<u64>>,
    pub waiting_bytes: Option<Option<u64>>,
    pub stored_bytes: Option<Option<u64>>,
}

/// Whether so much of a quota is used that its tenant should know.
#[must_use]
pub fn is_near(used: u64, limit: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * NEAR_PERCENT
}

/// A quota that is nearly used up, or more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaWarning {
    pub quota: Quota,
    pub used: u64,
    pub limit: u64,
}

impl QuotaWarning {
    /// `None`: there is nothing to warn of, because the quota is off or far from used up.
    #[must_use]
    pub fn of(quota: Quota, used: u64, limit: Option<u64>) -> Option<QuotaWarning> {
        limit.filter(|limit| is_near(used, *limit)).map(|limit| QuotaWarning { quota, used, limit })
    }
}

impl fmt::Display for QuotaWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaWarning { quota, used, limit } = self;
        let percent = u128::from(*used) * 100 / u128::from((*limit).max(1));
        write!(f, "{} is at {percent} % ({used} of {limit})", quota.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_near_from_80_percent_on() {
        for (used, limit, near) in [
            (0, 1, false),
            (1, 1, true),
            (79, 100, false),
            (80, 100, true),
            (100, 100, true),
            (500, 100, true),
            (3, 4, false),
            (4, 5, true),
            (u64::MAX, u64::MAX, true),
            (u64::MAX / 2, u64::MAX, false),
        ] {
            assert_eq!(is_near(used, limit), near, "{used} of {limit}");
        }
    }

    #[test]
    fn a_warning_says_which_quota_and_how_full_it_is() {
        let warning = QuotaWarning::of(Quota::WaitingBytes, 850, Some(1_000)).map(|w| w.to_string());
        assert_eq!(warning.as_deref(), Some("waiting_bytes is at 85 % (850 of 1000)"));
        assert_eq!(QuotaWarning::of(Quota::Subscriptions, 7, Some(10)), None);
        assert_eq!(QuotaWarning::of(Quota::Subscriptions, u64::MAX, None), None, "it is off");
    }

    #[test]
    fn a_patch_changes_only_what_it_names() {
        let before = Quotas { events_per_second: Some(1), subscriptions: Some(2), ..Quotas::default() };
        let patch = QuotaPatch {
            events_per_second: Some(None),
            waiting_bytes: Some(Some(3)),
            stored_bytes: Some(Some(4)),
            ..QuotaPatch::default()
        };
        let after = Quotas {
            subscriptions: Some(2),
            waiting_bytes: Some(3),
            stored_bytes: Some(4),
            ..Quotas::default()
        };
        assert_eq!(before.patched(&patch), after);
        assert_eq!(before.patched(&QuotaPatch::default()), before);
        assert!(Quotas::default().are_off() && !after.are_off());
    }
}
