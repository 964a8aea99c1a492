//! The command line: strings in, checked settings out, all faults named together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_core::usecases::{DeliveryLog, Settings as EngineSettings};

/// Webhooks that hold fast.
#[derive(Parser)]
#[command(name = "holdfast", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    dev: DevArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything on this machine for development: http and loopback targets are allowed, receivers are built in.
    Dev(DevArgs),
    /// Look into the dead-letter queue on AWS, and send messages back to where they came from.
    #[cfg(feature = "aws")]
    DeadLetters(crate::dead_letters::DeadLettersArgs),
    #[cfg(not(feature = "aws"))]
    #[command(hide = true)]
    DeadLetters {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _any: Vec<String>,
    },
}

/// What the command line asks for.
pub(crate) enum Asked {
    Dev(Settings),
    #[cfg(feature = "aws")]
    DeadLetters(crate::dead_letters::DeadLettersArgs),
}

#[derive(Args)]
struct DevArgs {
    /// Where the API listens. Development mode listens on loopback only.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where everything is kept.
    #[arg(long, value_name = "DIR", default_value = ".holdfast")]
    data: PathBuf,
    /// Run the schedule's clock this many times faster: 3600 turns 48 hours into 48 seconds.
    #[arg(long, value_name = "N", default_value_t = 1)]
    speed: u32,
    /// How long an attempt may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    http_timeout_ms: u64,
    /// How long a claimed attempt is reserved for whoever claimed it, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    function_timeout_ms: u64,
    /// How many first attempts are made at the same time.
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    first_concurrency: usize,
    /// How many retries are made at the same time.
    #[arg(long, value_name = "N", default_value_t = 256)]
    retry_concurrency: usize,
    /// How many attempts at one URL are made at the same time, of first attempts and of retries each.
    #[arg(long, value_name = "N", default_value_t = 128)]
    url_concurrency: usize,
    /// How many days delivered and dead deliveries are kept.
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    keep_days: u64,
    /// Which deliveries can be looked up: all, or only those that needed more than one attempt.
    #[arg(long, value_enum, default_value_t = LogChoice::All)]
    delivery_log: LogChoice,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogChoice {
    All,
    Trouble,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// Checked.
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) speed: u32,
    pub(crate) engine: EngineSettings,
    pub(crate) first_concurrency: usize,
    pub(crate) retry_concurrency: usize,
    pub(crate) url_concurrency: usize,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LogLevel,
}

/// Beyond this, one real millisecond is more than a quarter of an hour.
const FASTEST: u32 = 1_000_000;

impl Cli {
    pub(crate) fn asked(self) -> Result<Asked, Vec<String>> {
        let args = match self.command {
            Some(Command::Dev(args)) => args,
            #[cfg(feature = "aws")]
            Some(Command::DeadLetters(args)) => return Ok(Asked::DeadLetters(args)),
            #[cfg(not(feature = "aws"))]
            Some(Command::DeadLetters { .. }) => {
                return Err(vec![
                    "this holdfast was built without AWS: build it with `--features aws`".to_owned(),
                ]);
            }
            None => self.dev,
        };
        let settings = args.settings();
        let faults = settings.faults();
        if faults.is_empty() { Ok(Asked::Dev(settings)) } else { Err(faults) }
    }
}

impl DevArgs {
    fn settings(self) -> Settings {
        let engine = EngineSettings {
            http_timeout: Duration::from_millis(self.http_timeout_ms),
            function_timeout: Duration::from_millis(self.function_timeout_ms),
            keep: Duration::from_secs(self.keep_days.saturating_mul(86_400)),
            delivery_log: match self.delivery_log {
                LogChoice::All => DeliveryLog::All,
                LogChoice::Trouble => DeliveryLog::Trouble,
            },
            http_allowed: true,
            ..EngineSettings::default()
        };
        Settings {
            listen: self.listen,
            data: self.data,
            speed: self.speed,
            engine,
            first_concurrency: self.first_concurrency,
            retry_concurrency: self.retry_concurrency,
            url_concurrency: self.url_concurrency,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}

impl Settings {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.engine.faults();
        if !self.listen.ip().is_loopback() {
            // Whoever reaches a development server can make it post to anything on this machine.
            faults.push(format!(
                "--listen {}: development mode listens on a loopback address only",
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
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            listen = %self.listen,
            data = %self.data.display(),
            speed = self.speed,
            http_timeout_ms = self.engine.http_timeout.as_millis() as u64,
            function_timeout_ms = self.engine.function_timeout.as_millis() as u64,
            keep_days = self.engine.keep.as_secs() / 86_400,
            delivery_log = ?self.engine.delivery_log,
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
