//! The one place where connections to AWS are configured. `AWS_ENDPOINT_URL` is honoured everywhere.

use std::time::Duration;

use aws_config::environment::credentials::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::config::environment;
use crate::https::Https;

pub use aws_config::SdkConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For one request.
    pub attempt: Duration,
    /// For a request with all its repeats.
    pub operation: Duration,
}

/// How often a request is made in all if it fails for a transient reason or is throttled.
const MAX_TRIES: u32 = 5;
/// The first of these is made after a random part of this, and the wait doubles each time. A partition that is throttled takes more within
/// milliseconds, and an invocation has little time.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// A function is frozen between two invocations, and AWS closes connections that are idle for longer. A new one takes a few milliseconds, a
/// request on a closed one a failed try.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// Newer defaults of the SDK are taken over on purpose, and not with an update of its crates.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// For functions: region and credentials from the environment, where Lambda puts them. There are no other sources. The SDK's own loader
/// knows many more, which would be part of every function.
#[must_use]
pub fn from_environment(timeouts: Timeouts) -> SdkConfig {
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let is_true = |name: &str| variable(name).map(|value| value.eq_ignore_ascii_case("true"));
    let mut sdk = SdkConfig::builder()
        .behavior_version(behavior())
        .http_client(Https::new(MAX_IDLE))
        .timeout_config(timeout_config(timeouts))
        .retry_config(retry_config())
        .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()))
        .service_config(EndpointsOfServices);
    sdk.set_region(variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")).map(Region::new));
    sdk.set_endpoint_url(variable("AWS_ENDPOINT_URL"));
    sdk.set_use_fips(is_true("AWS_USE_FIPS_ENDPOINT"));
    sdk.set_use_dual_stack(is_true("AWS_USE_DUALSTACK_ENDPOINT"));
    sdk.build()
}

/// The endpoint of one service, such as `AWS_ENDPOINT_URL_SECRETS_MANAGER`, is preferred to the one of all.
#[derive(Debug)]
struct EndpointsOfServices;

impl LoadServiceConfig for EndpointsOfServices {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        environment(&variable_of_service(key.env(), key.service_id())).filter(|value| !value.is_empty())
    }
}

fn variable_of_service(name: &str, service: &str) -> String {
    format!("{name}_{}", service.to_uppercase().replace(' ', "_"))
}

/// For the command line: also the profile in `AWS_PROFILE`, with all its ways to credentials, and the certificates that are installed on
/// the machine. The region must be in the environment or the profile: querying the instance metadata would turn a forgotten region into a
/// long wait.
#[cfg(feature = "profile")]
pub async fn from_profile(timeouts: Timeouts) -> SdkConfig {
    use aws_config::environment::region::EnvironmentVariableRegionProvider;
    use aws_config::meta::region::RegionProviderChain;
    use aws_config::profile::ProfileFileRegionProvider;
    use aws_smithy_http_client::Builder;
    use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

    let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new());
    let https = Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .pool_idle_timeout(MAX_IDLE)
        .build_https();
    aws_config::defaults(behavior())
        .http_client(https)
        .timeout_config(timeout_config(timeouts))
        .retry_config(retry_config())
        .region(region)
        .load()
        .await
}

/// For tests: an emulator, which accepts any credentials.
pub async fn to_emulator(endpoint: &str, timeouts: Timeouts) -> SdkConfig {
    aws_config::defaults(behavior())
        .http_client(Https::new(MAX_IDLE))
        .timeout_config(timeout_config(timeouts))
        .retry_config(retry_config())
        .endpoint_url(endpoint)
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "emulator"))
        .load()
        .await
}

fn retry_config() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(MAX_TRIES)
        .with_initial_backoff(FIRST_BACKOFF)
        .with_max_backoff(MAX_BACKOFF)
}

fn timeout_config(timeouts: Timeouts) -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_attempt_timeout(timeouts.attempt)
        .operation_timeout(timeouts.operation)
        .build()
}

#[cfg(test)]
mod tests {
    use super::variable_of_service;

    #[test]
    fn the_endpoint_of_a_service_has_a_variable_of_its_own() {
        for (service, expected) in [
            ("SQS", "AWS_ENDPOINT_URL_SQS"),
            ("DynamoDB", "AWS_ENDPOINT_URL_DYNAMODB"),
            ("Secrets Manager", "AWS_ENDPOINT_URL_SECRETS_MANAGER"),
        ] {
            assert_eq!(variable_of_service("AWS_ENDPOINT_URL", service), expected);
        }
    }
}
