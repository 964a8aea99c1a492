use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use holdfast_core::ids::Tenant;
use holdfast_core::rules::guard::{Guard, Refusal};
use holdfast_core::rules::shortage::Shortage;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use crate::names::{NameError, Names};
use crate::sources::{self, HasSource};

/// Why a name is not connected to. It is in the chain of the client's error, which would otherwise look like a failed connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("the name {name} has no address")]
    NoAddress { name: String },
    #[error("the name {name} was not resolved within {deadline:?}")]
    Hangs { name: String, deadline: Duration },
    #[error("this machine has no IPv6 address to connect from")]
    NoIpv6,
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Shortage(Shortage),
}

tokio::task_local! {
    /// Whose attempt is being made. The client gives its resolver only a name, and calls it in the task of the attempt that needs
    /// the connection. Resolving in the sender instead would look up names also when a connection is open already, and pass the
    /// addresses around the client, which could then use older ones.
    static TENANT: Tenant;
}

/// Runs an attempt whose look-ups count as this tenant's.
pub(crate) async fn as_tenant<F: Future>(tenant: Tenant, attempt: F) -> F::Output {
    TENANT.scope(tenant, attempt).await
}

/// Whose attempt the caller works for, if it is one.
pub(crate) fn current_tenant() -> Option<Tenant> {
    TENANT.try_with(Tenant::clone).ok()
}

/// Resolves names and checks their addresses, cached or not. The client connects only to what this returns: there is no second
/// look-up whose answer could differ. A URL whose host is an address is never resolved, so the sender checks it.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    guard: Arc<Guard>,
    names: Names,
    /// The host of the operator's own proxy, which may have any address.
    unguarded: Option<Arc<str>>,
    has_source: HasSource,
}

impl GuardedResolver {
    pub(crate) fn new(guard: Arc<Guard>, names: Names) -> GuardedResolver {
        GuardedResolver { guard, names, unguarded: None, has_source: sources::has_source }
    }

    /// For a client that connects only to this proxy.
    pub(crate) fn for_proxy(self, host: &str) -> GuardedResolver {
        GuardedResolver { unguarded: Some(host.into()), ..self }
    }

    /// The addresses of a name. One refused address refuses the name, because the client may connect to any of them.
    pub(crate) async fn addresses(
        &self,
        tenant: Option<&Tenant>,
        name: &str,
    ) -> Result<Arc<[IpAddr]>, Unresolved> {
        let found = self.resolve_unchecked(tenant, name).await?;
        for address in found.iter() {
            self.guard.check_address(*address).map_err(Unresolved::Refused)?;
        }
        Ok(found)
    }

    /// For a URL whose host may be an address.
    pub(crate) fn check_reachable(&self, host: Option<&str>) -> Result<(), Unresolved> {
        let literal = host.and_then(|host| host.strip_prefix('[')?.strip_suffix(']'));
        match literal.and_then(|literal| literal.parse::<Ipv6Addr>().ok()) {
            Some(address) if !(self.has_source)(address) => Err(Unresolved::NoIpv6),
            _ => Ok(()),
        }
    }

    async fn resolve_unchecked(
        &self,
        tenant: Option<&Tenant>,
        name: &str,
    ) -> Result<Arc<[IpAddr]>, Unresolved> {
        self.names.resolve(tenant, name).await.map_err(|error| match error {
            NameError::NoAddress => Unresolved::NoAddress { name: name.to_owned() },
            NameError::Hangs(deadline) => Unresolved::Hangs { name: name.to_owned(), deadline },
            NameError::Shortage(shortage) => Unresolved::Shortage(shortage),
        })
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unresolved>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        // Read here and not in the future, which the client may move to a task of its own when another connection becomes free first.
        let tenant = current_tenant();
        Box::pin(async move {
            let found = if resolver.unguarded.as_deref() == Some(name.as_str()) {
                resolver.resolve_unchecked(None, name.as_str()).await?.to_vec()
            } else {
                let found = resolver.addresses(tenant.as_ref(), name.as_str()).await?;
                sources::reachable(&found, resolver.has_source)
            };
            if found.is_empty() {
                return Err(Unresolved::NoIpv6);
            }
            // The client replaces port 0 with the URL's port.
            let found: Vec<_> = found.iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(found.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use holdfast_core::rules::guard::{Cidr, Ports};

    use super::*;
    use crate::config::LookupLimits;
    use crate::lookup::{Answer, Lookup, LookupError};

    /// Names that begin with `both` have an IPv4 address too.
    struct Zone;

    #[async_trait]
    impl Lookup for Zone {
        async fn addresses(&self, name: &str) -> Result<Answer, LookupError> {
            let both = [IpAddr::from(Ipv6Addr::LOCALHOST), [127, 0, 0, 1].into()];
            let addresses = if name.starts_with("both") { both.to_vec() } else { both[..1].to_vec() };
            Ok(Answer { addresses, ttl: Duration::from_secs(60) })
        }
    }

    #[tokio::test]
    async fn without_ipv6_the_ipv4_addresses_of_a_name_are_used() {
        let allow = Cidr::list("127.0.0.0/8,::1").unwrap();
        let guard = Guard { allow, ports: Ports::any(), http_allowed: true, ..Guard::default() };
        let names = Names::new(Arc::new(Zone), LookupLimits::default(), Duration::from_secs(2));
        let with = GuardedResolver::new(Arc::new(guard), names);
        let with = GuardedResolver { has_source: |_| true, ..with };
        let mut without = GuardedResolver { has_source: |_| false, ..with.clone() };
        let name = |name: &str| name.parse::<Name>().unwrap();
        assert_eq!(with.clone().call(name("both.example")).await.unwrap().count(), 2);
        let found: Vec<_> = without.call(name("both.example")).await.unwrap().collect();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 0))]);
        let refused = without.call(name("ipv6.example")).await;
        assert!(matches!(refused, Err(Unresolved::NoIpv6)));

        assert!(matches!(without.check_reachable(Some("[::1]")), Err(Unresolved::NoIpv6)));
        assert!(with.check_reachable(Some("[::1]")).is_ok());
        for host in [Some("127.0.0.1"), Some("ipv6.example"), None] {
            assert!(without.check_reachable(host).is_ok(), "{host:?}");
        }
    }
}
