use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ServerOrderingStrategy};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use holdfast_core::rules::shortage::Shortage;

use crate::client::BuildError;

type Builder = ResolverBuilder<TokioRuntimeProvider>;

/// The addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub addresses: Vec<IpAddr>,
    /// How long the addresses may be used.
    pub ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    #[error("{0}")]
    NoAddress(String),
    /// The name servers of the name do not answer.
    #[error("no answer")]
    NoAnswer,
    /// The look-up could not be made, whatever the name.
    #[error("{0}")]
    Shortage(Shortage),
}

/// Resolves names. Tests use their own, whose answers change.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Dropping the future cancels the look-up.
    async fn addresses(&self, name: &str) -> Result<Answer, LookupError>;
}

/// Asks the name servers of `/etc/resolv.conf`, after `/etc/hosts`. Both are read once. No thread waits for an answer, so names that
/// hang delay no others.
pub struct SystemLookup {
    resolver: TokioResolver,
    deadline: Duration,
}

impl SystemLookup {
    /// `deadline` is how long a look-up may take.
    pub fn new(deadline: Duration) -> Result<SystemLookup, BuildError> {
        let builder = TokioResolver::builder_tokio().unwrap_or_else(|_| {
            // What the C library does without a usable /etc/resolv.conf.
            let here = NameServerConfig::udp_and_tcp(IpAddr::V4(Ipv4Addr::LOCALHOST));
            asking(here)
        });
        Ok(SystemLookup::build(builder, deadline)?)
    }

    fn build(mut builder: Builder, deadline: Duration) -> Result<SystemLookup, NetError> {
        let options = builder.options_mut();
        // Less than the deadline, so that a name whose IPv6 look-up hangs still gets its IPv4 addresses.
        options.timeout = deadline * 4 / 5;
        // Every query is sent up to three times as it is, and every packet is of a limited number.
        options.attempts = 0;
        options.num_concurrent_reqs = 1;
        // Hanging names must not use up what others need of a connection. The look-ups are limited elsewhere.
        options.max_active_requests = usize::from(u16::MAX);
        // A name that hangs must not change which name server the others are sent to.
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Answers are cached above, where the limits are.
        options.cache_size = 0;
        Ok(SystemLookup { resolver: builder.build()?, deadline })
    }

    /// Whether the name servers answer at all. They know the root's own, so an answer does not wait for name servers of others.
    async fn is_answered(&self) -> bool {
        let root = self.resolver.lookup(Name::root(), RecordType::NS);
        // What is left of the deadline after the look-up.
        let answer = tokio::time::timeout(self.deadline * 3 / 20, root).await;
        matches!(answer, Ok(Ok(_) | Err(NetError::Dns(_))))
    }
}

fn asking(name_server: NameServerConfig) -> Builder {
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![name_server]);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
}

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> Result<Answer, LookupError> {
        let found = match self.resolver.lookup_ip(name).await {
            Ok(found) => found,
            Err(NetError::Timeout) if !self.is_answered().await => {
                return Err(LookupError::Shortage(Shortage::Resolver));
            }
            Err(error) => return Err(classify(&error)),
        };
        let ttl = found.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or(0);
        Ok(Answer { addresses: found.iter().collect(), ttl: Duration::from_secs(ttl.into()) })
    }
}

/// What keeps us from the name server is not about the name. No answer from it is, if it answers otherwise: it waits for the name
/// servers of the name.
fn classify(error: &NetError) -> LookupError {
    match error {
        NetError::Io(io) => {
            let of_system = io.raw_os_error().and_then(Shortage::of_os_error);
            LookupError::Shortage(of_system.unwrap_or(Shortage::Resolver))
        }
        NetError::Busy | NetError::NoConnections => LookupError::Shortage(Shortage::Resolver),
        NetError::Timeout => LookupError::NoAnswer,
        other => LookupError::NoAddress(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
