use core::net::IpAddr;

use crate::rules::guard::{Cidr, Guard, Ports, ProxyUrl, Refusal};

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        b"10.0.0.0/8, fd00::/8,192.0.2.7",
        b"::ffff:10.0.0.0/104",
        b"0.0.0.0/0,::/0",
        b"443, 8000-8999,22-22",
        b"any",
        b"65535,1-65535",
        b"http://user:secret@proxy.internal:3128",
        b"https://[::1]:8080/",
    ]
}

/// Settings of an operator are read as they are written, or each part that cannot be read is named.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parts = text.split(',').count();
    match Cidr::list(text) {
        Ok(networks) => {
            assert_eq!(networks.len(), parts);
            networks.iter().for_each(check_network);
            let written = networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            assert_eq!(Cidr::list(&written), Ok(networks));
        }
        Err(faults) => assert!((1..=parts).contains(&faults.len()), "{faults:?}"),
    }
    match Ports::list(text) {
        Ok(ports) => {
            assert_eq!(Ports::list(&ports.to_string()).as_ref(), Ok(&ports));
            assert!(!ports.contains(0), "{ports}");
            assert!((1..=u16::MAX).any(|port| ports.contains(port)), "{ports}");
        }
        Err(faults) => assert!((1..=parts).contains(&faults.len()), "{faults:?}"),
    }
    if let Ok(proxy) = text.parse::<ProxyUrl>() {
        assert_eq!(proxy.url().as_str().parse(), Ok(proxy.clone()));
        let mut other = proxy.url().clone();
        other.set_password(Some("another")).expect("a proxy has a host");
        let other: ProxyUrl = other.as_str().parse().expect("a proxy with another password");
        assert_eq!(format!("{other} {other:?}"), format!("{proxy} {proxy:?}"), "the password is not shown");
    }
}

/// Denying a network refuses its addresses, and allowing one lets them through, unless a metadata service is among them.
fn check_network(network: &Cidr) {
    let written = network.to_string();
    let first: IpAddr = written.split('/').next().and_then(|first| first.parse().ok()).expect("an address");
    assert!(network.contains(first), "{network}");
    let denies = Guard { deny: vec![*network], ..Guard::default() };
    assert_eq!(denies.check_address(first), Err(Refusal::Denied), "{network}");
    let allows = Guard { allow: vec![*network], ..Guard::default() };
    match allows.check_address(first) {
        Ok(()) => {}
        Err(Refusal::Address { range, .. }) => {
            assert!(range.is_single() && !network.is_single(), "{network}")
        }
        Err(other) => panic!("{network}: {other}"),
    }
}
