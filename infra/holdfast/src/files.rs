//! How many files this process may open, and how they are shared: attempts come first, and the API gets what they leave.

use anyhow::{Context, Result, ensure};
use holdfast_core::engine::MAX_PINGS;
use holdfast_egress::MAX_OVERTAKEN;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::server::{Bounds, CLOSING_PARTS};
use crate::settings::{Mode, Settings};

/// The database with its readers, the log, the runtime, and files that are open only for a moment.
const RESERVED_FILES: u64 = 64;
/// Connections to receivers that are opened without an attempt that waits for them.
const FILES_WITHOUT_ATTEMPTS: u64 = MAX_OVERTAKEN as u64;
/// The connection of an attempt, and a name lookup or the connection of an earlier attempt that is kept for reuse.
const FILES_PER_ATTEMPT: u64 = 2;
/// More than a busy producer opens.
const MAX_CONNECTIONS: u64 = 4_096;
/// With fewer, a few idle peers would keep the API from answering.
const MIN_CONNECTIONS: u64 = 64;
/// One peer gets at most this part of all connections.
const PEER_SHARE: u64 = 8;

/// Raises the soft limit to the hard limit, which needs no privilege, and returns it.
pub(crate) fn raise_limit() -> Result<u64> {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
            .context("the limit on open files cannot be raised to the hard limit")?;
    }
    // `None` is "unlimited".
    let limit = maximum.unwrap_or(u64::MAX);
    tracing::info!(before = before.unwrap_or(u64::MAX), limit, "open files");
    Ok(limit)
}

/// How many API connections `limit` files leave when all attempts are running.
pub(crate) fn bound_connections(limit: u64, settings: &Settings) -> Result<Bounds> {
    let attempts = (settings.first_concurrency + settings.retry_concurrency) as u64;
    let taken =
        RESERVED_FILES + FILES_WITHOUT_ATTEMPTS + (attempts + 2 * MAX_PINGS as u64) * FILES_PER_ATTEMPT;
    let needed = taken + MIN_CONNECTIONS + MIN_CONNECTIONS / CLOSING_PARTS as u64;
    ensure!(
        limit >= needed,
        "this process may open {limit} files, and {attempts} concurrent attempts and the API need {needed}; raise the hard limit \
         (`ulimit -Hn`, or LimitNOFILE= of systemd) or lower --first-concurrency and --retry-concurrency"
    );
    let connections = connections_within(limit - taken) as usize;
    let per_peer = match (settings.peer_connections, settings.mode) {
        (Some(given), _) => given.min(connections),
        // Attempts to the built-in receivers come from this machine too, as all peers do that can reach a development server.
        (None, Mode::Development) => connections,
        (None, Mode::Strict) => connections / PEER_SHARE as usize,
    };
    Ok(Bounds { connections, per_peer })
}

/// Those that made room for others have files until they are closed.
fn connections_within(files: u64) -> u64 {
    let parts = CLOSING_PARTS as u64;
    files.min(MAX_CONNECTIONS + MAX_CONNECTIONS / parts) * parts / (parts + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_and_closing_connections_have_a_file_each() {
        for (files, expected) in [(68, 64), (85, 80), (4_351, 4_095), (4_352, 4_096), (u64::MAX, 4_096)] {
            assert_eq!(connections_within(files), expected, "{files}");
        }
        for files in 68..5_000 {
            let connections = connections_within(files);
            assert!(connections + connections / CLOSING_PARTS as u64 <= files, "{files}");
        }
    }
}
