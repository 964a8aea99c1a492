//! `holdfast`: the same engine as on AWS, on one machine with an embedded store.

mod args;
mod backup;
mod client;
mod clock;
mod dead_letters;
mod files;
mod greeting;
mod host;
mod key;
mod logging;
#[cfg(feature = "otlp")]
mod otlp;
mod periodic;
mod proxy;
mod pump;
mod receivers;
mod server;
mod settings;
mod status;
mod targets;

use std::process::ExitCode;

use args::Action;
use clap::Parser;

/// Memory is often freed by another thread than the one that allocated it, which is slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match args::Cli::parse().action() {
        Ok(Action::Run(settings)) => start_log(&settings).and_then(|_last_lines| run(host::run(*settings))),
        Ok(Action::Client(command)) => run(client::run(*command)),
        Ok(Action::Backup(args)) => backup::run(&args),
        Ok(Action::DeadLetters(command)) => run(dead_letters::run(command)),
        Err(faults) => {
            for fault in faults {
                eprintln!("holdfast: {fault}");
            }
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What it returns is kept until the end.
#[cfg(not(feature = "otlp"))]
fn start_log(settings: &settings::Settings) -> anyhow::Result<logging::LastLines> {
    Ok(logging::start(settings.log_format, settings.log_level))
}

/// What it returns is kept until the end. The spans are dropped first, so that trouble with the last ones is logged.
#[cfg(feature = "otlp")]
fn start_log(settings: &settings::Settings) -> anyhow::Result<(Option<otlp::Spans>, logging::LastLines)> {
    let (format, level) = (settings.log_format, settings.log_level);
    let spans = otlp::start()?;
    let last_lines = match &spans {
        Some(spans) => logging::start_with(format, level, spans),
        None => logging::start(format, level),
    };
    Ok((spans, last_lines))
}

/// After so many polls of tasks a busy thread looks for what arrived on sockets. The default of 61 is for polls of microseconds; some of ours
/// take milliseconds, and a tenant that causes many of them would keep the requests of others waiting.
const EVENT_INTERVAL: u32 = 4;

fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().event_interval(EVENT_INTERVAL).build()?.block_on(work)
}
