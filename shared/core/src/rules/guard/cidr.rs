//! Networks, as operators write them: `10.0.0.0/8`, `fd00::/8`, or one address.

// From `core`, which has addresses and no sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

/// All addresses that begin with the same bits. The bits behind those are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    first: IpAddr,
    length: u8,
}

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
        Cidr { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
    }

    /// For the tables of this module, whose entries a test checks.
    pub(super) const fn v6(first: [u16; 8], length: u8) -> Cidr {
        let [a, b, c, d, e, f, g, h] = first;
        Cidr { first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length }
    }

    /// Whether it is one address and no more.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.length == width(self.first)
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        width(address) == width(self.first) && masked(address, self.length) == self.first
    }

    /// Reads a list that is separated by commas. Reports all faults.
    pub fn list(text: &str) -> Result<Vec<Cidr>, Vec<BadCidr>> {
        let (good, bad): (Vec<_>, Vec<_>) = text.split(',').map(str::parse).partition(Result::is_ok);
        let faults: Vec<BadCidr> = bad.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() { Ok(good.into_iter().flatten().collect()) } else { Err(faults) }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all bits behind the first `length` cleared.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    let behind = u32::from(width(address) - length);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
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
        let length = match length {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|length| *length <= width(address)).ok_or_else(not_a_network)?
            }
            Some(_) => return Err(not_a_network()),
            None => width(address),
        };
        let given = || text.to_owned();
        let meant = Cidr { first: masked(address, length), length };
        if meant.first != address {
            return Err(BadCidr::HostBits { given: given(), meant });
        }
        if let IpAddr::V6(v6) = address
            && let Some(v4) = v6.to_ipv4_mapped()
            && length >= 96
        {
            let meant = Cidr { first: IpAddr::V4(v4), length: length - 96 };
            return Err(BadCidr::Mapped { given: given(), meant });
        }
        Ok(meant)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
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
            let first = masked(IpAddr::V4(Ipv4Addr::from_bits(bits)), length);
            let network = Cidr { first, length };
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            let naive = format!("{bits:032b}")[..usize::from(length)] == format!("{other:032b}")[..usize::from(length)];
            prop_assert_eq!(network.contains(IpAddr::V4(Ipv4Addr::from_bits(other))), naive);
        }

        #[test]
        fn and_so_does_one_of_the_longer_kind(bits: u128, flipped in 0_u8..128, length in 0_u8..=128) {
            let address = IpAddr::V6(Ipv6Addr::from_bits(bits));
            let network = Cidr { first: masked(address, length), length };
            prop_assert!(network.contains(address));
            let other = IpAddr::V6(Ipv6Addr::from_bits(bits ^ (1 << (127 - flipped))));
            prop_assert_eq!(network.contains(other), flipped >= length);
        }
    }
}
