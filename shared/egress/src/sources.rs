//! Whether this machine has an address from which a receiver could be reached.
//!
//! Where IPv6 is switched off, connecting to an IPv6 address fails with the same error as when no local port is free. That would be our
//! shortage, and the attempt would be repeated without end. So it is found out before.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// Whether there is a source address for this target. Passed in, so that tests need no such machine.
pub(crate) type HasSource = fn(Ipv6Addr) -> bool;

// The numbers of Linux.
const EAFNOSUPPORT: i32 = 97;
const EADDRNOTAVAIL: i32 = 99;
const ENETUNREACH: i32 = 101;

/// Any port: it is not connected to.
const PORT: u16 = 9;

/// Without the IPv6 addresses for which this machine has no source.
pub(crate) fn reachable(addresses: &[IpAddr], has_source: HasSource) -> Vec<IpAddr> {
    let is_reachable = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => has_source(*address),
    };
    addresses.iter().copied().filter(is_reachable).collect()
}

/// Asks the system which address it would send from. To connect a UDP socket sends nothing, and needs none of the ports of TCP.
pub(crate) fn has_source(target: Ipv6Addr) -> bool {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None);
    let connected = socket.and_then(|socket| socket.connect(&SocketAddr::from((target, PORT)).into()));
    !connected.is_err_and(|error| is_no_source(&error))
}

/// Any other error, such as that no file is free, says nothing about it.
fn is_no_source(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EADDRNOTAVAIL | ENETUNREACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ipv6_addresses_without_a_source_are_left_out() {
        let addresses: [IpAddr; 3] =
            [[192, 0, 2, 1].into(), Ipv6Addr::LOCALHOST.into(), "2001:db8::1".parse().unwrap()];
        assert_eq!(reachable(&addresses, |_| true), addresses);
        assert_eq!(reachable(&addresses, |target| target.is_loopback()), addresses[..2]);
        assert_eq!(reachable(&addresses, |_| false), addresses[..1]);
    }

    #[test]
    fn what_we_ran_out_of_is_not_a_missing_source() {
        let cases = [
            ("EMFILE", 24, false),
            ("EAGAIN", 11, false),
            ("EAFNOSUPPORT", 97, true),
            ("EADDRNOTAVAIL", 99, true),
            ("ENETUNREACH", 101, true),
            ("ENOBUFS", 105, false),
        ];
        for (name, number, expected) in cases {
            assert_eq!(is_no_source(&io::Error::from_raw_os_error(number)), expected, "{name}");
        }
    }
}
