//! How every function begins and ends.

use std::process::ExitCode;
use std::time::Duration;

use crate::config::{Config, Faults};
use crate::{Cloud, logging};

/// Begins to log and tells what is in force. `time`: how long one invocation has.
pub async fn connect(function: &str, config: Config, time: Duration) -> Cloud {
    logging::start(config.log_level);
    config.log(function);
    Cloud::connect(config, time).await
}

/// The same for a function that serves the API, from the environment to the operator's key.
#[cfg(feature = "api")]
pub async fn for_api(function: &str) -> Result<(Cloud, String), Faults> {
    use crate::config::{ApiConfig, environment};
    use crate::{gateway, operator_key};

    let ApiConfig { common, operator_secret } = ApiConfig::read(environment)?;
    let cloud = connect(function, common, gateway::MAX_ANSWER).await;
    let key = operator_key::fetch(cloud.sdk(), &operator_secret).await?;
    Ok((cloud, key))
}

/// How the process ends.
#[must_use]
pub fn exit(function: &str, result: Result<(), Faults>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(faults) => faults.refuse(function),
    }
}
