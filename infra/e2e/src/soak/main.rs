//! The soak as a command.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_e2e::clock;
use holdfast_e2e::soak::{self, Disk, Plan};

/// Loads a server on this machine, kills and stops it and fills its disk, and then compares what it accepted with what was received.
#[derive(Parser)]
#[command(name = "holdfast-soak")]
struct Arguments {
    /// How long there is trouble. The calm after it takes another minute or two.
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    minutes: f64,
    /// Everything that is random comes from it [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many times faster than real time the server's schedule runs.
    #[arg(long, value_name = "N", default_value_t = 1_800, value_parser = clap::value_parser!(u32).range(600..=3_600))]
    speed: u32,
    /// The `holdfast` binary [default: the one beside this binary]
    #[arg(long, value_name = "FILE")]
    holdfast: Option<PathBuf>,
    /// A folder with a small filesystem of its own, which is filled to its end [default: the server's files are kept from growing]
    #[arg(long, value_name = "DIR")]
    small_disk: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Arguments::parse();
    let binary = args.holdfast.map_or_else(soak::beside_this_binary, Ok)?;
    ensure!(
        binary.is_file(),
        "{} does not exist; build it with `cargo build --release -p holdfast`, or name it with --holdfast",
        binary.display()
    );
    let trouble = Duration::try_from_secs_f64(args.minutes * 60.0)?;
    let seed = args.seed.unwrap_or_else(clock::real_ms);
    let disk = args.small_disk.map_or(Disk::Limited, Disk::Small);
    println!("seed {seed}");
    let plan = Plan { seed, trouble, speed: args.speed, ease: 1, max_pause_ms: 8_000, disk, verbose: true };
    let report = soak::run(&binary, &plan).await?;
    println!("\n{report}");
    Ok(if report.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
