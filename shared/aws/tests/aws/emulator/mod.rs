//! Queues on the emulator.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use holdfast_aws::connect::{self, Timeouts};
use holdfast_aws::queue::QueueUrls;

pub(crate) const TIMEOUTS: Timeouts =
    Timeouts { attempt: Duration::from_secs(30), operation: Duration::from_secs(90) };

/// Where the emulator listens.
pub(crate) fn endpoint() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests have no other configuration")]
    let endpoint = std::env::var("HOLDFAST_AWS_ENDPOINT");
    endpoint.expect("HOLDFAST_AWS_ENDPOINT is not set: run infra/test, which starts the emulator")
}

/// New queues for each test.
pub(crate) async fn queues(visibility: Duration) -> (Client, QueueUrls) {
    let client = Client::new(&connect::to_emulator(&endpoint(), TIMEOUTS).await);
    // Random, because the emulator keeps the queues of earlier runs.
    let name = format!("test-{:016x}", getrandom::u64().unwrap());
    let create = async |which: &str| {
        let request = client
            .create_queue()
            .queue_name(format!("{name}-{which}"))
            .attributes(QueueAttributeName::VisibilityTimeout, visibility.as_secs().to_string());
        request.send().await.unwrap().queue_url.unwrap()
    };
    let urls = QueueUrls {
        first: create("first").await,
        slow: create("slow").await,
        retry: create("retry").await,
        dead_letters: create("dead").await,
    };
    (client, urls)
}
