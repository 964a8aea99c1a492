//! The host's own key: created once, in a file of the data folder that only its owner can read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE32_NOPAD;
use holdfast_api::{BuiltIn, HashedKey};
use holdfast_core::ports::Entropy;

use crate::settings::Mode;

/// The key files of a data folder, by mode.
pub(crate) const FILES: [&str; 2] = [DEVELOPMENT_FILE, OPERATOR_FILE];
const DEVELOPMENT_FILE: &str = "key";
const OPERATOR_FILE: &str = "operator-key";

/// Not `Debug`: it holds the key.
pub(crate) struct HostKey {
    mode: Mode,
    path: PathBuf,
    text: String,
}

impl HostKey {
    pub(crate) fn load_or_create(mode: Mode, folder: &Path, entropy: &dyn Entropy) -> Result<HostKey> {
        // A development key is printed, so a service never uses it, not even with the same folder.
        let (name, prefix) = match mode {
            Mode::Development => (DEVELOPMENT_FILE, "hf_dev_"),
            Mode::Strict => (OPERATOR_FILE, "hf_op_"),
        };
        let path = folder.join(name);
        holdfast_embedded::close_file(&path)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(&path, prefix, entropy)?,
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
        };
        let shown = path.display();
        ensure!(text.starts_with("hf_"), "{shown} does not contain a key; delete it to create a new one");
        Ok(HostKey { mode, path, text })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn built_in(&self) -> BuiltIn {
        match self.mode {
            // It has all roles, and a request that names no tenant is for `default`.
            Mode::Development => BuiltIn {
                name: "development",
                key: HashedKey::of(&self.text),
                home: Some("default".into()),
                description: "The development key, printed at every start",
                change: "Delete the file `key` in the data folder and restart to create a new one.",
            },
            Mode::Strict => BuiltIn::operator(
                "operator",
                &self.text,
                "The operator key, created at the first start",
                "Delete the file `operator-key` in the data folder and restart to create a new one.",
            ),
        }
    }
}

fn create(path: &Path, prefix: &str, entropy: &dyn Entropy) -> Result<String> {
    let mut random = [0; 20];
    entropy.fill(&mut random);
    let key = format!("{prefix}{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase());
    // An interrupted start leaves no partial key.
    holdfast_embedded::replace_file(path, &format!("{key}\n"))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use holdfast_host::OsEntropy;

    use super::*;

    #[test]
    fn the_key_stays_the_same_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [Mode::Development, Mode::Strict] {
            let key = HostKey::load_or_create(mode, folder.path(), &OsEntropy).unwrap();
            assert_eq!(HostKey::load_or_create(mode, folder.path(), &OsEntropy).unwrap().text(), key.text());
            let permissions = std::fs::metadata(key.path()).unwrap().permissions();
            assert_eq!(permissions.mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_key_file_that_was_opened_to_others_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = HostKey::load_or_create(Mode::Strict, folder.path(), &OsEntropy).unwrap().path;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        HostKey::load_or_create(Mode::Strict, folder.path(), &OsEntropy).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_service_does_not_use_the_development_key() {
        let folder = tempfile::tempdir().unwrap();
        let of = |mode| HostKey::load_or_create(mode, folder.path(), &OsEntropy).unwrap();
        assert_ne!(of(Mode::Development).text(), of(Mode::Strict).text());
    }

    #[test]
    fn a_damaged_key_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "nonsense").unwrap();
        let refused = HostKey::load_or_create(Mode::Development, folder.path(), &OsEntropy).err().unwrap();
        assert!(refused.to_string().contains("delete it"));
    }
}
