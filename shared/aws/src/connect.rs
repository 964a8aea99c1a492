//! The one place where connections to AWS are configured. `AWS_ENDPOINT_URL` is honoured everywhere.

use std::time::Duration;

use aws_config::environment::credentials::EnvironmentVariableCredentialsProvider;
use aws_config::environment::region::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_sqs::config::Credentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

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

/// For functions: region and credentials from the environment, where Lambda puts them. No other source is tried, because a cold
/// start waits for this.
pub async fn from_environment(timeouts: Timeouts) -> SdkConfig {
    loader(timeouts)
        .region(EnvironmentVariableRegionProvider::new())
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .load()
        .await
}

/// For the command line: also the profile in `AWS_PROFILE`, with all its ways to credentials. The region must be in the environment or
/// the profile: querying the instance metadata would turn a forgotten region into a long wait.
pub async fn from_profile(timeouts: Timeouts) -> SdkConfig {
    let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new());
    loader(timeouts).region(region).load().await
}

/// For tests: an emulator, which accepts any credentials.
pub async fn to_emulator(endpoint: &str, timeouts: Timeouts) -> SdkConfig {
    loader(timeouts)
        .endpoint_url(endpoint)
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "emulator"))
        .load()
        .await
}

fn loader(timeouts: Timeouts) -> ConfigLoader {
    let https = Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .pool_idle_timeout(MAX_IDLE)
        .build_https();
    let retries = RetryConfig::standard()
        .with_max_attempts(MAX_TRIES)
        .with_initial_backoff(FIRST_BACKOFF)
        .with_max_backoff(MAX_BACKOFF);
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(timeouts.attempt)
        .operation_timeout(timeouts.operation)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(https)
        .timeout_config(timeouts)
        .retry_config(retries)
}
