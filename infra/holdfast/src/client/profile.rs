//! The file with the servers that a person works with, and their keys.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) url: String,
    pub(super) key: String,
    /// The tenant of every command, for a key of all tenants.
    pub(super) tenant: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    /// The name of the profile that is used if none is named.
    default: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// Where the file is, if it is not named: below the folder for configuration of the user.
pub(super) fn default_path(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let folder = config_home.filter(|folder| folder.is_absolute()).or_else(|| Some(home?.join(".config")))?;
    Some(folder.join("holdfast/config.toml"))
}

/// Finds the profile with this name, or the default one. `None`: there is no file, or it has no default.
pub(super) fn find(path: &Path, name: Option<&str>) -> Result<Option<Profile>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match name {
            None => return Ok(None),
            Some(name) => bail!("--profile {name}: the file {} does not exist", path.display()),
        },
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    ensure_private(path)?;
    let file: ProfileFile = toml::from_str(&text)
        // Without the source line, which may be the one with the key.
        .map_err(|error| anyhow::anyhow!("{}: {}", path.display(), error.message()))?;
    let Some(name) = name.or(file.default.as_deref()) else { return Ok(None) };
    match file.profiles.get(name) {
        Some(profile) => Ok(Some(profile.clone())),
        None => bail!(
            "{} has no profile {name:?}; it has {}",
            path.display(),
            list(file.profiles.keys().map(String::as_str))
        ),
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The file contains keys.
fn ensure_private(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    ensure!(
        mode & 0o077 == 0,
        "{} contains keys, and other users can read it; run: chmod 600 {}",
        path.display(),
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
default = "production"

[profiles.production]
url = "https://holdfast.example"
key = "hf_production"

[profiles.staging]
url = "https://staging.example"
key = "hf_staging"
tenant = "shop-1"
"#;

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn the_named_profile_is_found_and_otherwise_the_default() {
        let (_folder, path) = written(FILE, 0o600);
        assert_eq!(find(&path, None).unwrap().unwrap().key, "hf_production");
        let staging = find(&path, Some("staging")).unwrap().unwrap();
        assert_eq!((staging.key.as_str(), staging.tenant.as_deref()), ("hf_staging", Some("shop-1")));
    }

    #[test]
    fn a_profile_that_does_not_exist_is_refused_with_those_that_do() {
        let (_folder, path) = written(FILE, 0o600);
        let error = find(&path, Some("other")).unwrap_err().to_string();
        assert!(error.contains("\"other\"") && error.contains("production, staging"), "{error}");
    }

    #[test]
    fn without_a_file_there_is_no_profile_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        assert_eq!(find(&path, None).unwrap(), None);
        assert!(find(&path, Some("production")).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let (_folder, path) = written(FILE, 0o640);
        let error = find(&path, None).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn an_invalid_file_is_refused_without_its_keys() {
        for text in [&format!("{FILE}\nkee = 1"), "[profiles.a]\nurl = \"u\"\nkey = \"hf_secret\" oops"] {
            let (_folder, path) = written(text, 0o600);
            let error = format!("{:#}", find(&path, None).unwrap_err());
            assert!(error.contains("config.toml") && !error.contains("hf_"), "{error}");
        }
    }

    #[test]
    fn the_folder_of_the_user_is_found() {
        let path = |config: Option<&str>, home: Option<&str>| {
            default_path(config.map(PathBuf::from), home.map(PathBuf::from))
        };
        assert_eq!(path(Some("/c"), Some("/h")), Some("/c/holdfast/config.toml".into()));
        assert_eq!(path(Some("relative"), Some("/h")), Some("/h/.config/holdfast/config.toml".into()));
        assert_eq!(path(None, None), None);
    }
}
