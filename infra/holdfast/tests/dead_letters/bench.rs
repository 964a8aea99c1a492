//! Three queues for one test, and the command under test.

use std::process::{Command, Output};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName, QueueAttributeName};
use holdfast_aws::connect::{self, Timeouts};
use holdfast_aws::queue::{QueueUrls, SqsQueue, to_text};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::records::{FirstAttempt, Message};
use holdfast_core::time::Timestamp;

pub(crate) struct Bench {
    pub(crate) client: Client,
    pub(crate) urls: QueueUrls,
    pub(crate) queue: SqsQueue,
    pub(crate) endpoint: String,
}

/// The command's output, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        #[expect(clippy::disallowed_methods, reason = "tests have no other configuration")]
        let endpoint = std::env::var("HOLDFAST_AWS_ENDPOINT")
            .expect("HOLDFAST_AWS_ENDPOINT is not set: run infra/test, which starts the emulator");
        let timeouts = Timeouts { attempt: Duration::from_secs(30), operation: Duration::from_secs(90) };
        let client = Client::new(&connect::to_emulator(&endpoint, timeouts).await);
        // Random, because the emulator keeps the queues of earlier runs.
        let name = format!("letters-{:016x}", fastrand::u64(..));
        let create = async |which: &str| {
            let request = client.create_queue().queue_name(format!("{name}-{which}"));
            request.send().await.unwrap().queue_url.unwrap()
        };
        let urls = QueueUrls {
            first: create("first").await,
            slow: create("slow").await,
            retry: create("retry").await,
            dead_letters: create("dead").await,
        };
        let queue = SqsQueue::new(client.clone(), urls.clone(), 1);
        Bench { client, urls, queue, endpoint }
    }

    /// `holdfast dead-letters …` with only the environment variables that it needs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command
            .arg("dead-letters")
            .args(args)
            .env_clear()
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("HOLDFAST_DEAD_LETTER_QUEUE_URL", &self.urls.dead_letters);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        output(&mut self.command(args))
    }

    /// As an operator who has named all queues once and for all.
    pub(crate) fn requeue(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.command(&["requeue"]);
        command
            .args(args)
            .env("HOLDFAST_FIRST_QUEUE_URL", &self.urls.first)
            .env("HOLDFAST_RETRY_QUEUE_URL", &self.urls.retry);
        output(&mut command)
    }

    /// The lines of a list, which must end well.
    pub(crate) fn list(&self) -> Vec<String> {
        let output = self.run(&["list"]);
        assert!(output.ok, "{output:?}");
        output.out.lines().map(str::to_owned).collect()
    }

    /// The id of the one message whose line contains `about`.
    pub(crate) fn id_of(&self, about: &str) -> String {
        let lines = self.list();
        let of: Vec<_> = lines.iter().filter(|line| line.contains(about)).collect();
        assert_eq!(of.len(), 1, "{lines:#?}");
        of[0].split_whitespace().next().unwrap().to_owned()
    }

    /// All messages that can be received from a queue, with all attributes.
    pub(crate) async fn on(&self, url: &str) -> Vec<SqsMessage> {
        let mut all = Vec::new();
        loop {
            let request = self
                .client
                .receive_message()
                .queue_url(url)
                .max_number_of_messages(10)
                .message_system_attribute_names(MessageSystemAttributeName::All);
            match request.send().await.unwrap().messages {
                Some(some) if !some.is_empty() => all.extend(some),
                _ => return all,
            }
        }
    }

    /// Makes SQS move messages to the dead-letter queue after one receipt from the retry queue.
    pub(crate) async fn move_after_one_receipt(&self) {
        let request = self
            .client
            .get_queue_attributes()
            .queue_url(&self.urls.dead_letters)
            .attribute_names(QueueAttributeName::QueueArn);
        let arn = request.send().await.unwrap().attributes.unwrap().remove(&QueueAttributeName::QueueArn);
        let policy = format!(r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":"1"}}"#, arn.unwrap());
        let request = self
            .client
            .set_queue_attributes()
            .queue_url(&self.urls.retry)
            .attributes(QueueAttributeName::RedrivePolicy, policy);
        request.send().await.unwrap();
    }
}

pub(crate) fn output(command: &mut Command) -> CommandOutput {
    let Output { status, stdout, stderr } = command.output().expect("the binary of this package starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let output = CommandOutput { ok: status.success(), out: text(stdout), err: text(stderr) };
    assert!(!output.err.contains("panicked"), "{output:?}");
    output
}

pub(crate) fn first_attempt(event: &str, body: &'static str) -> FirstAttempt {
    FirstAttempt {
        trace: None,
        key: DeliveryKey {
            tenant: "acme".into(),
            event_key: EventKey::of(event, Timestamp::ZERO),
            subscription_id: SubscriptionId::new([1; 16]),
        },
        event_id: event.to_owned(),
        event_type: "order.created".to_owned(),
        accepted_at: Timestamp::ZERO,
        url_id: UrlId::of("https://example.com/"),
        body: Some(body.into()),
        again: false,
    }
}

pub(crate) fn probe() -> Message {
    Message::Probe { tenant: "acme".into(), url_id: UrlId::of("https://example.com/") }
}

pub(crate) fn text_of(message: &Message) -> String {
    to_text(message.encode())
}
