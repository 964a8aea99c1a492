//! Proves that the simulation finds faults: plants dozens of them in a copy of the core, one switch for each, and looks for a broken promise.
//!
//! The product's code has no switches. This program copies `shared/core` and `shared/sim`, puts a switch for every planted fault into the copy
//! and runs itself there, built with `--cfg planted`.

mod bugs;
#[cfg(planted)]
mod hunt;
#[cfg(not(planted))]
mod plant;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(planted)]
    return hunt::hunt();
    #[cfg(not(planted))]
    match plant::plant_and_run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("planted_bugs: {error}");
            ExitCode::FAILURE
        }
    }
}
