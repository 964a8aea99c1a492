use clap::{ArgGroup, Args, Subcommand};

#[derive(Args)]
pub(crate) struct DeadLettersArgs {
    #[command(subcommand)]
    pub(super) ask: Ask,
}

#[derive(Subcommand)]
pub(super) enum Ask {
    /// One line for each message: id, time, receipts, queue, what it is about, and why it is here. Never a payload.
    List(List),
    /// Everything about one message, with its text, which may contain the payload of an event.
    Show(Show),
    /// Send messages back to the queues that they belong to, and delete them here.
    Requeue(Requeue),
}

/// Region, credentials and endpoint are found as the AWS command line finds them: AWS_REGION, AWS_PROFILE and so on.
#[derive(Args)]
pub(super) struct DeadLetterQueue {
    /// The dead-letter queue.
    #[arg(long = "queue-url", value_name = "URL", env = "HOLDFAST_DEAD_LETTER_QUEUE_URL")]
    pub(super) url: String,
}

#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// How many messages are shown at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
}

#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// The id of a message, from `list`.
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).args(["ids", "all"]))]
pub(super) struct Requeue {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// The ids of messages, from `list`.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// All messages, instead of some by their ids.
    #[arg(long)]
    pub(super) all: bool,
    /// How many messages `--all` means at most.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) limit: usize,
    /// Where first attempts go.
    #[arg(long, value_name = "URL", env = "HOLDFAST_FIRST_QUEUE_URL")]
    pub(super) first_queue_url: Option<String>,
    /// Where all other messages go.
    #[arg(long, value_name = "URL", env = "HOLDFAST_RETRY_QUEUE_URL")]
    pub(super) retry_queue_url: Option<String>,
    /// Where every message goes, whatever it is: needed for messages that this Holdfast cannot read.
    #[arg(long, value_name = "URL")]
    pub(super) to: Option<String>,
}
