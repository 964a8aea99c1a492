//! Runs whole worlds in virtual time and checks the promises in each: see `shared/sim/README.md`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use holdfast_core::rules::release::DEFAULT_CEILING;
use holdfast_sim::simulation::{self, Report, Story};

/// Simulates Holdfast with faults everywhere, and checks its promises.
#[derive(Parser)]
#[command(name = "holdfast-sim")]
struct Arguments {
    /// How many worlds to run.
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "seed")]
    seeds: u64,
    /// The seed of the first one.
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Runs only this one, and tells its story.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Instead: how long it takes to release so many parked deliveries at a receiver that answers in 50 ms, with the defaults of one machine
    /// and of AWS.
    #[arg(long, value_name = "DELIVERIES", conflicts_with_all = ["seed", "seeds", "from"])]
    release: Option<usize>,
}

/// What a step releases at most, by default, and how long a million may take.
const HOSTS: [(&str, u32, Duration); 2] = [
    ("one machine", DEFAULT_CEILING, Duration::from_secs(15 * 60)),
    ("AWS", 2_560, Duration::from_secs(3_600)),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let kept = match (arguments.release, arguments.seed) {
        (Some(parked), _) => HOSTS.iter().all(|host| release(parked, *host)),
        (None, Some(seed)) => tell(seed),
        (None, None) => run(arguments.from..arguments.from + arguments.seeds),
    };
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn release(parked: usize, (host, ceiling, max): (&str, u32, Duration)) -> bool {
    let took = simulation::drain(parked, ceiling);
    println!(
        "{parked} parked deliveries, steps of up to {ceiling} ({host}): {took:?} of schedule time, at most {max:?}"
    );
    took <= max
}

fn tell(seed: u64) -> bool {
    let outcome = simulation::run(seed, Story::told());
    outcome.story.iter().for_each(|line| println!("{line}"));
    outcome.broken.is_none()
}

fn run(seeds: std::ops::Range<u64>) -> bool {
    let count = seeds.end - seeds.start;
    let shows_progress = std::io::stderr().is_terminal();
    let report = Report::of(seeds, |done| {
        if shows_progress {
            let bar = "#".repeat((done * 40 / count.max(1)) as usize);
            eprint!("\r[{bar:<40}] {done} of {count} ");
            let _ = std::io::stderr().flush();
        }
    });
    if shows_progress {
        eprintln!();
    }
    for outcome in &report.broken {
        println!("{outcome}; its story: --seed {}", outcome.seed);
    }
    for (what, times) in &report.counts {
        println!("{times:>10}  {what}");
    }
    let missing = if count >= simulation::FULL_RUN { report.missing() } else { Vec::new() };
    for what in &missing {
        println!("this never happened, and should have: {what}");
    }
    println!("{count} seeds, {} broken", report.broken.len());
    report.broken.is_empty() && missing.is_empty()
}
