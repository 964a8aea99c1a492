//! The command line: strings to checked settings, reporting all faults together.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_core::engine::{DeliveryLog, Settings as EngineSettings};
use holdfast_core::rules::guard::EgressPolicy;
use holdfast_core::rules::release::DEFAULT_CEILING;
use tracing::level_filters::LevelFilter;

use crate::client::ClientCommand;
use crate::settings::{Mode, Settings};
use crate::targets::TargetArgs;

/// Delivers webhooks, and retries until they arrive.
///
/// Without a command, it runs `dev`. Every flag of `dev` and `serve` can also be set by a variable: --http-timeout-ms by
/// HOLDFAST_HTTP_TIMEOUT_MS. Exit codes: 0 success, 1 failure, 2 invalid arguments.
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
    /// Run everything on this machine for development: allows http and loopback targets, and has built-in receivers.
    Dev(DevArgs),
    /// Run everything on this machine as a service: allows only https and public targets, unless a flag allows more.
    Serve(ServeArgs),
    /// Copy a data folder, also while a server uses it. The copy is a data folder itself.
    Backup(crate::backup::BackupArgs),
    /// List the messages that Holdfast could not read. On AWS, also show them and send them back to their queues.
    #[command(subcommand)]
    DeadLetters(crate::dead_letters::DeadLettersCommand),
    #[command(flatten)]
    Client(ClientCommand),
}

pub(crate) enum Action {
    Client(Box<ClientCommand>),
    Run(Box<Settings>),
    Backup(crate::backup::BackupArgs),
    DeadLetters(crate::dead_letters::DeadLettersCommand),
}

#[derive(Args)]
struct DevArgs {
    /// The address of the API. Development mode listens on loopback addresses only.
    #[arg(long, env = "HOLDFAST_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:8080", value_parser = parse_listen)]
    listen: SocketAddr,
    /// The data folder.
    #[arg(long, env = "HOLDFAST_DATA", value_name = "DIR", default_value = ".holdfast")]
    data: PathBuf,
    /// Run the schedule clock this many times faster: with 3600, 48 hours take 48 seconds.
    #[arg(long, env = "HOLDFAST_SPEED", value_name = "N", default_value_t = 1)]
    speed: u32,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args)]
struct ServeArgs {
    /// The address of the API, which is plain HTTP: put a proxy with TLS in front of it.
    #[arg(long, env = "HOLDFAST_LISTEN", value_name = "HOST:PORT", value_parser = parse_listen)]
    listen: SocketAddr,
    /// The data folder, which also contains the operator key.
    #[arg(long, env = "HOLDFAST_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Whether to allow http:// URLs. https:// URLs are always allowed.
    #[arg(long, env = "HOLDFAST_HTTP_TARGETS", value_enum, default_value_t = HttpTargets::Refuse)]
    http_targets: HttpTargets,
    /// The allowed ports: any, or a list such as 443,8000-8999 [default: 443, 1024-65535, and 80 if http:// is allowed]
    #[arg(long, env = "HOLDFAST_PORTS", value_name = "PORTS")]
    ports: Option<String>,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// The flags of both modes.
#[derive(Args)]
struct CommonArgs {
    /// Timeout of an attempt, in milliseconds.
    #[arg(long, env = "HOLDFAST_HTTP_TIMEOUT_MS", value_name = "MS", default_value_t = 5_000)]
    http_timeout_ms: u64,
    /// How long a claimed delivery is leased to its worker, in milliseconds.
    #[arg(long, env = "HOLDFAST_FUNCTION_TIMEOUT_MS", value_name = "MS", default_value_t = 30_000)]
    function_timeout_ms: u64,
    /// Maximum number of concurrent first attempts.
    #[arg(long, env = "HOLDFAST_FIRST_CONCURRENCY", value_name = "N", default_value_t = 1_024)]
    first_concurrency: usize,
    /// Maximum number of concurrent retries.
    #[arg(long, env = "HOLDFAST_RETRY_CONCURRENCY", value_name = "N", default_value_t = 256)]
    retry_concurrency: usize,
    /// Maximum number of concurrent attempts to one URL: of first attempts, and again of retries.
    #[arg(long, env = "HOLDFAST_URL_CONCURRENCY", value_name = "N", default_value_t = 128)]
    url_concurrency: usize,
    /// Maximum number of parked deliveries that are released, or deliveries that a bulk replay replays, in one step of 5 s.
    #[arg(long, env = "HOLDFAST_RELEASE_CEILING", value_name = "N", default_value_t = DEFAULT_CEILING)]
    release_ceiling: u32,
    /// Maximum number of connections to the API from one address [default: an eighth of all; in development mode, all]
    #[arg(long, env = "HOLDFAST_PEER_CONNECTIONS", value_name = "N")]
    peer_connections: Option<usize>,
    /// How long to keep delivered and dead deliveries, in days.
    #[arg(long, env = "HOLDFAST_KEEP_DAYS", value_name = "DAYS", default_value_t = 14)]
    keep_days: u64,
    /// How long a rotated secret stays valid for signing, in hours.
    #[arg(long, env = "HOLDFAST_SECRET_OVERLAP_HOURS", value_name = "HOURS", default_value_t = 24)]
    secret_overlap_hours: u64,
    /// Which deliveries to store: all, or only those that needed more than one attempt. With `trouble`, a first attempt that was made twice
    /// and succeeded once is retried, because its success is not known.
    #[arg(long, env = "HOLDFAST_DELIVERY_LOG", value_enum, default_value_t = LogChoice::All)]
    delivery_log: LogChoice,
    /// Show metrics of each tenant too. They name the tenants, and /metrics is public.
    #[arg(long, env = "HOLDFAST_METRICS_BY_TENANT", value_parser = BoolishValueParser::new())]
    metrics_by_tenant: bool,
    #[arg(long, env = "HOLDFAST_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[arg(long, env = "HOLDFAST_LOG_LEVEL", default_value = "info", value_parser = log_level())]
    log_level: LevelFilter,
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

/// Reads an address or a host name with a port. Of several addresses of a name, an IPv4 address comes first: it is what other programs on
/// this machine are usually told.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; write HOST:PORT, such as localhost:8080"))?;
    found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| "this name has no address".to_owned())
}

fn log_level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["error", "warn", "info", "debug"]).try_map(|level| level.parse())
}

impl Cli {
    pub(crate) fn action(self) -> Result<Action, Vec<String>> {
        let mut faults = Vec::new();
        let settings = match self.command {
            Some(Command::Dev(args)) => args.settings(&mut faults),
            Some(Command::Serve(args)) => args.settings(&mut faults),
            Some(Command::Client(command)) => return Ok(Action::Client(Box::new(command))),
            Some(Command::Backup(args)) => return Ok(Action::Backup(args)),
            Some(Command::DeadLetters(command)) => return Ok(Action::DeadLetters(command)),
            None => self.dev.settings(&mut faults),
        };
        faults.extend(settings.faults());
        if faults.is_empty() { Ok(Action::Run(Box::new(settings))) } else { Err(faults) }
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
            release_ceiling: self.release_ceiling,
            count_by_tenant: self.metrics_by_tenant,
            max_long_work: std::thread::available_parallelism()
                .map_or(1, |threads| threads.get().div_ceil(2)),
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
            peer_connections: self.peer_connections,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_of_the_server_is_a_variable_too() {
        let cli = Cli::command();
        for mode in ["dev", "serve"] {
            let command = cli.find_subcommand(mode).unwrap();
            for flag in command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_env()))) {
                let (long, variable) = flag;
                let expected = format!("HOLDFAST_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(variable, Some(expected.as_ref()), "--{long} of {mode}");
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_server_listens_on_an_address_or_a_name() {
        assert_eq!(parse_listen("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert!(parse_listen("localhost:8080").unwrap().ip().is_loopback());
        for refused in ["8080", "localhost", "localhost:99999", ""] {
            assert!(parse_listen(refused).unwrap_err().contains("HOST:PORT"), "{refused}");
        }
    }
}
