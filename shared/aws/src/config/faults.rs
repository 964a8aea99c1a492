use std::fmt;
use std::process::ExitCode;

/// Why a function does not start: one sentence per fault, never a secret among them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Faults {
    /// The whole chain of an error in one sentence.
    #[must_use]
    pub fn of(what: &str, error: &dyn std::error::Error) -> Faults {
        let mut sentence = format!("{what}: {error}");
        let mut source = error.source();
        while let Some(error) = source {
            sentence.push_str(&format!(": {error}"));
            source = error.source();
        }
        Faults(vec![sentence])
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
