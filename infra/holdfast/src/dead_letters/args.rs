use std::path::PathBuf;

#[cfg(feature = "aws")]
use clap::ArgGroup;
use clap::{Args, Subcommand};

#[cfg(not(feature = "aws"))]
#[derive(Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List the messages in a data folder that cannot be read, one per line: id, time, queue, size and reason. Never shows a payload.
    List(List),
    #[command(external_subcommand)]
    OnAws(Vec<String>),
}

#[cfg(not(feature = "aws"))]
#[derive(Args)]
pub(crate) struct List {
    /// The data folder of one machine, which a server may use meanwhile.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Maximum number of messages to show.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
}

#[cfg(feature = "aws")]
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
#[cfg(feature = "aws")]
#[derive(Args)]
pub(super) struct DeadLetterQueue {
    /// The URL of the dead-letter queue.
    #[arg(long = "queue-url", value_name = "URL", env = "HOLDFAST_DEAD_LETTER_QUEUE_URL")]
    pub(super) url: String,
}

#[cfg(feature = "aws")]
#[derive(Args)]
#[command(group = ArgGroup::new("where").required(true).multiple(true).args(["url", "data"]))]
pub(crate) struct List {
    /// The URL of the dead-letter queue on AWS.
    #[arg(long = "queue-url", value_name = "URL", env = "HOLDFAST_DEAD_LETTER_QUEUE_URL")]
    pub(super) url: Option<String>,
    /// List the messages in the data folder of one machine that cannot be read, instead. A server may use it meanwhile.
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Maximum number of messages to show.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
}

#[cfg(feature = "aws")]
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// The id of a message, from `list`.
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[cfg(feature = "aws")]
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
