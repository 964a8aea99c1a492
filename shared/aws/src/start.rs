//! How every function starts and exits.

use std::process::ExitCode;
use std::time::Duration;

use crate::config::{Config, Faults};
use crate::{Cloud, logging};

/// Starts the log, logs the configuration and connects to AWS. `function_timeout`: how long one invocation has.
pub async fn connect(function: &str, config: Config, function_timeout: Duration) -> Cloud {
    logging::start(config.log_level);
    config.log(function);
    Cloud::connect(config, function_timeout).await
}

/// Prints one line per fault. Returns the exit code.
#[must_use]
pub fn exit(function: &str, result: Result<(), Faults>) -> ExitCode {
    let Err(Faults(faults)) = result else { return ExitCode::SUCCESS };
    for fault in faults {
        eprintln!("{function}: {fault}");
    }
    ExitCode::from(2)
}
