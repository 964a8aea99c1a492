//! What the command line says, checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::engine::Settings as EngineSettings;
use holdfast_core::rules::guard::EgressPolicy;

use crate::args::{LogFormat, LogLevel};

/// What differs between trying Holdfast and running it for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For the one who sits at this machine: built-in receivers, and a key that is printed.
    Development,
    /// For strangers: nothing that is not needed, and nothing told that need not be.
    Strict,
}

pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) speed: u32,
    pub(crate) engine: EngineSettings,
    /// Where attempts may go, and how.
    pub(crate) egress_policy: EgressPolicy,
    pub(crate) first_concurrency: usize,
    pub(crate) retry_concurrency: usize,
    pub(crate) url_concurrency: usize,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LogLevel,
}

/// Beyond this, one real millisecond is more than a quarter of an hour.
const FASTEST: u32 = 1_000_000;

impl Settings {
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.engine.faults();
        if self.mode == Mode::Development && !self.listen.ip().is_loopback() {
            // Whoever reaches a development server can make it post to anything on this machine.
            faults.push(format!(
                "--listen {}: development mode listens on a loopback address only; `holdfast serve` listens anywhere",
                self.listen
            ));
        }
        if !(1..=FASTEST).contains(&self.speed) {
            faults.push(format!("--speed must be from 1 to {FASTEST}"));
        }
        let concurrencies = [
            ("--first-concurrency", self.first_concurrency),
            ("--retry-concurrency", self.retry_concurrency),
            ("--url-concurrency", self.url_concurrency),
        ];
        for (name, value) in concurrencies {
            if !(1..=100_000).contains(&value) {
                faults.push(format!("{name} must be from 1 to 100000"));
            }
        }
        faults
    }

    /// What is in force, in one line. There is no secret among it.
    pub(crate) fn log(&self) {
        let guard = &self.egress_policy.guard;
        let allowed: Vec<String> = guard.allow.iter().map(ToString::to_string).collect();
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
            ports = %guard.ports,
            proxy = self.egress_policy.proxy.as_ref().map(ToString::to_string),
            first_concurrency = self.first_concurrency,
            retry_concurrency = self.retry_concurrency,
            url_concurrency = self.url_concurrency,
            "starting"
        );
    }

    /// How long a received message stays invisible: six times as long as handling it may take.
    pub(crate) fn visibility(&self) -> Duration {
        self.engine.function_timeout * 6
    }
}
