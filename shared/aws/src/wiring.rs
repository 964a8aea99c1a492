//! Puts the ports on AWS together, as the configuration says.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use holdfast_core::engine::{Engine, Ports, Settings};
use holdfast_core::ports::{Clock, Entropy, Sender};
use holdfast_core::rules::guard::EgressPolicy;

use crate::clock::MachineClock;
use crate::config::{Config, Faults};
use crate::connect::{self, Timeouts};
use crate::entropy::OsEntropy;
use crate::queue::{QueueUrls, SqsQueue};
use crate::store::DynamoStore;

/// What one function has of AWS. Made once, at cold start; nothing is asked of AWS yet.
pub struct Cloud {
    config: Config,
    time: Duration,
    sdk: SdkConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    queue: Arc<SqsQueue>,
}

impl Cloud {
    /// `time`: how long one invocation has.
    pub async fn connect(config: Config, time: Duration) -> Cloud {
        let sdk = connect::from_environment(timeouts(time)).await;
        let urls = QueueUrls {
            first: config.first_queue_url.clone(),
            retry: config.retry_queue_url.clone(),
            dead_letters: config.dead_letter_queue_url.clone(),
        };
        let queue = SqsQueue::new(aws_sdk_sqs::Client::new(&sdk), urls, config.time_scale);
        Cloud {
            clock: Arc::new(MachineClock::new(config.time_scale)),
            entropy: Arc::new(OsEntropy),
            queue: Arc::new(queue),
            sdk,
            time,
            config,
        }
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn sdk(&self) -> &SdkConfig {
        &self.sdk
    }

    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    #[must_use]
    pub fn queue(&self) -> Arc<SqsQueue> {
        Arc::clone(&self.queue)
    }

    /// Whoever calls this brings what makes the way out to the internet, from how long an attempt may take and where it may go.
    pub fn engine<E: Error>(
        &self,
        egress_policy: impl FnOnce(Duration, EgressPolicy, Arc<dyn Clock>) -> Result<Arc<dyn Sender>, E>,
    ) -> Result<Engine, Faults> {
        let sender =
            egress_policy(self.config.settings.http_timeout, self.config.egress_policy.clone(), self.clock())
                .map_err(|error| Faults::of("attempts cannot be made", &error))?;
        // Whoever leases something holds it no longer than an invocation can last here.
        let settings = Settings { function_timeout: self.time, ..self.config.settings.clone() };
        let dynamo = aws_sdk_dynamodb::Client::new(&self.sdk);
        let store = DynamoStore::new(dynamo, &self.config.table, Arc::clone(&self.entropy))
            .with_patience(settings.time_to_record());
        let ports = Ports {
            store: Arc::new(store),
            queue: self.queue(),
            sender,
            clock: self.clock(),
            entropy: Arc::clone(&self.entropy),
        };
        Ok(Engine::new(ports, settings))
    }
}

/// AWS usually answers within milliseconds. One request that hangs must not take all the time that a function has.
fn timeouts(time: Duration) -> Timeouts {
    let operation = Duration::from_secs(6).min(time / 2);
    Timeouts { attempt: operation / 2, operation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_request_leaves_time_for_others() {
        let usual = timeouts(Duration::from_secs(30));
        assert_eq!((usual.attempt, usual.operation), (Duration::from_secs(3), Duration::from_secs(6)));
        let short = timeouts(Duration::from_secs(3));
        assert_eq!(short.operation, Duration::from_millis(1_500));
    }
}
