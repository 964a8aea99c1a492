use std::time::Duration;

use holdfast_core::rules::guard::{Guard, ProxyUrl};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressConfig {
    /// From the start of an attempt to the end of its response.
    pub timeout: Duration,
    /// Where attempts may go. The default is strict.
    pub guard: Guard,
    /// The proxy that all attempts go through; the environment's proxy settings are ignored. Names are resolved and checked before
    /// the proxy is asked, but the proxy resolves them again, so it needs address rules of its own where that matters.
    pub proxy: Option<ProxyUrl>,
    /// How long an unused connection is kept. Many servers close theirs after 5 s, and a request that is sent
    /// at that moment fails, so the default is shorter.
    pub pool_idle_timeout: Duration,
    /// How many unused connections are kept per receiver.
    pub pool_max_idle_per_host: usize,
    /// How many unused connections are kept in all. Of more, the one that has been idle longest is closed.
    pub pool_max_idle: usize,
    /// Certificate authorities (DER) that are trusted in addition to the public ones, for receivers in a private network.
    pub extra_roots: Vec<Vec<u8>>,
    pub lookups: LookupLimits,
}

impl EgressConfig {
    /// How long a look-up may take before its name counts as one that hangs: two fifths of an attempt's timeout, so that the
    /// attempt still has time for its connection and response.
    #[must_use]
    pub fn lookup_deadline(&self) -> Duration {
        self.timeout * 2 / 5
    }
}

/// What look-ups of names may use. Beyond a limit, an attempt waits for a moment or uses an expired answer. Without one, it ends as a
/// shortage of ours and not as a failure of its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupLimits {
    /// Look-ups under way that one tenant has started. Attempts that wait for the same name share one.
    pub max_per_tenant: u32,
    /// Look-ups under way in all.
    pub max_in_all: u32,
    /// Look-ups that are sent per second, in all. In a VPC, an interface may send 1,024 DNS packets a second, and a look-up is two
    /// (IPv4 and IPv6).
    pub max_per_second: u32,
    /// How long an answer is used at least and at most, whatever its time to live.
    pub min_ttl: Duration,
    pub max_ttl: Duration,
    /// How long a name that hangs or has no address is not looked up again.
    pub failure_ttl: Duration,
    /// How many names are remembered.
    pub max_names: usize,
}

impl Default for LookupLimits {
    fn default() -> LookupLimits {
        LookupLimits {
            max_per_tenant: 32,
            max_in_all: 256,
            max_per_second: 400,
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(300),
            failure_ttl: Duration::from_secs(3),
            max_names: 10_000,
        }
    }
}

impl Default for EgressConfig {
    fn default() -> EgressConfig {
        EgressConfig {
            timeout: DEFAULT_TIMEOUT,
            guard: Guard::default(),
            proxy: None,
            pool_idle_timeout: Duration::from_secs(4),
            pool_max_idle_per_host: 32,
            pool_max_idle: 256,
            extra_roots: Vec::new(),
            lookups: LookupLimits::default(),
        }
    }
}
