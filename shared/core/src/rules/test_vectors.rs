//! Reads the reference vectors: those in `shared/core/vectors`, or those in the folder that `HOLDFAST_VECTORS` names. A folder
//! that has only one of the files replaces only that one.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

pub(crate) fn read<T: DeserializeOwned>(file: &str) -> T {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors");
    #[expect(clippy::disallowed_methods, reason = "a test may be pointed at other vectors")]
    let folder = std::env::var("HOLDFAST_VECTORS").unwrap_or_else(|_| own.to_owned());
    let folder = PathBuf::from(folder);
    assert!(folder.is_dir(), "{} is not a folder", folder.display());
    let path =
        Some(folder.join(file)).filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(own).join(file));
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{} is not of the expected form: {e}", path.display()))
}
