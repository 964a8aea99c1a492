//! The command line: strings in, checked settings out, all faults named together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_core::engine::{DeliveryLog, Settings as EngineSettings};
use holdfast_core::rules::guard::EgressPolicy;

use crate::settings::{Mode, Settings};
use crate::targets::TargetArgs;

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
    /// Run everything on this machine for others: https and public targets only, unless allowed by a flag.
    Serve(ServeArgs),
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
    Run(Box<Settings>),
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
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args)]
struct ServeArgs {
    /// Where the API listens, over plain HTTP: put what speaks TLS before it.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Where everything is kept, the operator's key too.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Whether http:// URLs may be subscribed. https:// always may.
    #[arg(long, value_enum, default_value_t = HttpTargets::Refuse)]
    http_targets: HttpTargets,
    /// The ports that may be delivered to: any, or a list such as 443,8000-8999 [default: 443, 1024-65535, and 80 if http://
    /// is allowed]
    #[arg(long, value_name = "PORTS")]
    ports: Option<String>,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// What is the same for both ways to run it.
#[derive(Args)]
struct CommonArgs {
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
    /// For how many hours a signing secret that was replaced signs along.
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    secret_overlap_hours: u64,
    /// Which deliveries can be looked up: all, or only those that needed more than one attempt.
    #[arg(long, value_enum, default_value_t = LogChoice::All)]
    delivery_log: LogChoice,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HttpTargets {
    Refuse,
    Allow,
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

impl Cli {
    pub(crate) fn asked(self) -> Result<Asked, Vec<String>> {
        let mut faults = Vec::new();
        let settings = match self.command {
            Some(Command::Dev(args)) => args.settings(&mut faults),
            Some(Command::Serve(args)) => args.settings(&mut faults),
            #[cfg(feature = "aws")]
            Some(Command::DeadLetters(args)) => return Ok(Asked::DeadLetters(args)),
            #[cfg(not(feature = "aws"))]
            Some(Command::DeadLetters { .. }) => {
                return Err(vec![
                    "this holdfast was built without AWS: build it with `--features aws`".to_owned(),
                ]);
            }
            None => self.dev.settings(&mut faults),
        };
        faults.extend(settings.faults());
        if faults.is_empty() { Ok(Asked::Run(Box::new(settings))) } else { Err(faults) }
    }
}

impl DevArgs {
    fn settings(self, faults: &mut Vec<String>) -> Settings {
        let egress_policy = self.targets.for_development(faults);
        let DevArgs { listen, data, speed, .. } = self;
        Settings { speed, ..self.common.settings(Mode::Development, listen, data, egress_policy) }
    }
}

impl ServeArgs {
    fn settings(self, faults: &mut Vec<String>) -> Settings {
        let http_allowed = self.http_targets == HttpTargets::Allow;
        let egress_policy = self.targets.strict(http_allowed, self.ports.as_deref(), faults);
        self.common.settings(Mode::Strict, self.listen, self.data, egress_policy)
    }
}

impl CommonArgs {
    fn settings(
        self,
        mode: Mode,
        listen: SocketAddr,
        data: PathBuf,
        egress_policy: EgressPolicy,
    ) -> Settings {
        let engine = EngineSettings {
            http_timeout: Duration::from_millis(self.http_timeout_ms),
            function_timeout: Duration::from_millis(self.function_timeout_ms),
            keep: Duration::from_secs(self.keep_days.saturating_mul(86_400)),
            delivery_log: match self.delivery_log {
                LogChoice::All => DeliveryLog::All,
                LogChoice::Trouble => DeliveryLog::Trouble,
            },
            http_allowed: egress_policy.guard.http_allowed,
            secret_overlap: Duration::from_secs(self.secret_overlap_hours.saturating_mul(3_600)),
            ..EngineSettings::default()
        };
        Settings {
            mode,
            listen,
            data,
            speed: 1,
            engine,
            egress_policy,
            first_concurrency: self.first_concurrency,
            retry_concurrency: self.retry_concurrency,
            url_concurrency: self.url_concurrency,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}
