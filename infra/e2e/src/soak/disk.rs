//! Ways to fill the disk under a server.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// How the disk becomes full.
#[derive(Clone, Debug)]
pub enum Disk {
    /// The server's files must not grow. It needs no privileges, but writes fail with EFBIG and not with ENOSPC.
    Limited,
    /// The data is in this folder, which has a small filesystem of its own, and another file takes the rest of it.
    Small(PathBuf),
}

/// How full it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fullness {
    /// What is there can be written over, but no file grows.
    NoGrowth,
    /// Nothing can be written.
    NoWrites,
}

const FILLER: &str = "filler";
const PART: usize = 64 * 1_024;

impl Disk {
    pub(super) fn fill(&self, fullness: Fullness, server: Pid, data: &Path) -> Result<()> {
        match self {
            Disk::Limited => {
                let bytes = match fullness {
                    Fullness::NoGrowth => largest_file(data)?,
                    Fullness::NoWrites => 1,
                };
                limit_files(server, Some(bytes))
            }
            Disk::Small(folder) => fill_up(&folder.join(FILLER)),
        }
    }

    /// There is room again. `server`: `None` if it has ended meanwhile, and its limit with it.
    pub(super) fn empty(&self, server: Option<Pid>) -> Result<()> {
        match self {
            Disk::Limited => server.map_or(Ok(()), |server| limit_files(server, None)),
            Disk::Small(folder) => Ok(fs::remove_file(folder.join(FILLER))?),
        }
    }
}

fn limit_files(server: Pid, bytes: Option<u64>) -> Result<()> {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(server), Resource::Fsize, limit)
        .context("the size of the server's files cannot be limited")?;
    Ok(())
}

fn largest_file(folder: &Path) -> Result<u64> {
    let mut largest = 1;
    for entry in fs::read_dir(folder)? {
        largest = largest.max(entry?.metadata()?.len());
    }
    Ok(largest)
}

fn fill_up(file: &Path) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(file)?;
    let mut part = vec![0; PART];
    // Smaller and smaller, until not even a byte fits.
    while !part.is_empty() {
        match file.write_all(&part) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => part.truncate(part.len() / 2),
            Err(error) => return Err(error).context("the disk cannot be filled"),
        }
    }
    Ok(())
}
