//! The egress policy: where attempts may go, and how.

use holdfast_core::rules::guard::{Cidr, EgressPolicy, Guard, Ports, ProxyUrl};

use super::reader::Reader;

/// Strict by default. `None` only with a fault.
pub(super) fn egress_policy(reader: &mut Reader<'_>, http_allowed: bool) -> Option<EgressPolicy> {
    let allow = allowed_targets(reader);
    let ports = target_ports(reader, http_allowed);
    let proxy = proxy(reader);
    // A subscriber cannot change the configuration, so a refusal does not explain how to.
    let guard = Guard { allow: allow?, ports: ports?, http_allowed, flag: None };
    Some(EgressPolicy { guard, proxy: proxy.ok()? })
}

fn allowed_targets(reader: &mut Reader<'_>) -> Option<Vec<Cidr>> {
    let name = "HOLDFAST_ALLOWED_TARGETS";
    let Some(text) = reader.optional(name).filter(|text| text != "none") else { return Some(Vec::new()) };
    reader.list(name, Cidr::list(&text))
}

fn target_ports(reader: &mut Reader<'_>, http_allowed: bool) -> Option<Ports> {
    let name = "HOLDFAST_TARGET_PORTS";
    let Some(text) = reader.optional(name) else { return Some(Ports::usual(http_allowed)) };
    reader.list(name, Ports::list(&text))
}

fn proxy(reader: &mut Reader<'_>) -> Result<Option<ProxyUrl>, ()> {
    let name = "HOLDFAST_PROXY";
    let Some(text) = reader.optional(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|bad| reader.fault(format!("{name} is no proxy: {bad}")))
}
