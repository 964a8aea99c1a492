//! The addresses that are not of the public internet, by the registries of special-purpose addresses.

use core::net::IpAddr;
use std::fmt;

use super::cidr::Cidr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Unspecified,
    Loopback,
    Private,
    LinkLocal,
    /// Where machines of a cloud get their credentials.
    Metadata,
    /// Between a carrier and its customers.
    Shared,
    UniqueLocal,
    SiteLocal,
    Multicast,
    Broadcast,
    Reserved,
    Discard,
    Documentation,
    Benchmarking,
    Orchid,
    Ipv4Compatible,
    Ipv4Translated,
    LocalNat64,
    SixToFour,
    Teredo,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Unspecified => "an unspecified address",
            Rule::Loopback => "a loopback address",
            Rule::Private => "a private address",
            Rule::LinkLocal => "a link-local address",
            Rule::Metadata => "the address of a metadata service",
            Rule::Shared => "a shared address (CGNAT)",
            Rule::UniqueLocal => "a unique-local address",
            Rule::SiteLocal => "a site-local address",
            Rule::Multicast => "a multicast address",
            Rule::Broadcast => "the broadcast address",
            Rule::Reserved => "a reserved address",
            Rule::Discard => "a discard address",
            Rule::Documentation => "a documentation address",
            Rule::Benchmarking => "a benchmarking address",
            Rule::Orchid => "an overlay identifier (ORCHID)",
            Rule::Ipv4Compatible => "an IPv4-compatible address",
            Rule::Ipv4Translated => "an IPv4-translated address",
            Rule::LocalNat64 => "a local-use NAT64 address",
            Rule::SixToFour => "a 6to4 address",
            Rule::Teredo => "a Teredo address",
        })
    }
}

/// The first that holds an address decides: narrow ranges stand before wide ones.
pub(super) const V4: &[(Cidr, Rule)] = &[
    (Cidr::v4([169, 254, 169, 254], 32), Rule::Metadata),
    (Cidr::v4([169, 254, 170, 2], 32), Rule::Metadata),
    (Cidr::v4([169, 254, 170, 23], 32), Rule::Metadata),
    (Cidr::v4([168, 63, 129, 16], 32), Rule::Metadata),
    (Cidr::v4([100, 100, 100, 200], 32), Rule::Metadata),
    (Cidr::v4([192, 0, 0, 192], 32), Rule::Metadata),
    (Cidr::v4([255, 255, 255, 255], 32), Rule::Broadcast),
    (Cidr::v4([0, 0, 0, 0], 8), Rule::Unspecified),
    (Cidr::v4([10, 0, 0, 0], 8), Rule::Private),
    (Cidr::v4([100, 64, 0, 0], 10), Rule::Shared),
    (Cidr::v4([127, 0, 0, 0], 8), Rule::Loopback),
    (Cidr::v4([169, 254, 0, 0], 16), Rule::LinkLocal),
    (Cidr::v4([172, 16, 0, 0], 12), Rule::Private),
    (Cidr::v4([192, 0, 0, 0], 24), Rule::Reserved),
    (Cidr::v4([192, 0, 2, 0], 24), Rule::Documentation),
    (Cidr::v4([192, 88, 99, 0], 24), Rule::SixToFour),
    (Cidr::v4([192, 168, 0, 0], 16), Rule::Private),
    (Cidr::v4([198, 18, 0, 0], 15), Rule::Benchmarking),
    (Cidr::v4([198, 51, 100, 0], 24), Rule::Documentation),
    (Cidr::v4([203, 0, 113, 0], 24), Rule::Documentation),
    (Cidr::v4([224, 0, 0, 0], 4), Rule::Multicast),
    (Cidr::v4([240, 0, 0, 0], 4), Rule::Reserved),
];

/// The only part of IPv6 that is handed out for the public internet.
const GLOBAL_UNICAST: Cidr = Cidr::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
const ALL_OF_V6: Cidr = Cidr::v6([0; 8], 0);

/// As above. What none of them holds is refused too, unless it is global unicast.
pub(super) const V6: &[(Cidr, Rule)] = &[
    (Cidr::v6([0; 8], 128), Rule::Unspecified),
    (Cidr::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Rule::Loopback),
    (Cidr::v6([0; 8], 96), Rule::Ipv4Compatible),
    (Cidr::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), Rule::Ipv4Translated),
    (Cidr::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Rule::LocalNat64),
    (Cidr::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Rule::Discard),
    (Cidr::v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], 128), Rule::Metadata),
    (Cidr::v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x23], 128), Rule::Metadata),
    (Cidr::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Rule::Metadata),
    (Cidr::v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), Rule::Metadata),
    (Cidr::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Rule::UniqueLocal),
    (Cidr::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Rule::LinkLocal),
    (Cidr::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Rule::SiteLocal),
    (Cidr::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Rule::Multicast),
    // Within what is global otherwise.
    (Cidr::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Rule::Teredo),
    (Cidr::v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Rule::Benchmarking),
    (Cidr::v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), Rule::Orchid),
    (Cidr::v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), Rule::Orchid),
    (Cidr::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Rule::Reserved),
    (Cidr::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Rule::Documentation),
    (Cidr::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Rule::SixToFour),
    (Cidr::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Rule::Documentation),
    // What the registry of the whole address space holds back.
    (Cidr::v6([0; 8], 8), Rule::Reserved),
    (Cidr::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 8), Rule::Reserved),
    (Cidr::v6([0x200, 0, 0, 0, 0, 0, 0, 0], 7), Rule::Reserved),
    (Cidr::v6([0x400, 0, 0, 0, 0, 0, 0, 0], 6), Rule::Reserved),
    (Cidr::v6([0x800, 0, 0, 0, 0, 0, 0, 0], 5), Rule::Reserved),
    (Cidr::v6([0x1000, 0, 0, 0, 0, 0, 0, 0], 4), Rule::Reserved),
    (Cidr::v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 3), Rule::Reserved),
    (Cidr::v6([0x6000, 0, 0, 0, 0, 0, 0, 0], 3), Rule::Reserved),
    (Cidr::v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 3), Rule::Reserved),
    (Cidr::v6([0xa000, 0, 0, 0, 0, 0, 0, 0], 3), Rule::Reserved),
    (Cidr::v6([0xc000, 0, 0, 0, 0, 0, 0, 0], 3), Rule::Reserved),
    (Cidr::v6([0xe000, 0, 0, 0, 0, 0, 0, 0], 4), Rule::Reserved),
    (Cidr::v6([0xf000, 0, 0, 0, 0, 0, 0, 0], 5), Rule::Reserved),
    (Cidr::v6([0xf800, 0, 0, 0, 0, 0, 0, 0], 6), Rule::Reserved),
    (Cidr::v6([0xfe00, 0, 0, 0, 0, 0, 0, 0], 9), Rule::Reserved),
];

/// The rule that refuses an address, and the range that it is for. IPv4 addresses in the form of IPv6 are not seen through.
pub(super) fn refusing(address: IpAddr) -> Option<(Rule, Cidr)> {
    let table = if address.is_ipv4() { V4 } else { V6 };
    let found = table.iter().find(|(range, _)| range.contains(address)).map(|(range, rule)| (*rule, *range));
    // The table is complete, but should it not be, then what it does not know is not let through.
    let public = address.is_ipv4() || GLOBAL_UNICAST.contains(address);
    found.or((!public).then_some((Rule::Reserved, ALL_OF_V6)))
}
