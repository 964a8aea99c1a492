use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::ids::Tenant;
use holdfast_core::rules::health::{PROBE_INTERVAL, UrlState};
use holdfast_core::time::Timestamp;

use super::{Kept, SKEW, keep};
use crate::simulation::{Request, World};

/// An attempt starts at most this long after its URL's state was read.
const FRESH: Duration = Duration::from_secs(1);
/// How long a call may take on one machine, twice: before and after its effect.
const MAX_CALL: Duration = Duration::from_secs(120);
/// A claimed attempt is made at most twice, and three times more if our own network is down.
const MAX_CLAIMED: usize = 5;

impl Request {
    /// Whether it began when everybody could know the state of its URL.
    fn is_informed(&self) -> bool {
        self.at > self.known_since + FRESH + SKEW
    }
}

impl World {
    /// A disabled URL gets one request in 10 minutes.
    pub(super) fn check_one_probe(&self) -> Kept {
        let mut last: BTreeMap<(Tenant, String), Timestamp> = BTreeMap::new();
        for request in self.hosts.receivers.requests().iter().filter(|request| request.is_informed()) {
            if request.state != UrlState::Disabled {
                continue;
            }
            self.hosts.faults.counts.add("a probe");
            let key = (request.tenant.clone(), request.url.clone());
            let before = last.insert(key, request.at).map_or(request.since, |last| last.max(request.since));
            let gap = request.at.since(before);
            keep!(
                "one probe in 10 minutes",
                gap + SKEW + self.drift(PROBE_INTERVAL) + self.late_probe() >= PROBE_INTERVAL,
                "{} got one at {}, {gap:?} after the one before",
                request.url,
                request.at
            );
        }
        Ok(())
    }

    /// How late after it was leased a probe may be made: on one machine no function's time is over while a call takes long.
    fn late_probe(&self) -> Duration {
        if self.hosts.machine.is_some() { MAX_CALL } else { Duration::ZERO }
    }

    pub(super) fn check_frozen_is_left_alone(&self) -> Kept {
        for request in self.hosts.receivers.requests().iter() {
            let is_wrong = request.state == UrlState::Frozen && request.is_informed();
            keep!("a frozen URL is left alone", !is_wrong, "{} got a request at {}", request.url, request.at);
        }
        Ok(())
    }

    /// A claimed attempt is not made again and again.
    pub(super) fn check_claims(&self) -> Kept {
        let mut claimed: BTreeMap<(&str, u32, u32), usize> = BTreeMap::new();
        let requests = self.hosts.receivers.requests();
        for request in requests.iter() {
            if let Some((epoch, n)) = request.claimed.filter(|(_, n)| *n > 0) {
                *claimed.entry((&request.delivery, epoch, n)).or_default() += 1;
            }
        }
        for ((delivery, epoch, n), times) in claimed {
            keep!(
                "a claimed attempt is made twice at most",
                times <= MAX_CLAIMED,
                "attempt {n} of {delivery}, epoch {epoch}: {times} times"
            );
        }
        Ok(())
    }
}
