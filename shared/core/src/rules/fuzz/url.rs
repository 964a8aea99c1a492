use core::net::IpAddr;

use ::url::{Host, Url};

use crate::rules::guard::{Guard, Refusal};
use crate::rules::url_form::normalise;

/// As much as a refusal may quote of a URL, with every character escaped, and its own words.
const MAX_REFUSAL_BYTES: usize = 64 * 10 + 200;

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        b"https://example.com/hooks?token=1#part",
        b"http://user:secret@example.com:8080/",
        b"https://[::ffff:127.0.0.1]:443/",
        b"https://[64:ff9b::10.0.0.1]/",
        b"https://0x7f.1/",
        b"https://2130706433/",
        b"https://xn--mnchen-3ya.example/",
        "https://b\u{fc}cher.example。/\u{202e}".as_bytes(),
        b"https://localhost./a/../b",
        b"example.com/hooks",
        b"ftp://example.com/",
    ]
}

/// A URL is refused in a few words, or has one form: the one that is kept, attempted and checked by the guard.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for http_allowed in [false, true] {
        match normalise(text, http_allowed) {
            Ok(normal) => check_normal(&normal, http_allowed),
            Err(refusal) => assert!(refusal.to_string().len() <= MAX_REFUSAL_BYTES, "{refusal}"),
        }
    }
}

fn check_normal(normal: &str, http_allowed: bool) {
    assert_eq!(normalise(normal, http_allowed).as_deref(), Ok(normal), "a normal form stays as it is");
    assert!(normal.is_ascii() && !normal.contains('#'), "{normal}");
    let url = Url::parse(normal).expect("what was normalised is a URL");
    assert!(url.scheme() == "https" || (http_allowed && url.scheme() == "http"), "{normal}");
    assert!(url.username().is_empty() && url.password().is_none(), "{normal}");
    let guard = Guard { http_allowed, ..Guard::default() };
    match guard.check_url(&url) {
        Ok(()) => assert!(leads_outside(&url), "{normal} was let through"),
        Err(Refusal::Form(bad)) => panic!("{normal} was normalised, but its form is refused: {bad}"),
        Err(refusal) => assert!(refusal.to_string().len() <= MAX_REFUSAL_BYTES, "{refusal}"),
    }
}

/// As far as the URL itself says: the addresses of a name are checked when it is resolved. Written without the tables of the guard.
fn leads_outside(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            !name.is_empty() && name.trim_end_matches('.').rsplit('.').next() != Some("localhost")
        }
        Some(Host::Ipv4(v4)) => is_outside(IpAddr::V4(v4)),
        Some(Host::Ipv6(v6)) => is_outside(IpAddr::V6(v6)),
        None => false,
    }
}

fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_shared = a == 100 && b & 0xc0 == 64;
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_documentation()
                || is_shared
                || a == 0
                || a >= 240)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_outside(IpAddr::V4(v4)),
            // 2000::/3, and the addresses that stand for public IPv4 ones.
            None if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
                let [.., a, b, c, d] = v6.octets();
                is_outside(IpAddr::from([a, b, c, d]))
            }
            None => v6.segments()[0] & 0xe000 == 0x2000 && v6.segments()[0] != 0x2002,
        },
    }
}
