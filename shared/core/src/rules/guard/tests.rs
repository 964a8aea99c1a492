use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use url::Url;

use super::ranges::{V4, V6};
use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn strict(text: &str) -> Result<(), Refusal> {
    Guard::default().check_address(address(text))
}

fn rule_of(text: &str) -> Option<Rule> {
    match strict(text) {
        Err(Refusal::Address { rule, .. }) => Some(rule),
        _ => None,
    }
}

#[test]
fn each_rule_is_named() {
    for (text, rule) in [
        ("0.0.0.0", Rule::Unspecified),
        ("0.1.2.3", Rule::Unspecified),
        ("10.0.0.1", Rule::Private),
        ("100.64.0.1", Rule::Shared),
        ("100.100.100.200", Rule::Metadata),
        ("127.0.0.1", Rule::Loopback),
        ("127.255.255.255", Rule::Loopback),
        ("168.63.129.16", Rule::Metadata),
        ("169.254.1.1", Rule::LinkLocal),
        ("169.254.169.254", Rule::Metadata),
        ("169.254.170.2", Rule::Metadata),
        ("172.16.0.1", Rule::Private),
        ("172.31.255.255", Rule::Private),
        ("192.0.0.8", Rule::Reserved),
        ("192.0.0.192", Rule::Metadata),
        ("192.0.2.1", Rule::Documentation),
        ("192.88.99.1", Rule::SixToFour),
        ("192.168.1.1", Rule::Private),
        ("198.18.0.1", Rule::Benchmarking),
        ("198.19.255.255", Rule::Benchmarking),
        ("198.51.100.1", Rule::Documentation),
        ("203.0.113.1", Rule::Documentation),
        ("224.0.0.1", Rule::Multicast),
        ("239.255.255.255", Rule::Multicast),
        ("240.0.0.1", Rule::Reserved),
        ("255.255.255.255", Rule::Broadcast),
        ("::", Rule::Unspecified),
        ("::1", Rule::Loopback),
        ("::2", Rule::Ipv4Compatible),
        ("::8.8.8.8", Rule::Ipv4Compatible),
        ("::ffff:10.0.0.1", Rule::Private),
        ("::ffff:0:8.8.8.8", Rule::Ipv4Translated),
        ("64:ff9b::10.0.0.1", Rule::Private),
        ("64:ff9b::169.254.169.254", Rule::Metadata),
        ("64:ff9b:1::8.8.8.8", Rule::LocalNat64),
        ("64:ff9b::1:0:0:0", Rule::Reserved),
        ("100::1", Rule::Discard),
        ("100:0:0:1::1", Rule::Reserved),
        ("2001::1", Rule::Teredo),
        ("2001:2::1", Rule::Benchmarking),
        ("2001:10::1", Rule::Orchid),
        ("2001:2f::1", Rule::Orchid),
        ("2001:1::1", Rule::Reserved),
        ("2001:1ff::1", Rule::Reserved),
        ("2001:db8::1", Rule::Documentation),
        ("2002:808:808::1", Rule::SixToFour),
        ("3fff:fff::1", Rule::Documentation),
        ("4000::1", Rule::Reserved),
        ("5f00::1", Rule::Reserved),
        ("fc00::1", Rule::UniqueLocal),
        ("fd12:3456::1", Rule::UniqueLocal),
        ("fd00:ec2::254", Rule::Metadata),
        ("fe80::1", Rule::LinkLocal),
        ("febf::1", Rule::LinkLocal),
        ("fec0::1", Rule::SiteLocal),
        ("ff02::1", Rule::Multicast),
    ] {
        assert_eq!(rule_of(text), Some(rule), "{text}");
    }
}

#[test]
fn the_neighbours_of_what_is_refused_are_public() {
    for text in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "8.8.8.8",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2000::",
        "2001:200::",
        "2001:db7:ffff::",
        "2001:db9::",
        "2001:ffff::",
        "2003::",
        "2606:4700::1111",
        "3ffe::",
        "3fff:1000::",
        "3fff:ffff::",
    ] {
        assert_eq!(strict(text), Ok(()), "{text}");
    }
}

#[test]
fn the_tables_hold_sound_ranges_and_no_rule_hides_another() {
    for (index, (range, _)) in V4.iter().chain(V6).enumerate() {
        assert_eq!(range.to_string().parse(), Ok(*range));
        let first = address(range.to_string().split('/').next().unwrap());
        let hidden = V4.iter().chain(V6).take(index).any(|(earlier, _)| {
            earlier.contains(first)
                && earlier.to_string().split('/').nth(1).unwrap().parse::<u8>().unwrap()
                    <= range.to_string().split('/').nth(1).unwrap().parse().unwrap()
        });
        assert!(!hidden, "{range} is never reached");
    }
}

/// Any address of the table, by random bits behind the prefix of one of its ranges.
fn in_a_range(table: &'static [(Cidr, Rule)]) -> impl Strategy<Value = IpAddr> {
    (0..table.len(), any::<u128>()).prop_map(move |(index, bits)| {
        let text = table[index].0.to_string();
        let (first, length) = text.split_once('/').unwrap();
        let length: u32 = length.parse().unwrap();
        match address(first) {
            IpAddr::V4(v4) => {
                let behind = u32::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | (bits as u32 & behind)))
            }
            IpAddr::V6(v6) => {
                let behind = u128::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | (bits & behind)))
            }
        }
    })
}

/// All ways to write an IPv4 address as an IPv6 one that some network turns back into it.
fn forms(v4: Ipv4Addr) -> Vec<Ipv6Addr> {
    let bits = u128::from(v4.to_bits());
    let at = |prefix: &str, shift: u32, bits: u128| {
        Ipv6Addr::from_bits(prefix.parse::<Ipv6Addr>().unwrap().to_bits() | (bits << shift))
    };
    vec![
        at("::ffff:0:0", 0, bits),
        at("::", 0, bits),
        at("::ffff:0:0:0", 0, bits),
        at("64:ff9b::", 0, bits),
        at("64:ff9b:1::", 0, bits),
        at("2002::", 80, bits),
        at("2002::1", 80, bits),
        // Teredo writes the client's address with its bits turned.
        at("2001::", 0, u128::from(!v4.to_bits())),
        at("2001::", 64, bits),
    ]
}

proptest! {
    #[test]
    fn every_address_of_a_range_is_refused_in_every_form(found in in_a_range(V4)) {
        let IpAddr::V4(v4) = found else { panic!("no IPv4") };
        prop_assert!(Guard::default().check_address(found).is_err(), "{found}");
        for form in forms(v4) {
            prop_assert!(Guard::default().check_address(IpAddr::V6(form)).is_err(), "{found} as {form}");
            let url = Url::parse(&format!("https://[{form}]/")).unwrap();
            prop_assert!(Guard::default().check_url(&url).is_err(), "{url}");
        }
        // As one number, in octal and in hexadecimal.
        let bits = v4.to_bits();
        for host in [format!("{bits}"), format!("0{bits:o}"), format!("0x{bits:x}"), format!("{v4}.")] {
            let url = Url::parse(&format!("https://{host}/")).unwrap();
            prop_assert!(Guard::default().check_url(&url).is_err(), "{url}");
        }
    }

    #[test]
    fn every_address_of_an_ipv6_range_is_refused(found in in_a_range(V6)) {
        // The registry's first block also holds what stands for public IPv4 addresses.
        prop_assume!(meant(found) == found);
        prop_assert!(Guard::default().check_address(found).is_err(), "{found}");
    }

    #[test]
    fn no_ipv6_address_outside_of_global_unicast_is_let_through(bits: u128) {
        let found = IpAddr::V6(Ipv6Addr::from_bits(bits));
        prop_assume!(bits >> 125 != 1 && meant(found) == found);
        prop_assert!(Guard::default().check_address(found).is_err(), "{found}");
    }

    #[test]
    fn what_stands_for_an_ipv4_address_is_judged_as_that(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let judged = Guard::default().check_address(IpAddr::V4(v4));
        for prefix in ["::ffff:", "64:ff9b::"] {
            prop_assert_eq!(&Guard::default().check_address(address(&format!("{prefix}{v4}"))), &judged);
        }
    }

    /// The naive form of the table: the standard library's own, as far as it has them.
    #[test]
    fn the_standard_library_agrees(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
            || v4.is_documentation() || v4.is_multicast() || v4.octets()[0] == 0 || v4.octets()[0] >= 240;
        if special {
            prop_assert!(Guard::default().check_address(IpAddr::V4(v4)).is_err());
        }
    }
}

fn allowing(list: &str) -> Guard {
    Guard { allow: Cidr::list(list).unwrap(), ..Guard::default() }
}

#[test]
fn what_is_allowed_is_let_through_in_all_its_forms_and_nothing_else() {
    let guard = allowing("10.0.0.0/8,fd00::/8");
    for text in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd12::1"] {
        assert_eq!(guard.check_address(address(text)), Ok(()), "{text}");
    }
    for text in ["11.0.0.0", "8.8.8.8"] {
        assert_eq!(guard.check_address(address(text)), Ok(()), "{text} is public");
    }
    for text in ["127.0.0.1", "192.168.0.1", "fc00::1", "2002:a00:1::", "::10.0.0.1", "64:ff9b:1::10.0.0.1"] {
        assert!(guard.check_address(address(text)).is_err(), "{text}");
    }
    assert_eq!(allowing("2002::/16").check_address(address("2002:a00:1::")), Ok(()));
}

#[test]
fn a_metadata_service_is_allowed_only_by_its_own_address() {
    for list in ["0.0.0.0/0,::/0", "169.254.0.0/16,fd00::/8", "169.254.169.254/31"] {
        for text in ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254"] {
            assert!(allowing(list).check_address(address(text)).is_err(), "{text} by {list}");
        }
    }
    assert_eq!(allowing("0.0.0.0/0").check_address(address("169.254.1.1")), Ok(()));
    assert_eq!(allowing("169.254.169.254").check_address(address("169.254.169.254")), Ok(()));
}

#[test]
fn what_is_denied_is_refused_in_all_its_forms_though_it_is_public_or_allowed() {
    let guard = Guard {
        deny: Cidr::list("203.0.114.0/24,10.9.0.0/16,2a00:1::/32,::1").unwrap(),
        ..allowing("10.0.0.0/8,::1")
    };
    for text in [
        "203.0.114.7",
        "::ffff:203.0.114.7",
        "64:ff9b::203.0.114.7",
        "10.9.1.2",
        "::ffff:10.9.1.2",
        "64:ff9b::10.9.1.2",
        "2a00:1::7",
        "::1",
    ] {
        assert_eq!(guard.check_address(address(text)), Err(Refusal::Denied), "{text}");
    }
    for text in ["203.0.115.7", "10.8.1.2", "2a00:2::7", "::ffff:10.8.1.2"] {
        assert_eq!(guard.check_address(address(text)), Ok(()), "{text}");
    }
    // An entry for the form of IPv6 denies that form.
    let guard = Guard { deny: Cidr::list("64:ff9b::/96").unwrap(), ..Guard::default() };
    assert_eq!(guard.check_address(address("64:ff9b::203.0.114.7")), Err(Refusal::Denied));
    assert_eq!(guard.check_address(address("203.0.114.7")), Ok(()));
}

fn describe(guard: &Guard, url: &str) -> String {
    guard
        .check_url(&Url::parse(url).unwrap())
        .map_or_else(|refusal| refusal.to_string(), |()| "allowed".to_owned())
}

#[test]
fn refusals_name_the_rule_and_in_development_the_flag() {
    let strict = Guard::default();
    let dev = Guard {
        allow: Cidr::list("127.0.0.0/8").unwrap(),
        deny: Cidr::list("127.0.0.9").unwrap(),
        ports: Ports::any(),
        http_allowed: true,
        flag: Some("--allow-target".to_owned()),
    };
    for (guard, url, expected) in [
        (&strict, "https://10.1.2.3/", "leads to a private address, which is not allowed (10.0.0.0/8)"),
        (&strict, "https://localhost/", "leads to a loopback address, which is not allowed (127.0.0.0/8)"),
        (&strict, "http://example.com/", "must start with https://"),
        (&strict, "https://u@example.com/", "must not carry a user name or password; use auth_token"),
        (&strict, "https://example.com:25/", "has the port 25, but only these are allowed: 443, 1024-65535"),
        (
            &dev,
            "http://169.254.169.254/",
            "leads to the address of a metadata service, which is not allowed (169.254.169.254/32); \
             start Holdfast with --allow-target 169.254.169.254/32 to allow it",
        ),
        (&dev, "http://127.0.0.1:1/", "allowed"),
        (&dev, "http://127.0.0.9:1/", "leads to an address that the operator of this server does not allow"),
        (&dev, "http://localhost/", "allowed"),
        (&dev, "http://127.0.0.1:0/", "has the port 0, but only these are allowed: 1-65535"),
        (&dev, "ftp://127.0.0.1/", "must start with https:// or http://"),
    ] {
        assert_eq!(describe(guard, url), expected, "{url}");
    }
}

#[test]
fn names_are_checked_as_far_as_they_say_something() {
    let guard = Guard::default();
    for name in [
        "example.com",
        "example.com.",
        "EXAMPLE.com",
        "a_b.example.com",
        "bücher.example",
        "1.2.3.example",
        "intranet",
    ] {
        assert_eq!(describe(&guard, &format!("https://{name}/")), "allowed", "{name}");
    }
    for name in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.b.localhost",
        "ｌocalhost",
        "loc%61lhost",
        "local\tho\nst",
    ] {
        assert!(describe(&guard, &format!("https://{name}/")).contains("loopback"), "{name}");
    }
    let labels = vec!["a".repeat(63); 4].join(".");
    let longest = &labels[2..];
    assert_eq!(longest.len(), 253);
    assert_eq!(describe(&guard, &format!("https://{longest}/")), "allowed");
    let long = [labels[1..].to_owned(), "a".repeat(64) + ".com"];
    for name in long
        .iter()
        .map(String::as_str)
        .chain([".", "..", "a..b", "a.com..", "a{b", "a'b", "a;b", "a,b", "a*b"])
    {
        assert!(describe(&guard, &format!("https://{name}/")).starts_with("must have a host name"), "{name}");
    }
}
