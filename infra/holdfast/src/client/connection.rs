//! Which server a command calls, and with which key.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use url::Url;

use super::api::Api;
use super::profile::{self, Profile};

const KEY_VARIABLE: &str = "HOLDFAST_KEY";
/// Where `holdfast dev` listens and keeps its key, if it is started without flags.
const DEVELOPMENT_SERVER: &str = "http://127.0.0.1:8080";
const DEVELOPMENT_KEY_FILE: &str = ".holdfast/key";

#[derive(Args)]
pub(super) struct ConnectionArgs {
    /// The address of Holdfast [default: that of the profile, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true, env = "HOLDFAST_URL", help_heading = "Connection")]
    server: Option<String>,
    /// A file with the key. The variable HOLDFAST_KEY can contain it instead [default: the key of the profile, or .holdfast/key]
    #[arg(long, value_name = "FILE", global = true, env = "HOLDFAST_KEY_FILE", help_heading = "Connection")]
    key_file: Option<PathBuf>,
    /// A profile of the profile file [default: the one that the file names]
    #[arg(long, value_name = "NAME", global = true, env = "HOLDFAST_PROFILE", help_heading = "Connection")]
    profile: Option<String>,
    /// The profile file [default: ~/.config/holdfast/config.toml]
    #[arg(long, value_name = "FILE", global = true, env = "HOLDFAST_CONFIG", help_heading = "Connection")]
    config: Option<PathBuf>,
    /// The tenant, for a key of all tenants.
    #[arg(long, value_name = "NAME", global = true, env = "HOLDFAST_TENANT", help_heading = "Connection")]
    tenant: Option<String>,
    /// Print JSON, for programs.
    #[arg(long, global = true, help_heading = "Connection")]
    pub(super) json: bool,
}

/// What was found for a command.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    server: String,
    key: String,
    tenant: Option<String>,
}

impl ConnectionArgs {
    pub(super) fn open(self) -> Result<Api> {
        let key = match &self.key_file {
            Some(file) => Some(read_key(file)?),
            None => read_variable(KEY_VARIABLE)?,
        };
        // A server that is named has its key named too: that of a profile is for the profile's server.
        let profile = match (&self.server, &self.profile) {
            (Some(_), None) => None,
            (_, name) => self.find_profile(name.as_deref())?,
        };
        let target = choose(self.server, key, profile, self.tenant, Path::new(DEVELOPMENT_KEY_FILE))?;
        let server = Url::parse(&target.server).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let server = server.with_context(|| {
            format!("--server {:?} is not a URL; write it as https://HOST", target.server)
        })?;
        Api::new(&server, &target.key, target.tenant)
    }

    fn find_profile(&self, name: Option<&str>) -> Result<Option<Profile>> {
        let path = match &self.config {
            Some(path) => {
                ensure!(path.exists(), "--config {}: the file does not exist", path.display());
                Some(path.clone())
            }
            None => profile::default_path(
                read_variable("XDG_CONFIG_HOME")?.map(PathBuf::from),
                read_variable("HOME")?.map(PathBuf::from),
            ),
        };
        path.map_or(Ok(None), |path| profile::find(&path, name))
    }
}

fn choose(
    server: Option<String>,
    key: Option<String>,
    profile: Option<Profile>,
    tenant: Option<String>,
    development_key: &Path,
) -> Result<Target> {
    let missing_key =
        || format!("no key; set {KEY_VARIABLE}, or name a file with --key-file, or a profile with --profile");
    let target = match (server, profile) {
        (Some(_), Some(_)) => bail!("--server and --profile exclude each other; leave out one of them"),
        (None, Some(profile)) => {
            Target { key: key.unwrap_or(profile.key), server: profile.url, tenant: tenant.or(profile.tenant) }
        }
        (Some(server), None) => Target { server, key: key.with_context(missing_key)?, tenant },
        (None, None) => {
            let found = || development_key.exists().then(|| read_key(development_key)).transpose();
            let key = match key {
                Some(key) => Some(key),
                None => found()?,
            };
            let key = key.with_context(|| {
                format!(
                    "{}. For a server that `holdfast dev` started here, run this in the folder that contains .holdfast",
                    missing_key()
                )
            })?;
            Target { server: DEVELOPMENT_SERVER.to_owned(), key, tenant }
        }
    };
    Ok(target)
}

fn read_key(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the key in {}", file.display()))?;
    let key = text.trim();
    ensure!(!key.is_empty(), "the key file {} is empty", file.display());
    Ok(key.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "read once, at start")]
fn read_variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("the variable {name} is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile {
            url: "https://holdfast.example".to_owned(),
            key: "hf_profile".to_owned(),
            tenant: Some("shop-1".to_owned()),
        }
    }

    fn owned(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn flags_and_variables_come_before_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let by_profile = choose(None, None, Some(profile()), None, &none).unwrap();
        assert_eq!(by_profile.key, "hf_profile");
        assert_eq!(by_profile.tenant, owned("shop-1"));
        let own = choose(None, owned("hf_own"), Some(profile()), owned("shop-2"), &none).unwrap();
        assert_eq!(own.server, "https://holdfast.example");
        assert_eq!((own.key.as_str(), own.tenant), ("hf_own", owned("shop-2")));
    }

    #[test]
    fn a_key_found_on_this_machine_is_sent_to_no_other_server() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "hf_development\n").unwrap();
        let here = choose(None, None, None, None, &key).unwrap();
        assert_eq!((here.server.as_str(), here.key.as_str()), (DEVELOPMENT_SERVER, "hf_development"));
        let error = choose(owned("https://other.example"), None, None, None, &key).unwrap_err();
        assert!(error.to_string().contains("HOLDFAST_KEY"), "{error}");
    }

    #[test]
    fn a_missing_key_is_reported_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = choose(None, None, None, None, &folder.path().join("none")).unwrap_err().to_string();
        for named in ["HOLDFAST_KEY", "--key-file", "--profile", ".holdfast"] {
            assert!(error.contains(named), "{named} is missing: {error}");
        }
    }
}
