use std::error::Error;
use std::fmt;

use holdfast_core::ports::chain;

/// Why a function does not start: one sentence per fault, without secrets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Faults {
    /// One fault: what failed, and the error's chain.
    #[must_use]
    pub fn of(what: &str, error: &dyn Error) -> Faults {
        Faults(vec![format!("{what}: {}", chain(error))])
    }
}
