//! Where attempts may go: no URL leads to an internal address.
//!
//! Rules only. The sender resolves names, asks [`Guard::check_address`] about *every* address that it found, and connects to one of those
//! and to nothing else. Hosts are never parsed here: what an odd literal (decimal, octal, hexadecimal,
//! shortened, with a percent sign or in other scripts) means is what the URL standard makes of it.

mod cidr;
mod ports;
mod proxy;
mod ranges;
mod refusal;
#[cfg(test)]
mod tests;

// From `core`, which has addresses and no sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

pub use cidr::{BadCidr, Cidr};
pub use ports::{BadPort, Ports};
pub use proxy::{BadProxy, ProxyUrl};
pub use ranges::Rule;
pub use refusal::Refusal;

use crate::rules::url_form;

const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;
/// By which a network without IPv4 reaches IPv4 addresses: they are the last four bytes.
const NAT64: Cidr = Cidr::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// What an operator allows. The default is strict: `https`, public addresses, the usual ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Networks that may be attempted though they are not public.
    pub allow: Vec<Cidr>,
    /// Networks that may not be attempted though they are public or in `allow`: the operator's own addresses.
    pub deny: Vec<Cidr>,
    pub ports: Ports,
    /// Whether `http://` is allowed besides `https://`.
    pub http_allowed: bool,
    /// The command-line flag that adds to `allow`, named in refusals where the reader probably started Holdfast.
    pub flag: Option<String>,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard {
            allow: Vec::new(),
            deny: Vec::new(),
            ports: Ports::usual(false),
            http_allowed: false,
            flag: None,
        }
    }
}

/// What an operator configures for outbound requests. By default only public addresses over https, without a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    pub guard: Guard,
    pub proxy: Option<ProxyUrl>,
}

impl Guard {
    /// Whether a connection to this address may be made.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let meant = meant(address);
        if self.deny.iter().any(|range| range.contains(address) || range.contains(meant)) {
            return Err(Refusal::Denied);
        }
        let Some((rule, range)) = ranges::refusing(meant) else { return Ok(()) };
        if self.allows(address, rule) || self.allows(meant, rule) {
            return Ok(());
        }
        Err(Refusal::Address { rule, range, flag: self.flag.clone() })
    }

    /// A metadata service that hands out credentials has to be allowed by its exact address: allowing the network around it hardly means
    /// that.
    fn allows(&self, address: IpAddr, rule: Rule) -> bool {
        self.allow
            .iter()
            .any(|range| range.contains(address) && (rule != Rule::Metadata || range.is_single()))
    }

    /// Whether this URL may be attempted, as far as it says so itself. The addresses of a name are still to be checked.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        url_form::check_form(url, self.http_allowed).map_err(Refusal::Form)?;
        match url.host() {
            Some(Host::Ipv4(v4)) => self.check_address(IpAddr::V4(v4))?,
            Some(Host::Ipv6(v6)) => self.check_address(IpAddr::V6(v6))?,
            Some(Host::Domain(name)) => self.check_name(name)?,
            None => return Err(Refusal::Name),
        }
        match url.port_or_known_default() {
            Some(port) if self.ports.contains(port) => Ok(()),
            port => Err(Refusal::Port { port: port.unwrap_or(0), allowed: self.ports.clone() }),
        }
    }

    /// A name as the URL standard writes it: lower case, other scripts encoded.
    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_label = |label: &str| {
            let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            (1..=MAX_LABEL_LEN).contains(&label.len()) && label.bytes().all(known)
        };
        if name.len() > MAX_NAME_LEN || !name.split('.').all(is_label) {
            return Err(Refusal::Name);
        }
        // By definition this machine, whatever a lookup says, and however many labels stand before it.
        if name.rsplit('.').next() == Some("localhost")
            && !LOOPBACKS.iter().any(|each| self.check_address(*each).is_ok())
        {
            return self.check_address(LOOPBACKS[0]);
        }
        Ok(())
    }
}

/// The IPv4 address that an IPv6 one stands for, where a connection to the one reaches the other.
fn meant(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    if NAT64.contains(address) {
        let [.., a, b, c, d] = v6.octets();
        return IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    }
    address
}
