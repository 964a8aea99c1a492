//! The proxy of all attempts, as flags. Its password is not one: other users of the machine can read command lines.

use std::path::PathBuf;

use clap::Args;
use holdfast_core::rules::guard::ProxyUrl;

const PASSWORD_VARIABLE: &str = "HOLDFAST_PROXY_PASSWORD";
const USER_MISSING: &str =
    "--proxy: a password needs a user; write http://USER@HOST:PORT or https://USER@HOST:PORT";

#[derive(Args)]
pub(crate) struct ProxyArgs {
    /// The proxy for all attempts, such as `http://USER@proxy.internal:3128`. Proxies of the environment are ignored.
    #[arg(long, env = "HOLDFAST_PROXY", value_name = "URL")]
    proxy: Option<String>,
    /// A file with the password for the proxy. The variable HOLDFAST_PROXY_PASSWORD can contain it instead.
    #[arg(long, env = "HOLDFAST_PROXY_PASSWORD_FILE", value_name = "FILE", requires = "proxy")]
    proxy_password_file: Option<PathBuf>,
}

impl ProxyArgs {
    pub(crate) fn parse(&self, faults: &mut Vec<String>) -> Option<ProxyUrl> {
        let url = self.proxy.as_deref()?;
        let parsed = self.password().and_then(|password| with_password(url, password.as_deref()));
        parsed.map_err(|fault| faults.push(fault)).ok()
    }

    fn password(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.proxy_password_file else { return read_variable() };
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("--proxy-password-file: {} cannot be read: {error}", file.display()))?;
        let password = text.trim_end_matches(['\r', '\n']).to_owned();
        if password.is_empty() {
            return Err(format!("--proxy-password-file: {} is empty", file.display()));
        }
        Ok(Some(password))
    }
}

#[expect(clippy::disallowed_methods, reason = "the one variable of this command, read at start")]
fn read_variable() -> Result<Option<String>, String> {
    match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => Ok(Some(password).filter(|password| !password.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{PASSWORD_VARIABLE} is not UTF-8")),
    }
}

/// No fault repeats the URL or the password.
fn with_password(url: &str, password: Option<&str>) -> Result<ProxyUrl, String> {
    let invalid = || {
        "--proxy: a proxy is written as http://HOST:PORT or https://HOST:PORT, with USER@ before the host if it asks for one"
            .to_owned()
    };
    let proxy: ProxyUrl = url.parse().map_err(|_| invalid())?;
    if proxy.url().password().is_some() {
        return Err(format!(
            "--proxy: a password on the command line can be read by other users of this machine; write only the user, and put \
             the password into a file (--proxy-password-file FILE) or into the variable {PASSWORD_VARIABLE}"
        ));
    }
    let Some(password) = password else { return Ok(proxy) };
    if proxy.url().username().is_empty() {
        return Err(USER_MISSING.to_owned());
    }
    let mut url = proxy.url().clone();
    url.set_password(Some(password)).map_err(|()| invalid())?;
    url.as_str().parse().map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_added_to_the_user() {
        for password in ["secret", "p@ss:wo/rd%20?#", "ü"] {
            let proxy = with_password("http://me@proxy:3128", Some(password)).unwrap();
            assert_eq!((proxy.url().username(), proxy.url().port()), ("me", Some(3128)));
            let encoded = proxy.url().password().unwrap();
            assert!(!encoded.contains(['@', '/', '#', '?']), "{encoded}");
            assert!(!proxy.to_string().contains(encoded), "it is shown");
        }
        assert_eq!(with_password("http://proxy:3128", None).unwrap().url().password(), None);
    }

    #[test]
    fn a_password_in_the_url_is_refused_and_not_repeated() {
        for (url, password, reason) in [
            ("http://me:pa55word@proxy:3128", None, "--proxy-password-file"),
            ("http://me:pa55word@proxy:3128", Some("other"), "HOLDFAST_PROXY_PASSWORD"),
            ("http://proxy:3128", Some("pa55word"), "needs a user"),
            ("http://me:pa55word@proxy/path", None, "is written as"),
        ] {
            let fault = with_password(url, password).unwrap_err();
            assert!(fault.contains(reason) && !fault.contains("pa55word"), "{fault}");
        }
    }

    #[test]
    fn the_file_holds_the_password_and_perhaps_a_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let parse = || {
            let mut faults = Vec::new();
            let args = ProxyArgs {
                proxy: Some("http://me@proxy:3128".to_owned()),
                proxy_password_file: Some(file.clone()),
            };
            args.parse(&mut faults).ok_or(faults)
        };
        assert!(parse().unwrap_err()[0].contains("cannot be read"));
        std::fs::write(&file, "\n").unwrap();
        assert!(parse().unwrap_err()[0].contains("is empty"));
        std::fs::write(&file, "secret\n").unwrap();
        assert_eq!(parse().unwrap().url().password(), Some("secret"));
    }
}
