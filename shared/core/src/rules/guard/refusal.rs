use std::fmt;

use super::cidr::Cidr;
use super::ports::Ports;
use super::ranges::Rule;
use crate::rules::url_form::BadUrl;

/// Why a URL is not attempted. Reads as what follows "the URL", and never holds more of it than its port.
///
/// Only the range of an address is shown, so that a subscriber cannot find out the internal address of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The scheme or the user name, wherever it leads.
    Form(BadUrl),
    /// The host is not a name that can be looked up.
    Name,
    Port {
        port: u16,
        allowed: Ports,
    },
    /// The operator denies the address. Without the range: a subscriber must not find out where the operator's own machines are.
    Denied,
    Address {
        rule: Rule,
        range: Cidr,
        flag: Option<String>,
    },
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Form(bad) => bad.fmt(f),
            Refusal::Name => f.write_str(
                "must have a host name of letters, digits, hyphens and dots, with at most 63 characters between dots and 253 in total",
            ),
            Refusal::Port { port, allowed } => {
                write!(f, "has the port {port}, but only these are allowed: {allowed}")
            }
            Refusal::Denied => f.write_str("leads to an address that the operator of this server does not allow"),
            Refusal::Address { rule, range, flag } => {
                write!(f, "leads to {rule}, which is not allowed ({range})")?;
                match flag {
                    Some(flag) => write!(f, "; start Holdfast with {flag} {range} to allow it"),
                    None => Ok(()),
                }
            }
        }
    }
}
