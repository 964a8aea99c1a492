//! Which URLs may be subscribed, and their normal form.

use url::Url;

const MAX_CHARS: usize = 2_048;
/// Longer texts are cut in errors.
const MAX_QUOTED_CHARS: usize = 64;

/// What is wrong with a URL. Except for `NotAbsolute` and `NotAUrl`, it reads as what follows "the URL".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("is {0} characters long; the maximum is {MAX_CHARS}")]
    TooLong(usize),
    #[error("is {0} characters long once it is encoded as ASCII; the maximum is {MAX_CHARS}")]
    TooLongEncoded(usize),
    #[error("{0:?} is not an absolute URL; start it with https://")]
    NotAbsolute(String),
    #[error("{0:?} is not a valid URL: {1}")]
    NotAUrl(String, url::ParseError),
    #[error("must start with https://")]
    NotHttps,
    #[error("must start with https:// or http://")]
    NotHttp,
    #[error("must not carry a user name or password; use auth_token")]
    UserInfo,
}

/// The URL as the URL standard writes it, without its fragment: the form that is attempted and that health is kept for.
pub fn normalise(text: &str, http_allowed: bool) -> Result<String, BadUrl> {
    let length = text.chars().count();
    if length > MAX_CHARS {
        return Err(BadUrl::TooLong(length));
    }
    let mut url = Url::parse(text).map_err(|error| {
        let quoted = quoted(text);
        match error {
            url::ParseError::RelativeUrlWithoutBase => BadUrl::NotAbsolute(quoted),
            error => BadUrl::NotAUrl(quoted, error),
        }
    })?;
    check_form(&url, http_allowed)?;
    url.set_fragment(None);
    // The normal form is what is stored and shown, and must be as good as the URL that was given.
    match url.as_str().len() {
        length if length > MAX_CHARS => Err(BadUrl::TooLongEncoded(length)),
        _ => Ok(url.into()),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Checks the scheme, and that there is no user name or password. Where the URL leads is checked elsewhere.
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
        let error = normalise("example.com/x", true).unwrap_err();
        assert_eq!(error.to_string(), r#""example.com/x" is not an absolute URL; start it with https://"#);
        let error = normalise("https://[::1/", true).unwrap_err();
        assert_eq!(error.to_string(), r#""https://[::1/" is not a valid URL: invalid IPv6 address"#);
        assert_eq!(normalise("ftp://example.com/", true), Err(BadUrl::NotHttp));
        assert_eq!(normalise("http://example.com/", false), Err(BadUrl::NotHttps));
        assert_eq!(normalise("https://a:b@example.com/", true), Err(BadUrl::UserInfo));
        let long = format!("https://e.com/{}", "x".repeat(2_048));
        assert_eq!(normalise(&long, true), Err(BadUrl::TooLong(2_062)));
    }

    #[test]
    fn a_url_that_becomes_too_long_when_it_is_encoded_is_refused() {
        let of = |letters: usize| format!("https://e.com/{}", "é".repeat(letters));
        // Each letter is written as %C3%A9.
        let longest = normalise(&of(339), true).unwrap();
        assert_eq!(longest.len(), 2_048);
        assert_eq!(normalise(&longest, true), Ok(longest));
        assert_eq!(normalise(&of(340), true), Err(BadUrl::TooLongEncoded(2_054)));
        let with_fragment = format!("{}#{}", of(339), "x".repeat(300));
        assert!(normalise(&with_fragment, true).is_ok(), "the fragment does not count");
    }
}
