//! Builds the ports on AWS from the configuration.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use holdfast_core::engine::{Engine, Ports, Settings};
#[cfg(feature = "feed")]
use holdfast_core::ports::Feed;
use holdfast_core::ports::{Clock, Entropy, NotCounted, Sender};
use holdfast_core::rules::guard::EgressPolicy;
use holdfast_host::{MachineClock, OsEntropy};

use crate::config::{Config, Faults};
use crate::connect::{self, Timeouts};
#[cfg(feature = "feed")]
use crate::feed::SnsFeed;
use crate::queue::SqsQueue;
use crate::store::DynamoStore;

/// A function's connections to AWS. Created once, at cold start, without a request.
pub struct Cloud {
    config: Config,
    /// How long one invocation has.
    function_timeout: Duration,
    pub(crate) sdk: SdkConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    queue: Arc<SqsQueue>,
}

impl Cloud {
    #[must_use]
    pub fn connect(config: Config, function_timeout: Duration) -> Cloud {
        let sdk = connect::from_environment(timeouts(function_timeout));
        let urls = config.queue_urls.clone();
        let queue = SqsQueue::new(aws_sdk_sqs::Client::new(&sdk), urls, config.time_scale);
        Cloud {
            clock: Arc::new(MachineClock::new(config.time_scale)),
            entropy: Arc::new(OsEntropy),
            queue: Arc::new(queue),
            sdk,
            function_timeout,
            config,
        }
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn queue(&self) -> Arc<SqsQueue> {
        Arc::clone(&self.queue)
    }

    /// The feed of events for operators, if there is a topic for it. Makes no request.
    #[cfg(feature = "feed")]
    #[must_use]
    pub fn feed(&self, topic_arn: Option<&str>) -> Option<Arc<dyn Feed>> {
        topic_arn.map(|arn| Arc::new(SnsFeed::new(&self.sdk, arn)) as Arc<dyn Feed>)
    }

    /// `sender` builds the sender of attempts from their timeout, the egress policy and the clock.
    pub fn engine<E: Error>(
        &self,
        sender: impl FnOnce(Duration, EgressPolicy, Arc<dyn Clock>) -> Result<Arc<dyn Sender>, E>,
    ) -> Result<Engine, Faults> {
        let sender = sender(
            self.config.settings.http_timeout,
            self.config.egress_policy.clone(),
            Arc::clone(&self.clock),
        )
        .map_err(|error| Faults::of("attempts cannot be made", &error))?;
        // A lease lasts no longer than an invocation of this function.
        let settings = Settings { function_timeout: self.function_timeout, ..self.config.settings.clone() };
        let dynamo = aws_sdk_dynamodb::Client::new(&self.sdk);
        let store = DynamoStore::new(dynamo, &self.config.table, Arc::clone(&self.entropy))
            .with_count_timeout(settings.time_to_record());
        let ports = Ports {
            store: Arc::new(store),
            queue: self.queue(),
            backlog: Arc::new(NotCounted),
            sender,
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
        };
        Ok(Engine::new(ports, settings))
    }
}

/// AWS usually responds within milliseconds. One request that hangs must not take all of a function's time.
fn timeouts(function_timeout: Duration) -> Timeouts {
    let operation = Duration::from_secs(6).min(function_timeout / 2);
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
