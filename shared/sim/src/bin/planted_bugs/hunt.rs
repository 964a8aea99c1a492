//! Looks for each planted fault.

use std::process::ExitCode;

use holdfast_core::planted::switch_on;
use holdfast_sim::simulation::find_broken;

use crate::bugs::BUGS;

/// So many worlds must be enough.
const MAX_SEEDS: u64 = 1_500;
/// So many have no planted fault.
const WITHOUT: u64 = 200;

pub(crate) fn hunt() -> ExitCode {
    // A world that breaks an assertion of the code says so in the table.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(broken) = find_broken(0..WITHOUT) {
        println!("without any planted fault: {broken}");
        return ExitCode::FAILURE;
    }
    println!("{:<70} {:>6}  broken promise", "planted fault", "seeds");
    let mut missed = 0;
    for (number, bug) in BUGS.iter().enumerate() {
        switch_on(number);
        match find_broken(0..MAX_SEEDS) {
            Some(found) => println!("{:<70} {:>6}  {}", bug.name, found.seed + 1, found.broken.promise),
            None => {
                missed += 1;
                println!("{:<70} {:>6}  NOT FOUND", bug.name, MAX_SEEDS);
            }
        }
    }
    // In the format of cargo test, so that .ci/run can add it up.
    let result = if missed == 0 { "ok" } else { "FAILED" };
    println!("test result: {result}. {} passed; {missed} failed; 0 ignored", BUGS.len() - missed);
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
