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
            logging::start(settings.log_format, settings.log_level);
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

fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
