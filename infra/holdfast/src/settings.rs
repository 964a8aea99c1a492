//! The checked settings of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::engine::Settings as EngineSettings;
use holdfast_core::rules::guard::EgressPolicy;
use tracing::level_filters::LevelFilter;

use crate::args::LogFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For one person on this machine: built-in receivers, and the key is printed.
    Development,
    /// For other people's requests: no built-in receivers, and messages reveal nothing about the host.
    Strict,
}

pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) speed: u32,
    pub(crate) engine: EngineSettings,
    pub(crate) egress_policy: EgressPolicy,
    pub(crate) first_concurrency: usize,
    pub(crate) retry_concurrency: usize,
    pub(crate) url_concurrency: usize,
    /// `None`: a share of what the limit on files allows.
    pub(crate) peer_connections: Option<usize>,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LevelFilter,
}

/// At this speed, a real millisecond is about 17 minutes of the schedule.
const MAX_SPEED: u32 = 1_000_000;

impl Settings {
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.engine.faults();
        if self.mode == Mode::Development && !self.listen.ip().is_loopback() {
            // Anyone who can reach a development server can make it post to any port of this machine.
            faults.push(format!(
                "--listen {}: development mode listens on loopback addresses only; use `holdfast serve` for other addresses",
                self.listen
            ));
        }
        if !(1..=MAX_SPEED).contains(&self.speed) {
            faults.push(format!("--speed must be from 1 to {MAX_SPEED}"));
        }
        let counts = [
            ("--first-concurrency", self.first_concurrency),
            ("--retry-concurrency", self.retry_concurrency),
            ("--url-concurrency", self.url_concurrency),
            ("--peer-connections", self.peer_connections.unwrap_or(1)),
        ];
        for (name, value) in counts {
            if !(1..=100_000).contains(&value) {
                faults.push(format!("{name} must be from 1 to 100000"));
            }
        }
        faults
    }

    /// Logs the settings, which contain no secret, in one line.
    pub(crate) fn log(&self) {
        let guard = &self.egress_policy.guard;
        let allowed: Vec<String> = guard.allow.iter().map(ToString::to_string).collect();
        let denied: Vec<String> = guard.deny.iter().map(ToString::to_string).collect();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            mode = ?self.mode,
            listen = %self.listen,
            data = %self.data.display(),
            speed = self.speed,
            http_timeout_ms = self.engine.http_timeout.as_millis() as u64,
            function_timeout_ms = self.engine.function_timeout.as_millis() as u64,
            keep_days = self.engine.keep.as_secs() / 86_400,
            secret_overlap_hours = self.engine.secret_overlap.as_secs() / 3_600,
            delivery_log = ?self.engine.delivery_log,
            http_targets = guard.http_allowed,
            allowed_targets = allowed.join(","),
            denied_targets = denied.join(","),
            ports = %guard.ports,
            proxy = self.egress_policy.proxy.as_ref().map(ToString::to_string),
            first_concurrency = self.first_concurrency,
            retry_concurrency = self.retry_concurrency,
            url_concurrency = self.url_concurrency,
            release_ceiling = self.engine.release_ceiling,
            "starting"
        );
    }

    /// How long a received message stays invisible: six times as long as handling it may take.
    pub(crate) fn visibility(&self) -> Duration {
        self.engine.function_timeout * 6
    }
}
