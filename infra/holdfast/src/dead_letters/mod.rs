//! `holdfast dead-letters`: shows messages that Holdfast could not handle, and sends them back to their queues.

mod args;
#[cfg(feature = "aws")]
mod requeue;
#[cfg(feature = "aws")]
mod sqs;
mod stored;
#[cfg(feature = "aws")]
mod words;

use anyhow::Result;

#[cfg(feature = "aws")]
use args::DeadLetterQueue;
pub(crate) use args::DeadLettersCommand;

/// How much of a reason is shown in a list.
const MAX_WHY_CHARS: usize = 200;

#[cfg(feature = "aws")]
pub(crate) async fn run(command: DeadLettersCommand) -> Result<()> {
    match command {
        DeadLettersCommand::List(args) => match (&args.data, args.url) {
            (Some(data), _) => stored::list(data, args.limit),
            (None, Some(url)) => sqs::list(&DeadLetterQueue { url }, args.limit).await,
            (None, None) => anyhow::bail!("give --queue-url or --data"),
        },
        DeadLettersCommand::Show(args) => sqs::show(args).await,
        DeadLettersCommand::Requeue(args) => requeue::requeue(args).await,
    }
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(command: DeadLettersCommand) -> impl Future<Output = Result<()>> {
    std::future::ready(match command {
        DeadLettersCommand::List(args) => stored::list(&args.data, args.limit),
        DeadLettersCommand::OnAws(args) => Err(anyhow::anyhow!(
            "`dead-letters {}`: this `holdfast` was built without AWS support; build it with `--features aws`",
            args.join(" ")
        )),
    })
}

/// Control characters could move the cursor of a terminal.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
