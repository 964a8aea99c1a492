use std::time::Duration;

use holdfast_core::rules::guard::{Guard, ProxyUrl};

/// How attempts are made. The default is what the specification asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressConfig {
    /// From the start of an attempt to the end of its answer.
    pub timeout: Duration,
    /// Where attempts may go. The default is strict.
    pub guard: Guard,
    /// The proxy that all attempts go through; those of the environment are never used. Names are looked up and checked
    /// before the proxy is asked, but it looks them up once more, so a network where that matters has to guard it too.
    pub proxy: Option<ProxyUrl>,
    /// How long an unused connection is kept. Many servers close theirs after 5 s, and a request that meets the closing
    /// is a failed attempt, so the default is shorter than that.
    pub pool_idle_timeout: Duration,
    /// How many unused connections are kept per receiver.
    pub pool_max_idle_per_host: usize,
    /// Certificate authorities (DER) that are trusted besides the public ones, for receivers in a private network.
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
