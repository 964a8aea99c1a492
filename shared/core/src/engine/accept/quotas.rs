//! Whether a post is within the quotas of its tenant.
//!
//! The rate is counted in the memory of each process, so that it costs neither a read nor a write. With several processes a tenant
//! may post up to as many times its quota.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::PostError;
use crate::engine::{Engine, Result};
use crate::ids::{Tenant, UrlId};
use crate::records::TenantVersion;
use crate::rules::bucket::Bucket;
use crate::rules::quota::{Quota, QuotaWarning};
use crate::time::Timestamp;

/// How long a producer should wait for receivers to take what waits for them.
const WAITING_RETRY_AFTER: Duration = Duration::from_secs(10);
/// How long a producer should wait for stored bodies to be removed. Those that are past their time are removed twice a minute.
const STORED_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long a measurement of what waits is used, with what is accepted meanwhile added to it.
const MEASURED_FOR: Duration = Duration::from_millis(250);
/// A tenant has at most one line of each kind in the log within this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// So many tenants are remembered before the first search for those that need not be.
const MIN_PRUNED: usize = 1_024;

/// A post that was refused because a quota is used up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverQuota {
    #[error("the quota events_per_second of this tenant is {limit}, and it is used up")]
    Rate { limit: u64, retry_after: Duration },
    #[error("the quota waiting_bytes of this tenant is {limit}, and {bytes} bytes wait to be delivered")]
    Waiting {
        limit: u64,
        bytes: u64,
        /// The id, scheme and host of the URL that holds most of them, and how many.
        largest: Option<(UrlId, String, u64)>,
    },
    #[error("the quota stored_bytes of this tenant is {limit}, and {bytes} bytes are stored")]
    Stored { limit: u64, bytes: u64 },
}

impl OverQuota {
    #[must_use]
    pub fn quota(&self) -> Quota {
        match self {
            OverQuota::Rate { .. } => Quota::EventsPerSecond,
            OverQuota::Waiting { .. } => Quota::WaitingBytes,
            OverQuota::Stored { .. } => Quota::StoredBytes,
        }
    }

    /// When the same post may be accepted.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            OverQuota::Rate { retry_after, .. } => *retry_after,
            OverQuota::Waiting { .. } => WAITING_RETRY_AFTER,
            OverQuota::Stored { .. } => STORED_RETRY_AFTER,
        }
    }
}

/// What each process remembers of tenants with quotas.
#[derive(Default)]
pub(crate) struct QuotaStates(Mutex<States>);

#[derive(Default)]
struct States {
    by_tenant: HashMap<Tenant, State>,
    /// The number of tenants at which those that need not be remembered are looked for.
    prune_at: usize,
}

#[derive(Default)]
struct State {
    /// `None`: as good as full.
    bucket: Option<Bucket>,
    /// `None`: not measured lately.
    waiting: Option<Measured>,
    /// When the last line of each kind was logged.
    near_logged_at: Option<Timestamp>,
    refused_logged_at: Option<Timestamp>,
}

/// What waits for a tenant. A tenant has up to ten thousand URLs, and adding up what waits for each takes milliseconds.
#[derive(Clone)]
struct Measured {
    at_real: Timestamp,
    /// With what was accepted since.
    bytes: u64,
    /// The URL for which most waits, if that is more than the tenant may have.
    largest: Option<(UrlId, String, u64)>,
}

impl Measured {
    fn is_fresh(&self, now_real: Timestamp) -> bool {
        (self.at_real..self.at_real + MEASURED_FOR).contains(&now_real)
    }
}

impl State {
    fn can_be_forgotten(&self, now: Timestamp) -> bool {
        let is_old = |at: Option<Timestamp>| at.is_none_or(|at| may_log(at, now));
        self.bucket.is_none_or(|bucket| bucket.is_full(now))
            && self.waiting.as_ref().is_none_or(|waiting| !waiting.is_fresh(now))
            && is_old(self.near_logged_at)
            && is_old(self.refused_logged_at)
    }
}

/// The start of a URL, without its path and query.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// A clock that was set back must not keep the log silent.
fn may_log(last: Timestamp, now: Timestamp) -> bool {
    !(last..last + LOG_INTERVAL).contains(&now)
}

impl QuotaStates {
    fn lock(&self) -> MutexGuard<'_, States> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_bucket<T>(
        &self,
        tenant: &Tenant,
        per_second: u64,
        now: Timestamp,
        take: impl FnOnce(&mut Bucket) -> T,
    ) -> T {
        let mut states = self.lock();
        let bucket = states.get(tenant, now).bucket.get_or_insert_with(|| Bucket::full(per_second, now));
        bucket.set_rate(per_second, now);
        take(bucket)
    }

    fn take(&self, tenant: &Tenant, per_second: u64, events: u64, now: Timestamp) -> Result<(), Duration> {
        self.with_bucket(tenant, per_second, now, |bucket| bucket.take(events, now))
    }

    fn take_ahead(
        &self,
        tenant: &Tenant,
        per_second: u64,
        events: u64,
        now: Timestamp,
    ) -> Result<(), Duration> {
        self.with_bucket(tenant, per_second, now, |bucket| bucket.take_ahead(events, now))
    }

    fn waiting(&self, tenant: &Tenant, now_real: Timestamp) -> Option<Measured> {
        let mut states = self.lock();
        let waiting = &states.get(tenant, now_real).waiting;
        waiting.clone().filter(|waiting| waiting.is_fresh(now_real))
    }

    fn set_waiting(&self, tenant: &Tenant, waiting: Measured) {
        let mut states = self.lock();
        let now_real = waiting.at_real;
        states.get(tenant, now_real).waiting = Some(waiting);
    }

    fn add_waiting(&self, tenant: &Tenant, bytes: u64) {
        let mut states = self.lock();
        if let Some(waiting) = states.by_tenant.get_mut(tenant).and_then(|state| state.waiting.as_mut()) {
            waiting.bytes = waiting.bytes.saturating_add(bytes);
        }
    }

    fn give_back(&self, tenant: &Tenant, events: u64) {
        let mut states = self.lock();
        if let Some(bucket) = states.by_tenant.get_mut(tenant).and_then(|state| state.bucket.as_mut()) {
            bucket.give_back(events);
        }
    }

    fn used(&self, tenant: &Tenant, per_second: u64, now: Timestamp) -> u64 {
        let states = self.lock();
        let bucket = states.by_tenant.get(tenant).and_then(|state| state.bucket);
        bucket.map_or(0, |mut bucket| {
            bucket.set_rate(per_second, now);
            bucket.used(now)
        })
    }

    /// Whether a line may be logged now; then it counts as logged.
    fn log_now(
        &self,
        tenant: &Tenant,
        now: Timestamp,
        which: fn(&mut State) -> &mut Option<Timestamp>,
    ) -> bool {
        let mut states = self.lock();
        let last = which(states.get(tenant, now));
        let now_logged = last.is_none_or(|last| may_log(last, now));
        if now_logged {
            *last = Some(now);
        }
        now_logged
    }
}

impl States {
    fn get(&mut self, tenant: &Tenant, now: Timestamp) -> &mut State {
        if self.by_tenant.len() >= self.prune_at.max(MIN_PRUNED) && !self.by_tenant.contains_key(tenant) {
            self.by_tenant.retain(|_, state| !state.can_be_forgotten(now));
            // Not before there are twice as many, so that pruning stays cheap when none can be forgotten.
            self.prune_at = self.by_tenant.len() * 2;
        }
        self.by_tenant.entry(tenant.clone()).or_default()
    }
}

impl Engine {
    /// Takes the events from the tenant's quotas. Returns the quotas that are nearly used up then.
    pub(super) async fn admit(
        &self,
        known: &TenantVersion,
        events: u64,
        is_repeat: bool,
    ) -> Result<Vec<QuotaWarning>, PostError> {
        if known.quotas.are_off() {
            return Ok(Vec::new());
        }
        let now = self.ports.clock.now_real();
        match self.check_quotas(known, events, is_repeat, now).await {
            Ok(warnings) => {
                self.log_near(&known.tenant, &warnings, now);
                Ok(warnings)
            }
            Err(PostError::OverQuota(refused)) => {
                self.count_refused(&known.tenant, &refused, now);
                Err(refused.into())
            }
            Err(error) => Err(error),
        }
    }

    async fn check_quotas(
        &self,
        known: &TenantVersion,
        events: u64,
        is_repeat: bool,
        now: Timestamp,
    ) -> Result<Vec<QuotaWarning>, PostError> {
        let (tenant, quotas) = (&known.tenant, &known.quotas);
        // Before the rate, so that a post that is refused for its bytes takes nothing from it.
        let waiting_bytes = match quotas.waiting_bytes {
            Some(limit) if !is_repeat => Some(self.check_waiting(tenant, limit).await?),
            _ => None,
        };
        let stored_bytes = match quotas.stored_bytes {
            Some(limit) if !is_repeat => Some(self.check_stored(tenant, limit).await??),
            _ => None,
        };
        if let Some(limit) = quotas.events_per_second {
            let taken = self.quotas.take(tenant, limit, events, now);
            taken.map_err(|retry_after| OverQuota::Rate { limit, retry_after })?;
        }
        Ok(self.quota_warnings(known, waiting_bytes, stored_bytes))
    }

    /// The bytes that are stored, if that is less than the quota.
    async fn check_stored(&self, tenant: &Tenant, limit: u64) -> Result<Result<u64, OverQuota>> {
        let bytes = self.ports.backlog.stored_bytes(tenant).await?.unwrap_or(0);
        Ok(if bytes < limit { Ok(bytes) } else { Err(OverQuota::Stored { limit, bytes }) })
    }

    /// The bytes that wait, if that is less than the quota.
    async fn check_waiting(&self, tenant: &Tenant, limit: u64) -> Result<u64, PostError> {
        let waiting = match self.quotas.waiting(tenant, self.ports.clock.now_real()) {
            // A refusal names the URL that holds most.
            Some(waiting) if waiting.bytes < limit || waiting.largest.is_some() => waiting,
            _ => self.measure_waiting(tenant, limit).await?,
        };
        let Measured { bytes, largest, .. } = waiting;
        if bytes < limit {
            return Ok(bytes);
        }
        Err(OverQuota::Waiting { limit, bytes, largest }.into())
    }

    async fn measure_waiting(&self, tenant: &Tenant, limit: u64) -> Result<Measured> {
        let at_real = self.ports.clock.now_real();
        let bytes = self.ports.backlog.bytes(tenant).await?.unwrap_or(0);
        let mut measured = Measured { at_real, bytes, largest: None };
        // For the posts that come while this is looked up.
        self.quotas.set_waiting(tenant, measured.clone());
        if bytes >= limit {
            let waiting = self.ports.backlog.of(tenant).await?.unwrap_or_default();
            measured.largest = match waiting.largest {
                Some((id, bytes)) => self.url_text(tenant, &id).await?.map(|url| (id, url, bytes)),
                None => None,
            };
            self.quotas.set_waiting(tenant, measured.clone());
        }
        Ok(measured)
    }

    /// What was accepted waits from now on.
    pub(super) fn add_waiting(&self, tenant: &Tenant, bytes: u64) {
        self.quotas.add_waiting(tenant, bytes);
    }

    /// Only scheme and host: a key that may only post events need not see the rest, which may hold a secret.
    async fn url_text(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<String>> {
        let url = self.repository.get_url(tenant, id).await?;
        Ok(url.map(|url| origin(&url.record.url).to_owned()))
    }

    /// The quotas that are nearly used up. What is used of the rate is what this process admitted.
    pub(in crate::engine) fn quota_warnings(
        &self,
        known: &TenantVersion,
        waiting_bytes: Option<u64>,
        stored_bytes: Option<u64>,
    ) -> Vec<QuotaWarning> {
        let quotas = &known.quotas;
        let now = self.ports.clock.now_real();
        let used = |per_second| self.quotas.used(&known.tenant, per_second, now);
        let posted = quotas.events_per_second.map_or(0, used);
        [
            QuotaWarning::of(Quota::EventsPerSecond, posted, quotas.events_per_second),
            QuotaWarning::of(Quota::Subscriptions, known.subscriptions, quotas.subscriptions),
            QuotaWarning::of(Quota::WaitingBytes, waiting_bytes.unwrap_or(0), quotas.waiting_bytes),
            QuotaWarning::of(Quota::StoredBytes, stored_bytes.unwrap_or(0), quotas.stored_bytes),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Takes Holdfast's own events from the rate of their tenant, or says how long they have to wait. Its other quotas do not hold them
    /// back: what waits for a URL may wait for days, and these events tell the tenant so.
    pub(in crate::engine) async fn take_own_events(
        &self,
        tenant: &Tenant,
        events: u64,
    ) -> Result<Result<(), Duration>> {
        let known = self.repository.get_tenant_version(tenant).await?.record;
        let Some(limit) = known.quotas.events_per_second else { return Ok(Ok(())) };
        Ok(self.quotas.take_ahead(tenant, limit, events, self.ports.clock.now_real()))
    }

    /// Takes one delivery that is sent again from the quotas of its tenant: its attempts are stored.
    pub(in crate::engine) async fn take_replay(&self, tenant: &Tenant) -> Result<Result<(), OverQuota>> {
        let quotas = self.repository.get_tenant_version(tenant).await?.record.quotas;
        if let Some(limit) = quotas.stored_bytes
            && let Err(refused) = self.check_stored(tenant, limit).await?
        {
            return Ok(Err(refused));
        }
        let Some(limit) = quotas.events_per_second else { return Ok(Ok(())) };
        let taken = self.quotas.take(tenant, limit, 1, self.ports.clock.now_real());
        Ok(taken.map_err(|retry_after| OverQuota::Rate { limit, retry_after }))
    }

    /// The same for a step of up to `wanted` deliveries. Returns how many there may be, or how long to wait.
    pub(in crate::engine) async fn take_replay_step(
        &self,
        tenant: &Tenant,
        wanted: u32,
    ) -> Result<Result<u32, Duration>> {
        let quotas = self.repository.get_tenant_version(tenant).await?.record.quotas;
        if let Some(limit) = quotas.stored_bytes
            && let Err(refused) = self.check_stored(tenant, limit).await?
        {
            return Ok(Err(refused.retry_after()));
        }
        let Some(limit) = quotas.events_per_second else { return Ok(Ok(wanted)) };
        let now = self.ports.clock.now_real();
        let take = |bucket: &mut Bucket| bucket.take_some(u64::from(wanted), now);
        let taken = self.quotas.with_bucket(tenant, limit, now, take);
        Ok(taken.map(|taken| u32::try_from(taken).unwrap_or(wanted)))
    }

    /// For events that were admitted and not accepted.
    pub(in crate::engine) fn give_back_events(&self, tenant: &Tenant, events: u64) {
        self.quotas.give_back(tenant, events);
    }

    fn log_near(&self, tenant: &Tenant, warnings: &[QuotaWarning], now: Timestamp) {
        if !warnings.is_empty() && self.quotas.log_now(tenant, now, |state| &mut state.near_logged_at) {
            let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            tracing::warn!(%tenant, warnings = warnings.join("; "), "quota.near");
        }
    }

    fn count_refused(&self, tenant: &Tenant, refused: &OverQuota, now: Timestamp) {
        self.counters.posts_over_quota.fetch_add(1, Ordering::Relaxed);
        if self.quotas.log_now(tenant, now, |state| &mut state.refused_logged_at) {
            tracing::warn!(%tenant, quota = refused.quota().as_str(), "quota.exceeded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    #[test]
    fn tenants_whose_buckets_are_full_again_are_forgotten() {
        let states = QuotaStates::default();
        let tenant = |n: usize| Tenant::from(format!("t{n}").as_str());
        let len = || states.lock().by_tenant.len();
        states.take(&"busy".into(), 1, 100, at(0)).unwrap();
        for n in 0..MIN_PRUNED * 3 {
            // Each of them is full again after a second, and ten come in each second.
            states.take(&tenant(n), 10, 1, at(n as i64 * 100)).unwrap();
            assert!(len() <= MIN_PRUNED, "{}", len());
            if n == 500 {
                let wait = states.take(&"busy".into(), 1, 1, at(50_000)).unwrap_err();
                assert_eq!(wait, Duration::from_secs(50), "a bucket in debt is kept");
            }
        }
    }

    #[test]
    fn a_line_is_logged_once_a_minute_for_each_tenant() {
        let states = QuotaStates::default();
        for (tenant, ms, logged) in [
            ("a", 0, true),
            ("a", 59_999, false),
            ("b", 59_999, true),
            ("a", 60_000, true),
            // The clock was set back.
            ("a", -1, true),
        ] {
            let now_logged = states.log_now(&tenant.into(), at(ms), |state| &mut state.near_logged_at);
            assert_eq!(now_logged, logged, "{tenant} after {ms} ms");
        }
        assert!(states.log_now(&"a".into(), at(0), |state| &mut state.refused_logged_at), "another kind");
    }
}
