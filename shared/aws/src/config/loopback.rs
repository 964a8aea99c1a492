use url::{Host, Url};

/// Whether this URL can only lead to this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    // Parsed, because `http://127.0.0.1.example.com` and `http://localhost@example.com` only look like loopback addresses.
    let Ok(url) = Url::parse(url) else { return false };
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_this_machine_is_loopback() {
        let here = [
            "http://127.0.0.1:4566",
            "http://127.8.9.10",
            "https://localhost:4566/path",
            "http://LOCALHOST",
            "http://[::1]:4566",
            "http://127.0.0.1:4566/?x=example.com",
        ];
        for url in here {
            assert!(is_loopback(url), "{url}");
        }
        let elsewhere = [
            "http://127.0.0.1.evil.com",
            "http://localhost.evil.com",
            "http://localhost@evil.com",
            "http://127.0.0.1@evil.com",
            "http://evil.com/127.0.0.1",
            "http://evil.com#localhost",
            "https://dynamodb.eu-central-1.amazonaws.com",
            "http://10.0.0.1",
            "http://0.0.0.0",
            "http://[::ffff:10.0.0.1]",
            "127.0.0.1:4566",
            "unix:/127.0.0.1",
            "localhost",
            "",
        ];
        for url in elsewhere {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
