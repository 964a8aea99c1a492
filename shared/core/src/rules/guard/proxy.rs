//! The proxy that attempts go through, where there is one.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// `http://` or `https://`, a host, perhaps a port, a user name and a password, and nothing else. The password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl(Url);

/// Without what was given, because that may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a proxy is written as http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ before the host if it asks for them"
)]
pub struct BadProxy;

impl ProxyUrl {
    /// With its password: for the client that speaks to the proxy.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for ProxyUrl {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<ProxyUrl, BadProxy> {
        let url = Url::parse(text).map_err(|_| BadProxy)?;
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if plain && matches!(url.scheme(), "http" | "https") { Ok(ProxyUrl(url)) } else { Err(BadProxy) }
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_not_shown() {
        let proxy: ProxyUrl = "http://user:secret@proxy.internal:3128".parse().unwrap();
        assert_eq!(proxy.to_string(), "http://proxy.internal:3128");
        assert_eq!(format!("{proxy:?}"), "http://proxy.internal:3128");
        assert_eq!(proxy.url().password(), Some("secret"));
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_being_repeated() {
        for text in [
            "",
            "proxy:3128",
            "socks5://secret@proxy:1080",
            "http://proxy/secret",
            "http://proxy?secret",
            "http://",
        ] {
            let error = text.parse::<ProxyUrl>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
