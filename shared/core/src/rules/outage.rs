//! Whether our own network is down, as far as one process can tell from the attempts that it makes.
//!
//! If several healthy receivers of several tenants fall silent at the same time, and nothing succeeds any more, then it is not they
//! who failed. Receivers that were failing before say nothing about our network, and those of one tenant may share a network that is down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Tenant;
use crate::time::Timestamp;

/// How long a silence is remembered.
const WINDOW: Duration = Duration::from_secs(60);
const MIN_HOSTS: usize = 5;
const MIN_TENANTS: usize = 2;
/// More are not needed to tell, and memory is bounded.
const MAX_REMEMBERED: usize = 1_000;
/// How often an attempt that falls into an outage is made again without counting.
pub const MAX_SPARED: u32 = 3;

/// A receiver, as one tenant knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    pub tenant: Tenant,
    pub name: String,
}

/// The healthy hosts that fell silent since the last success, and when each was last silent.
///
/// One is added for every attempt that fails in an outage, so that no step looks at all of them.
#[derive(Debug, Default)]
pub struct Silences {
    by_host: BTreeMap<Arc<Host>, Timestamp>,
    by_time: BTreeSet<(Timestamp, Arc<Host>)>,
    /// How many of the hosts have this name.
    names: BTreeMap<String, usize>,
    /// How many of the hosts are this tenant's.
    tenants: BTreeMap<Tenant, usize>,
}

impl Silences {
    /// An attempt succeeded: our network works.
    pub fn success(&mut self) {
        *self = Silences::default();
    }

    /// An attempt got no byte of an answer. `was_failing`: nor did the host answer the attempts before this one, as far as its URL's
    /// health says.
    pub fn silence(&mut self, host: &Host, was_failing: bool, now_real: Timestamp) {
        while self.by_time.first().is_some_and(|(at, _)| now_real.since(*at) > WINDOW) {
            let oldest = self.by_time.pop_first();
            oldest.and_then(|(_, host)| self.forget(&host));
        }
        // One that fell silent within this trouble is failing now, and is still a witness.
        let is_new = !self.by_host.contains_key(host);
        if is_new && (was_failing || self.by_host.len() >= MAX_REMEMBERED) {
            return;
        }
        let host = self.forget(host).unwrap_or_else(|| Arc::new(host.clone()));
        *self.names.entry(host.name.clone()).or_default() += 1;
        *self.tenants.entry(host.tenant.clone()).or_default() += 1;
        self.by_time.insert((now_real, Arc::clone(&host)));
        self.by_host.insert(host, now_real);
    }

    fn forget(&mut self, host: &Host) -> Option<Arc<Host>> {
        let (host, at) = self.by_host.remove_entry(host)?;
        decrement(&mut self.names, &host.name);
        decrement(&mut self.tenants, &host.tenant);
        self.by_time.remove(&(at, Arc::clone(&host)));
        Some(host)
    }

    /// Whether this silence is our network's and not the host's.
    #[must_use]
    pub fn is_ours(&self, host: &Host) -> bool {
        let is_outage = self.names.len() >= MIN_HOSTS && self.tenants.len() >= MIN_TENANTS;
        is_outage && self.by_host.contains_key(host)
    }
}

fn decrement<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    fn host(tenant: &str, name: &str) -> Host {
        Host { tenant: tenant.into(), name: name.to_owned() }
    }

    /// A tenant and a host, whether the host was failing before, and at which second it was silent.
    type Silence = (&'static str, &'static str, bool, i64);

    fn after(silences: &[Silence]) -> Silences {
        let mut seen = Silences::default();
        for (tenant, name, was_failing, second) in silences {
            seen.silence(&host(tenant, name), *was_failing, at(*second));
        }
        seen
    }

    const OUTAGE: [Silence; 5] = [
        ("a", "one", false, 0),
        ("a", "two", false, 1),
        ("a", "three", false, 2),
        ("b", "four", false, 3),
        ("b", "five", false, 60),
    ];

    #[test]
    fn five_healthy_hosts_of_two_tenants_that_fall_silent_within_a_minute_are_our_outage() {
        let seen = after(&OUTAGE);
        assert!(OUTAGE.iter().all(|(tenant, name, ..)| seen.is_ours(&host(tenant, name))));
        assert!(!seen.is_ours(&host("a", "six")), "one that was failing before");
    }

    #[test]
    fn anything_less_is_the_hosts_own_failure() {
        let with = |at: usize, silence: Silence| {
            let mut silences = OUTAGE;
            silences[at] = silence;
            silences
        };
        let cases = [
            ("four hosts", with(4, ("b", "four", false, 60))),
            ("the same host of another tenant", with(4, ("b", "one", false, 60))),
            ("one was failing before", with(4, ("b", "five", true, 60))),
            ("the first is too long ago", with(4, ("b", "five", false, 61))),
        ];
        for (case, silences) in cases {
            assert!(!after(&silences).is_ours(&host("a", "two")), "{case}");
        }
        let fifty: Vec<String> = (0..50).map(|n| format!("host{n}")).collect();
        let mut seen = Silences::default();
        for name in &fifty {
            seen.silence(&host("a", name), false, at(0));
        }
        assert!(!seen.is_ours(&host("a", "host7")), "fifty dead names of one tenant");
    }

    #[test]
    fn a_success_ends_it() {
        let mut seen = after(&OUTAGE);
        seen.success();
        assert!(!seen.is_ours(&host("a", "one")));
        seen.silence(&host("a", "one"), true, at(61));
        assert!(!seen.is_ours(&host("a", "one")));
    }

    #[test]
    fn it_lasts_as_long_as_the_hosts_stay_silent() {
        let mut seen = after(&OUTAGE);
        for second in (60..400).step_by(20) {
            for (tenant, name, ..) in OUTAGE {
                // By now their health says that they were failing before.
                seen.silence(&host(tenant, name), true, at(second));
            }
            assert!(seen.is_ours(&host("b", "four")), "{second}");
        }
        seen.silence(&host("a", "one"), true, at(500));
        assert!(!seen.is_ours(&host("a", "one")), "a minute of rest");
    }

    #[test]
    fn memory_is_bounded() {
        let mut seen = Silences::default();
        for n in 0..MAX_REMEMBERED * 2 {
            seen.silence(&host("a", &n.to_string()), false, at(0));
        }
        assert_eq!(seen.by_host.len(), MAX_REMEMBERED);
        seen.silence(&host("b", "last"), false, at(61));
        let counts = (seen.by_host.len(), seen.by_time.len(), seen.names.len(), seen.tenants.len());
        assert_eq!(counts, (1, 1, 1, 1));
    }

    /// No step looks at all hosts, so the counts are kept up to date instead.
    #[test]
    fn the_counts_are_those_of_the_hosts_that_are_remembered() {
        let mut seen = Silences::default();
        for n in 0..2_000_i64 {
            // Hosts come back before and after they are forgotten, and tenants share names.
            let (tenant, name) = (["a", "b", "c"][n as usize % 3], format!("host{}", n * n % 97));
            seen.silence(&host(tenant, &name), n % 5 == 0, at(n * (n % 7)));
            let (mut names, mut tenants) = (BTreeMap::new(), BTreeMap::new());
            for host in seen.by_host.keys() {
                *names.entry(host.name.clone()).or_insert(0) += 1;
                *tenants.entry(host.tenant.clone()).or_insert(0) += 1;
            }
            let by_time: BTreeMap<_, _> = seen.by_time.iter().map(|(at, host)| (host.clone(), *at)).collect();
            assert_eq!((&seen.names, &seen.tenants, &seen.by_host), (&names, &tenants, &by_time), "{n}");
        }
    }
}
