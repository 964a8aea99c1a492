//! `holdfast backup`: copies a data folder, also while a server uses it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::key;

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The data folder, which a server may use meanwhile.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The folder of the backup, which is created and must not contain files.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(crate) fn run(args: &BackupArgs) -> Result<()> {
    let BackupArgs { data, to } = args;
    let damaged = holdfast_embedded::backup(data, to, &key::FILES)?;
    for row in &damaged {
        eprintln!("holdfast: damaged, and copied as it is: {row}");
    }
    println!(
        "{to} is a backup of {data}. It contains keys and signing secrets. To restore it, start Holdfast with a copy of it as --data",
        to = to.display(),
        data = data.display()
    );
    Ok(())
}
