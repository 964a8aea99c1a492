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

#[must_use]
pub fn exit(function: &str, result: Result<(), Faults>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(faults) => faults.report(function),
    }
}
