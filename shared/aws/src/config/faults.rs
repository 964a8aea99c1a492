use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::chain::chain;

/// Why a function does not start: one sentence per fault, never a secret among them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Faults {
    /// What could not be done, and why.
    #[must_use]
    pub fn of(what: &str, error: &dyn Error) -> Faults {
        Faults(vec![format!("{what}: {}", chain(error))])
    }

    /// Tells the operator, one line each, and how the process should end.
    #[must_use]
    pub fn refuse(&self, function: &str) -> ExitCode {
        for fault in &self.0 {
            eprintln!("{function}: {fault}");
        }
        ExitCode::from(2)
    }
}
