use std::time::Duration;

use holdfast_core::rules::guard::{Guard, ProxyUrl};

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
    /// Certificate authorities (DER) that are trusted in addition to the public ones, for receivers in a private network.
    pub extra_roots: Vec<Vec<u8>>,
}

impl Default for EgressConfig {
    fn default() -> EgressConfig {
        EgressConfig {
            timeout: Duration::from_secs(5),
            guard: Guard::default(),
            proxy: None,
            pool_idle_timeout: Duration::from_secs(4),
            pool_max_idle_per_host: 32,
            extra_roots: Vec::new(),
        }
    }
}
