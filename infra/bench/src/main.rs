//! Measures Holdfast on one machine, beside a bare relay in the same run.

mod generator;
mod lambda;
mod measure;
mod process;
mod receiver;
mod relay;
mod report;
mod scenarios;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use report::Report;
use scenarios::Bench;

/// Measures Holdfast on this machine: throughput, latency, and what a flood does to others. Prints a table, with what does not depend on
/// the machine first.
#[derive(Parser)]
#[command(name = "holdfast-bench")]
struct Arguments {
    /// The `holdfast` program [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    holdfast: Option<PathBuf>,
    /// The folder of the functions' programs and the bare one; without it there is no scenario f
    #[arg(long, value_name = "FOLDER")]
    functions: Option<PathBuf>,
    /// How often each scenario is run, in turn; the table shows medians. Scenarios d to i are run once.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run only the scenario with this letter, or those whose names contain this word.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How long each load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many deliveries scenario d parks.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    parked: u64,
    /// How many delivered events scenario h stores.
    #[arg(long, value_name = "N", default_value_t = 1_600_000)]
    stored: u64,
    /// How many subscriptions scenario i creates.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    subscriptions: u64,
    /// Also write all figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs only the relay, which posts what it gets to this URL.
    #[command(hide = true)]
    Relay { target: String },
}

/// A letter alone is in most names.
fn is_named(name: &str, only: &str) -> bool {
    name.split(' ').next() == Some(only) || (only.len() > 1 && name.contains(only))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Arguments::parse();
    // Nothing here uses TLS, but a client cannot be built without it when the whole workspace is compiled together.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(Command::Relay { target }) = args.command {
        return relay::run(target).await;
    }
    let holdfast = match args.holdfast {
        Some(given) => given,
        None => std::env::current_exe()?.with_file_name("holdfast"),
    };
    ensure!(
        holdfast.is_file(),
        "{} does not exist; build it with `cargo build --release -p holdfast`, or name it with --holdfast",
        holdfast.display()
    );
    let load_time = Duration::from_secs(args.seconds);
    let Arguments { functions, parked, stored, subscriptions, .. } = args;
    let bench = Bench { holdfast, functions, load_time, parked, stored, subscriptions };
    let mut selected = scenarios::all();
    selected.retain(|scenario| args.only.as_deref().is_none_or(|only| is_named(scenario.name, only)));
    ensure!(!selected.is_empty(), "no scenario has this name");
    let mut report = Report::default();
    for round in 0..args.rounds {
        for scenario in selected.iter().filter(|scenario| round == 0 || !scenario.is_long) {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, scenario.name);
            let figures = (scenario.run)(&bench).await;
            report.add(scenario.name, figures.with_context(|| format!("{} failed", scenario.name))?);
        }
    }
    let report = report.finish();
    println!("{}", report.table());
    if let Some(file) = args.json {
        std::fs::write(&file, report.json()?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let failures = report.failures();
    ensure!(
        failures.is_empty(),
        "more instructions than recorded in infra/bench/instructions.json: {}; if that is intended, record the new numbers",
        failures.join(", ")
    );
    Ok(())
}
