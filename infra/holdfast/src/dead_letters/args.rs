use clap::{ArgGroup, Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List messages, one per line: id, time, receive count, queue, contents and reason. Never shows a payload.
    List(List),
    /// Show one message with its text, which may contain the payload of an event.
    Show(Show),
    /// Send messages back to their queues and delete them from the dead-letter queue.
    Requeue(Requeue),
}

/// Region, credentials and endpoint are found as by the AWS CLI: AWS_REGION, AWS_PROFILE and so on.
#[derive(Args)]
pub(super) struct DeadLetterQueue {
    /// The URL of the dead-letter queue.
    #[arg(long = "queue-url", value_name = "URL", env = "HOLDFAST_DEAD_LETTER_QUEUE_URL")]
    pub(super) url: String,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// Maximum number of messages to show.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
}

#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// The id of a message, from `list`.
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).args(["ids", "all"]))]
pub(crate) struct Requeue {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// The ids of messages, from `list`.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Requeue all messages.
    #[arg(long)]
    pub(super) all: bool,
    /// Maximum number of messages for `--all`.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) limit: usize,
    /// The queue of first attempts.
    #[arg(long, value_name = "URL", env = "HOLDFAST_FIRST_QUEUE_URL")]
    pub(super) first_queue_url: Option<String>,
    /// The queue of all other messages.
    #[arg(long, value_name = "URL", env = "HOLDFAST_RETRY_QUEUE_URL")]
    pub(super) retry_queue_url: Option<String>,
    /// The queue for every message: required for messages that this release cannot read.
    #[arg(long, value_name = "URL")]
    pub(super) to: Option<String>,
}
