//! Looks for each planted fault.

use std::process::ExitCode;

use holdfast_core::planted::{switch_off, switch_on};
use holdfast_sim::simulation::{BrokenSeed, find_broken};

use crate::bugs::{BUGS, Bug};

/// So many worlds must be enough.
const MAX_SEEDS: u64 = 1_500;
/// Looks for every fault from seed 0 on, and prints how many seeds that takes.
const FROM_ZERO: &str = "--from-zero";

pub(crate) fn hunt() -> ExitCode {
    let from_zero = match std::env::args().nth(1).as_deref() {
        None => false,
        Some(FROM_ZERO) => true,
        Some(other) => {
            eprintln!("planted_bugs: unknown option {other}; use {FROM_ZERO}");
            return ExitCode::FAILURE;
        }
    };
    // A world that breaks an assertion of the code says so in the table.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<75} {:>5}  broken promise", "planted fault", "seed");
    let mut missed = 0;
    for (number, bug) in BUGS.iter().enumerate() {
        switch_on(number);
        let found = find(bug, from_zero);
        switch_off();
        let verdict = match found {
            None => Err(format!("NOT FOUND in {MAX_SEEDS} seeds")),
            // Else the world would break a promise anyway.
            Some(found) => match find_broken(found.seed..found.seed + 1) {
                Some(broken) => Err(format!("NOT BY THE FAULT, without it: {broken}")),
                None => Ok(found),
            },
        };
        match verdict {
            Ok(found) => println!("{:<75} {:>5}  {}", bug.name, found.seed, found.broken.promise),
            Err(why) => {
                missed += 1;
                println!("{:<75} {:>5}  {why}", bug.name, "");
            }
        }
    }
    // In the format of cargo test, so that .ci/run can add it up.
    let result = if missed == 0 { "ok" } else { "FAILED" };
    println!("test result: {result}. {} passed; {missed} failed; 0 ignored", BUGS.len() - missed);
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The seed that found it before comes first: most changes leave it as it is, and all faults are looked for in seconds.
fn find(bug: &Bug, from_zero: bool) -> Option<BrokenSeed> {
    let known = if from_zero { None } else { find_broken(bug.seed..bug.seed + 1) };
    known.or_else(|| find_broken(0..MAX_SEEDS))
}
