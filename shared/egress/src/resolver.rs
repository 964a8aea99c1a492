use std::io;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Marks a failed lookup in the chain of an error, so that it is not taken for a failed connection.
#[derive(Debug, thiserror::Error)]
#[error("the name {name} has no address")]
pub(crate) struct NoAddress {
    name: String,
    source: Option<io::Error>,
}

/// Looks names up as the operating system does. A URL whose host is an address already is never looked up, so whatever is
/// to hold for all addresses must be checked on the URL too.
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { Ok(look_up(name.as_str()).await?) })
    }
}

async fn look_up(name: &str) -> Result<Addrs, NoAddress> {
    let no_address = |source| NoAddress { name: name.to_owned(), source };
    // The client replaces port 0 by that of the URL.
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|e| no_address(Some(e)))?;
    let mut found = found.peekable();
    if found.peek().is_none() {
        return Err(no_address(None));
    }
    Ok(Box::new(found.collect::<Vec<_>>().into_iter()))
}
