use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdfast_core::rules::guard::{Guard, Refusal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::lookup::Lookup;

/// Why a name is not connected to. It is in the chain of the client's error, which would otherwise look like a failed connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("the name {name} has no address")]
    NoAddress { name: String, source: Option<io::Error> },
    #[error("{0}")]
    Refused(Refusal),
}

/// Resolves names and checks their addresses. The client connects only to what this returns: there is no second lookup whose
/// answer could differ. A URL whose host is an address is never resolved, so the sender checks it.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    guard: Arc<Guard>,
    lookup: Arc<dyn Lookup>,
    /// The host of the operator's own proxy, which may have any address.
    unguarded: Option<String>,
}

impl GuardedResolver {
    pub(crate) fn new(guard: Arc<Guard>, lookup: Arc<dyn Lookup>) -> GuardedResolver {
        GuardedResolver { guard, lookup, unguarded: None }
    }

    /// For a client that connects only to this proxy.
    pub(crate) fn for_proxy(self, host: &str) -> GuardedResolver {
        GuardedResolver { unguarded: Some(host.to_owned()), ..self }
    }

    /// The addresses of a name. One refused address refuses the name, because the client may connect to any of them.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let found = self.resolve_unchecked(name).await?;
        for address in &found {
            self.guard.check_address(*address).map_err(Unresolved::Refused)?;
        }
        Ok(found)
    }

    async fn resolve_unchecked(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let no_address = |source| Unresolved::NoAddress { name: name.to_owned(), source };
        let found = self.lookup.addresses(name).await.map_err(|e| no_address(Some(e)))?;
        if found.is_empty() { Err(no_address(None)) } else { Ok(found) }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let found = if resolver.unguarded.as_deref() == Some(name.as_str()) {
                resolver.resolve_unchecked(name.as_str()).await?
            } else {
                resolver.addresses(name.as_str()).await?
            };
            // The client replaces port 0 with the URL's port.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
