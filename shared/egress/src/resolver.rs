use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdfast_core::rules::guard::{Guard, Refusal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::lookup::Lookup;

/// Why a name is not connected to. Stands in the chain of the client's error, so that it is not taken for a failed connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("the name {name} has no address")]
    NoAddress { name: String, source: Option<io::Error> },
    #[error("{0}")]
    Refused(Refusal),
}

/// Looks names up and checks what was found. The client connects to what it is given here, and to nothing else: there is no
/// second lookup whose answer could differ. A URL whose host is an address already is never looked up, so that one is
/// checked by whoever makes the attempt.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    guard: Arc<Guard>,
    lookup: Arc<dyn Lookup>,
    /// Where the operator's own proxy is. It may be anywhere.
    unguarded: Option<String>,
}

impl GuardedResolver {
    pub(crate) fn new(guard: Arc<Guard>, lookup: Arc<dyn Lookup>) -> GuardedResolver {
        GuardedResolver { guard, lookup, unguarded: None }
    }

    /// For a client whose every connection goes to this proxy.
    pub(crate) fn for_proxy(self, host: &str) -> GuardedResolver {
        GuardedResolver { unguarded: Some(host.to_owned()), ..self }
    }

    /// The addresses of a name, if there are some and every one of them may be attempted. One that may not refuses all:
    /// which of them is connected to is chance.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let found = self.look_up(name).await?;
        for address in &found {
            self.guard.check_address(*address).map_err(Unresolved::Refused)?;
        }
        Ok(found)
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
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
                resolver.look_up(name.as_str()).await?
            } else {
                resolver.addresses(name.as_str()).await?
            };
            // The client replaces port 0 by that of the URL.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
