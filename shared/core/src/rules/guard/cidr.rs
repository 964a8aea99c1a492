//! Networks, as operators write them: `10.0.0.0/8`, `fd00::/8`, or one address.

// From `core`, which has addresses and no sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// All addresses that begin with the same bits. The bits behind those are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(IpNet);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCidr {
    #[error("{0:?} is not a network: write one such as 10.0.0.0/8, fd00::/8 or 192.0.2.7")]
    NotANetwork(String),
    #[error("{given} has bits set behind its prefix: write {meant}")]
    HostBits { given: String, meant: Cidr },
    #[error("{given} is an IPv4 network in the form of an IPv6 one: write {meant}")]
    Mapped { given: String, meant: Cidr },
}

impl Cidr {
    /// For the tables of this module, whose entries a test checks.
    pub(super) const fn v4(first: [u8; 4], length: u8) -> Cidr {
        let [a, b, c, d] = first;
        Cidr(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)))
    }

    /// For the tables of this module, whose entries a test checks.
    pub(super) const fn v6(first: [u16; 8], length: u8) -> Cidr {
        let [a, b, c, d, e, f, g, h] = first;
        Cidr(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)))
    }

    /// Whether it is one address and no more.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len()
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Reads a list that is separated by commas. Reports all faults.
    pub fn list(text: &str) -> Result<Vec<Cidr>, Vec<BadCidr>> {
        let (good, bad): (Vec<_>, Vec<_>) = text.split(',').map(str::parse).partition(Result::is_ok);
        let faults: Vec<BadCidr> = bad.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() { Ok(good.into_iter().flatten().collect()) } else { Err(faults) }
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Cidr, BadCidr> {
        let text = text.trim();
        let not_a_network = || BadCidr::NotANetwork(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| not_a_network())?;
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let given = match length {
            Some(digits) => {
                let length = Some(digits).filter(is_number).and_then(|digits| digits.parse().ok());
                length.and_then(|length| IpNet::new(address, length).ok()).ok_or_else(not_a_network)?
            }
            None => IpNet::from(address),
        };
        let meant = given.trunc();
        if meant != given {
            return Err(BadCidr::HostBits { given: text.to_owned(), meant: Cidr(meant) });
        }
        if let IpAddr::V6(v6) = address
            && let Some(v4) = v6.to_ipv4_mapped()
            && let Some(length) = given.prefix_len().checked_sub(96)
        {
            let meant = Cidr(IpNet::new_assert(IpAddr::V4(v4), length));
            return Err(BadCidr::Mapped { given: text.to_owned(), meant });
        }
        Ok(Cidr(meant))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_and_single_addresses_are_read() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            (" 192.168.0.0/16 ", "192.168.0.0/16"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("FD00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_to_write() {
        for text in [
            "",
            "/",
            "10/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0.0/-1",
            "localhost",
            "0x7f.0.0.1",
            "010.0.0.0/8",
            "[::1]",
            "fe80::1%eth0",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/256",
        ] {
            assert!(matches!(text.parse::<Cidr>(), Err(BadCidr::NotANetwork(_))), "{text:?}");
        }
        for (text, expected) in [
            ("10.1.2.3/8", "10.1.2.3/8 has bits set behind its prefix: write 10.0.0.0/8"),
            ("fd00::1/8", "fd00::1/8 has bits set behind its prefix: write fd00::/8"),
            (
                "::ffff:10.0.0.0/104",
                "::ffff:10.0.0.0/104 is an IPv4 network in the form of an IPv6 one: write 10.0.0.0/8",
            ),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn all_faults_of_a_list_are_told() {
        assert_eq!(Cidr::list("10.0.0.0/8, ::1").unwrap().len(), 2);
        assert_eq!(Cidr::list("10.0.0.0/8,,x,10.0.0.1/8").unwrap_err().len(), 3);
    }

    proptest! {
        #[test]
        fn a_network_holds_what_begins_as_it_does(bits: u32, other: u32, length in 0_u8..=32) {
            let network = Cidr(IpNet::new_assert(IpAddr::V4(Ipv4Addr::from_bits(bits)), length).trunc());
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            let naive = format!("{bits:032b}")[..usize::from(length)] == format!("{other:032b}")[..usize::from(length)];
            prop_assert_eq!(network.contains(IpAddr::V4(Ipv4Addr::from_bits(other))), naive);
        }

        #[test]
        fn and_so_does_one_of_the_longer_kind(bits: u128, flipped in 0_u8..128, length in 0_u8..=128) {
            let address = IpAddr::V6(Ipv6Addr::from_bits(bits));
            let network = Cidr(IpNet::new_assert(address, length).trunc());
            prop_assert!(network.contains(address));
            let other = IpAddr::V6(Ipv6Addr::from_bits(bits ^ (1 << (127 - flipped))));
            prop_assert_eq!(network.contains(other), flipped >= length);
        }
    }
}
