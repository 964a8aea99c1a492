use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DeliveryRecord, Job, JobRecord, Key};
use crate::ids::{DeliveryKey, JobId, Tenant, UrlId};
use crate::rules::delivery::{DeliveryState, Reason};
use crate::rules::event_type;
use crate::time::Timestamp;

/// Deaths at one URL are announced together, once for each of these.
const PERIOD: Duration = Duration::from_secs(60);
/// Until all functions that may still write deaths of a period have ended.
const SETTLE: Duration = Duration::from_secs(60);
/// Longer than announcing them can take.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// A delivery that died, until the event about it is posted. Written in the transaction that ends the delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeathNote {
    pub key: DeliveryKey,
    pub url_id: UrlId,
    /// The beginning of its period.
    pub period: Timestamp,
    pub reason: Reason,
    pub remove_at: Timestamp,
}

/// The job that announces the deaths of one period at one URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnounceDeaths {
    pub url_id: UrlId,
    pub url: String,
    pub period: Timestamp,
}

impl DeathNote {
    /// `None`: it did not just die, or of something that its tenant did; or it is of an event of Holdfast's own, which causes no further ones.
    #[must_use]
    pub fn of(before: Option<&DeliveryRecord>, after: &DeliveryRecord, now: Timestamp) -> Option<DeathNote> {
        let is_dead = |record: &DeliveryRecord| record.progress.state == DeliveryState::Dead;
        let reason =
            after.progress.reason.filter(|reason| matches!(reason, Reason::Exhausted | Reason::Expired))?;
        let is_new = is_dead(after) && !before.is_some_and(is_dead);
        (is_new && !event_type::is_reserved(&after.event_type)).then(|| DeathNote {
            key: after.key.clone(),
            url_id: after.url_id.clone(),
            period: period_of(now),
            reason,
            remove_at: now + KEPT,
        })
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, url_id: &UrlId, period: Timestamp) -> String {
        format!("deaths#{tenant}#{url_id}#{}", period.sort_key())
    }

    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Self::partition(&self.key.tenant, &self.url_id, self.period), self.key.id())
    }

    /// The job that announces it, with the other deaths of its period.
    #[must_use]
    pub fn job(&self, url: &str) -> JobRecord {
        let (tenant, url_id) = (self.key.tenant.clone(), self.url_id.clone());
        let period = self.period.sort_key();
        JobRecord {
            id: JobId::derived(&["deaths", tenant.as_str(), url_id.as_str(), &period]),
            job: Job::AnnounceDeaths(AnnounceDeaths { url_id, url: url.to_owned(), period: self.period }),
            look_at: self.period + PERIOD + SETTLE,
            looks: 0,
            tenant,
        }
    }
}

impl AnnounceDeaths {
    /// The end of the period.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.period + PERIOD
    }
}

fn period_of(now: Timestamp) -> Timestamp {
    let period = i64::try_from(PERIOD.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().div_euclid(period) * period)
}
