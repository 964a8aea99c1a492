use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::UrlState;

use super::{Kept, LATE, Snapshot, keep};
use crate::simulation::World;

/// The slowest that a release of thousands may be at a receiver that takes most of them: a minute of slow start, and some steps that go wrong.
pub(super) const DRAIN: Duration = Duration::from_secs(5 * 60);

impl World {
    /// What is parked at a URL that takes most of it is released soon after the URL has become enabled.
    pub(super) fn check_releases_drain(&self, snapshot: &Snapshot) -> Kept {
        let now = self.hosts.schedule_now();
        let mut parked: BTreeMap<_, usize> = BTreeMap::new();
        for delivery in &snapshot.deliveries {
            let is_over = now > delivery.progress.expires_at;
            if delivery.progress.state == DeliveryState::Parked && !is_over {
                *parked.entry((&delivery.key.tenant, &delivery.url_id)).or_default() += 1;
            }
        }
        for ((tenant, url_id), count) in parked {
            let Some(url) = snapshot.urls.get(&(tenant.clone(), url_id.clone())) else { continue };
            let enabled_for = now.since(url.health.since);
            if url.health.state != UrlState::Enabled || enabled_for <= LATE + DRAIN {
                continue;
            }
            let requests = self.hosts.receivers.requests();
            let answers: Vec<bool> = requests
                .iter()
                .filter(|request| {
                    request.url == url.url && request.tenant == *tenant && request.at > url.health.since
                })
                .map(|request| (200..300).contains(&request.status))
                .collect();
            let taken = answers.iter().filter(|taken| **taken).count();
            keep!(
                "a release drains",
                taken * 2 < answers.len(),
                "{count} are parked at {}, which has been enabled for {enabled_for:?} and took {taken} of {}",
                url.url,
                answers.len()
            );
        }
        Ok(())
    }
}
