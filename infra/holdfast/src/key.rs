//! The development key: made once, kept in the data folder for its owner only, printed at every start.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE32_NOPAD;
use holdfast_api::{BuiltIn, HashedKey};
use holdfast_core::ports::Entropy;

const FILE: &str = "key";

/// It has all roles, and tenant `default` is meant when a call names none.
pub(crate) fn built_in(key: &str) -> BuiltIn {
    BuiltIn {
        name: "development",
        key: HashedKey::of(key),
        home: Some("default".into()),
        description: "The development key, which is printed at every start",
        change: "It is in the file `key` of the data folder: delete the file and start again to get a new one.",
    }
}

pub(crate) fn load_or_create(folder: &Path, entropy: &dyn Entropy) -> Result<String> {
    let path = folder.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = text.trim().to_owned();
            ensure!(
                key.starts_with("hf_"),
                "{} does not hold a key; delete it to get a new one",
                path.display()
            );
            Ok(key)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(&path, entropy),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn create(path: &Path, entropy: &dyn Entropy) -> Result<String> {
    let mut random = [0; 20];
    entropy.fill(&mut random);
    let key = format!("hf_dev_{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase());
    // Written beside and moved into place: a start that is interrupted leaves no half key behind.
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        writeln!(file, "{key}")?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::entropy::OsEntropy;

    #[test]
    fn the_key_stays_the_same_and_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let key = load_or_create(folder.path(), &OsEntropy).unwrap();
        assert_eq!(load_or_create(folder.path(), &OsEntropy).unwrap(), key);
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "nonsense").unwrap();
        assert!(load_or_create(folder.path(), &OsEntropy).unwrap_err().to_string().contains("delete it"));
    }
}
