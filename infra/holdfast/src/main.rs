//! `holdfast`: the same engine as on AWS, on one machine with an embedded store.

mod args;
mod clock;
mod dev;
mod entropy;
mod greeting;
mod key;
mod logging;
mod pump;
mod receivers;
mod sweeper;

use std::process::ExitCode;

use clap::Parser;

/// What one thread allocates another one frees here, all the time: the system's allocator makes them wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let settings = match cli.into_settings() {
        Ok(settings) => settings,
        Err(faults) => {
            for fault in faults {
                eprintln!("holdfast: {fault}");
            }
            return ExitCode::from(2);
        }
    };
    logging::start(settings.log_format, settings.log_level);
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(dev::run(settings)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}
