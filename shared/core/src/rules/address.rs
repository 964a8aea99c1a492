//! Which URLs may be subscribed, and how one is written.

use url::Url;

const LONGEST: usize = 2_048;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("is longer than {LONGEST} characters")]
    TooLong,
    #[error("is not a URL: {0}")]
    NotAUrl(String),
    #[error("must start with https://")]
    NotHttps,
    #[error("must start with https:// or http://")]
    NotHttp,
    #[error("must not carry a user name or password; use auth_token")]
    UserInfo,
}

/// The URL as the URL standard writes it, without its fragment: what is attempted, and what health is kept for.
pub fn normalise(text: &str, http_allowed: bool) -> Result<String, BadUrl> {
    if text.chars().count() > LONGEST {
        return Err(BadUrl::TooLong);
    }
    let mut url = Url::parse(text).map_err(|e| BadUrl::NotAUrl(e.to_string()))?;
    check_form(&url, http_allowed)?;
    url.set_fragment(None);
    Ok(url.into())
}

/// Whether this is a URL to post to at all, wherever it leads.
pub(super) fn check_form(url: &Url, http_allowed: bool) -> Result<(), BadUrl> {
    let scheme_ok = url.scheme() == "https" || (http_allowed && url.scheme() == "http");
    if !scheme_ok {
        return Err(if http_allowed { BadUrl::NotHttp } else { BadUrl::NotHttps });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadUrl::UserInfo);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_urls_as_the_standard_does() {
        for (given, written) in [
            ("https://Example.COM", "https://example.com/"),
            ("https://example.com:443/a/../b#part", "https://example.com/b"),
            ("http://127.1:8080/x?y=1", "http://127.0.0.1:8080/x?y=1"),
        ] {
            assert_eq!(normalise(given, true).as_deref(), Ok(written));
        }
    }

    #[test]
    fn refuses_what_cannot_be_posted_to() {
        assert!(matches!(normalise("example", true), Err(BadUrl::NotAUrl(_))));
        assert_eq!(normalise("ftp://example.com/", true), Err(BadUrl::NotHttp));
        assert_eq!(normalise("http://example.com/", false), Err(BadUrl::NotHttps));
        assert_eq!(normalise("https://a:b@example.com/", true), Err(BadUrl::UserInfo));
        assert_eq!(normalise(&format!("https://e.com/{}", "x".repeat(2_048)), true), Err(BadUrl::TooLong));
    }
}
