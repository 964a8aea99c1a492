//! The isolation suite as a benchmark.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use holdfast_e2e::isolation::{self, Attack, Outcome, Size};

/// Shows what one tenant's attacks do to the latency of another, on a server that it starts on this machine.
#[derive(Parser)]
#[command(name = "holdfast-isolation")]
struct Arguments {
    /// The `holdfast` binary [default: the one beside this binary]
    #[arg(long, value_name = "FILE")]
    holdfast: Option<PathBuf>,
    /// How often each attack is run. Every run measures the victim without and then with the attacker.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run only the attacks whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The short form of the test command.
    #[arg(long)]
    short: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Arguments::parse();
    let binary = match args.holdfast {
        Some(given) => given,
        None => std::env::current_exe()?.with_file_name("holdfast"),
    };
    ensure!(
        binary.is_file(),
        "{} does not exist; build it with `cargo build --release -p holdfast`, or name it with --holdfast",
        binary.display()
    );
    let size = if args.short { Size::Short } else { Size::Full };
    let mut attacks = isolation::all();
    attacks.retain(|attack| args.only.as_deref().is_none_or(|part| attack.name.contains(part)));
    ensure!(!attacks.is_empty(), "no attack has this name");
    println!("The goal is a ratio of at most 2 at p50 and p99.\n{}", Outcome::HEADING);
    for attack in attacks {
        let outcome = run(&attack, &binary, size, args.rounds).await;
        let outcome = outcome.with_context(|| format!("{} could not be run", attack.name))?;
        println!("{}", outcome.row());
        for fault in outcome.faults {
            println!("  NOT AS PROMISED: {fault}");
        }
    }
    Ok(())
}

async fn run(attack: &Attack, binary: &std::path::Path, size: Size, rounds: u32) -> Result<Outcome> {
    let mut outcome = attack.run(binary, size).await?;
    for _ in 1..rounds {
        outcome.add(attack.run(binary, size).await?);
    }
    Ok(outcome)
}
