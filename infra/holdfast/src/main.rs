//! `holdfast`: the same engine as on AWS, on one machine with an embedded store.

mod args;
mod backup;
mod clock;
mod dead_letters;
mod files;
mod greeting;
mod host;
mod key;
mod logging;
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
        Ok(Action::Run(settings)) => {
            let _last_lines = logging::start(settings.log_format, settings.log_level);
            run(host::run(*settings))
        }
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

/// After so many polls of tasks a busy thread looks for what arrived on sockets. The default of 61 is for polls of microseconds; some of ours
/// take milliseconds, and a tenant that causes many of them would keep the requests of others waiting.
const EVENT_INTERVAL: u32 = 4;

fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().event_interval(EVENT_INTERVAL).build()?.block_on(work)
}
