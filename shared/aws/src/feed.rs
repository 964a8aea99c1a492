//! Holdfast's own events for operators, on an SNS topic.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sns::Client;
use aws_sdk_sns::error::BuildError;
use aws_sdk_sns::types::{MessageAttributeValue, PublishBatchRequestEntry};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Feed, FeedEvent, chain};
use tokio::time::timeout;

/// SNS takes no more at a time.
const MAX_BATCH: usize = 10;
/// The messages of the same batch wait for it.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

pub struct SnsFeed {
    sdk: SdkConfig,
    topic_arn: String,
    /// Made for the first event: most invocations have none.
    client: OnceLock<Client>,
}

impl SnsFeed {
    #[must_use]
    pub fn new(sdk: &SdkConfig, topic_arn: &str) -> SnsFeed {
        SnsFeed { sdk: sdk.clone(), topic_arn: topic_arn.to_owned(), client: OnceLock::new() }
    }

    /// Returns how many of these, at most ten, were not published.
    async fn publish_batch(&self, tenant: &Tenant, events: &[FeedEvent]) -> usize {
        let entries: Result<Vec<_>, BuildError> =
            events.iter().enumerate().map(|(number, event)| entry(number, tenant, event)).collect();
        let client = self.client.get_or_init(|| Client::new(&self.sdk));
        let publish = client.publish_batch().topic_arn(&self.topic_arn);
        let sent = match entries {
            Ok(entries) => publish.set_publish_batch_request_entries(Some(entries)).send().await,
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(output) => output.failed().len(),
            Err(error) => {
                tracing::warn!(%tenant, error = chain(&error), events = events.len(), "events.not_published");
                events.len()
            }
        }
    }
}

#[async_trait]
impl Feed for SnsFeed {
    async fn publish(&self, tenant: &Tenant, events: Vec<FeedEvent>) -> usize {
        let mut left = events.len();
        let publishing = async {
            let mut failed = 0;
            for batch in events.chunks(MAX_BATCH) {
                failed += self.publish_batch(tenant, batch).await;
                left -= batch.len();
            }
            failed
        };
        match timeout(PUBLISH_TIMEOUT, publishing).await {
            Ok(failed) => failed,
            Err(_) => {
                tracing::warn!(%tenant, events = left, "events.publish_late");
                left
            }
        }
    }
}

/// Subscriptions of the topic can filter by the attributes.
fn entry(number: usize, tenant: &Tenant, event: &FeedEvent) -> Result<PublishBatchRequestEntry, BuildError> {
    let text = |value: &str| MessageAttributeValue::builder().data_type("String").string_value(value).build();
    PublishBatchRequestEntry::builder()
        .id(number.to_string())
        .message(&event.json)
        .message_attributes("type", text(&event.event_type)?)
        .message_attributes("tenant", text(tenant.as_str())?)
        .build()
}
