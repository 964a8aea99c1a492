//! How every function starts and exits.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::config::{Config, Faults, environment};
use crate::{Cloud, logging};

/// With this memory, in MB, Lambda gives a function all of one processor. With less it is a part of one.
const ONE_PROCESSOR_MB: u32 = 1_769;

/// Runs a function until its process ends. Returns the exit code.
#[must_use]
pub fn run(function: &str, work: impl Future<Output = Result<(), Faults>>) -> ExitCode {
    let memory_mb = environment("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(|size| size.parse().ok());
    let ended = match runtime(memory_mb) {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(Faults::of("no threads can be started", &error)),
    };
    exit(function, ended)
}

/// Threads beyond the processors that a function has would only take turns, and each takes time to start.
fn runtime(memory_mb: Option<u32>) -> io::Result<Runtime> {
    let has_one = memory_mb.is_some_and(|memory_mb| memory_mb <= ONE_PROCESSOR_MB);
    let mut builder = if has_one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Starts the log, logs the configuration and prepares the connections to AWS. `function_timeout`: how long one invocation has.
#[must_use]
pub fn connect(function: &str, config: Config, function_timeout: Duration) -> Cloud {
    logging::start(config.log_level);
    config.log(function);
    Cloud::connect(config, function_timeout)
}

/// Prints one line per fault. Returns the exit code.
fn exit(function: &str, result: Result<(), Faults>) -> ExitCode {
    let Err(Faults(faults)) = result else { return ExitCode::SUCCESS };
    for fault in faults {
        eprintln!("{function}: {fault}");
    }
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::RuntimeFlavor;

    use super::*;

    #[test]
    fn only_a_function_with_more_than_one_processor_has_more_than_one_thread() {
        let flavor = |memory_mb| runtime(memory_mb).unwrap().handle().runtime_flavor();
        assert_eq!(flavor(Some(128)), RuntimeFlavor::CurrentThread);
        assert_eq!(flavor(Some(1_769)), RuntimeFlavor::CurrentThread);
        assert_eq!(flavor(Some(1_770)), RuntimeFlavor::MultiThread);
        assert_eq!(flavor(None), RuntimeFlavor::MultiThread);
    }
}
