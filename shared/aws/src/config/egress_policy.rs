//! The egress policy: where attempts may go, and how.

use holdfast_core::rules::guard::{Cidr, EgressPolicy, Guard, Ports, ProxyUrl};

use super::reader::Reader;

/// Strict by default. `None` only with a fault.
pub(super) fn egress_policy(reader: &mut Reader<'_>, http_allowed: bool) -> Option<EgressPolicy> {
    let allow = networks(reader, "HOLDFAST_ALLOWED_TARGETS");
    let deny = networks(reader, "HOLDFAST_DENIED_TARGETS");
    let ports = reader.list("HOLDFAST_TARGET_PORTS", Ports::usual(http_allowed), Ports::list);
    let proxy = proxy(reader);
    // A subscriber cannot change the configuration, so a refusal does not explain how to.
    let guard = Guard { allow: allow?, deny: deny?, ports: ports?, http_allowed, flag: None };
    Some(EgressPolicy { guard, proxy: proxy.ok()? })
}

fn networks(reader: &mut Reader<'_>, name: &'static str) -> Option<Vec<Cidr>> {
    reader.list(name, Vec::new(), |text| match text {
        "none" => Ok(Vec::new()),
        _ => Cidr::list(text),
    })
}

fn proxy(reader: &mut Reader<'_>) -> Result<Option<ProxyUrl>, ()> {
    let name = "HOLDFAST_PROXY";
    let Some(text) = reader.optional(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|bad| reader.fault(format!("{name} is no proxy: {bad}")))
}
