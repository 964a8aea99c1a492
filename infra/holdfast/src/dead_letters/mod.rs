//! `holdfast dead-letters`: what became of messages that Holdfast could not handle, and the way back for them.
//!
//! SQS has no list and finds nothing by id: to look at messages is to receive them, which hides them from everybody else.
//! They are given back as soon as they were looked at, and come back by themselves after a minute should that fail.

mod args;
mod requeue;
mod words;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::Client;
use holdfast_aws::connect::{self, Timeouts};
use holdfast_aws::queue::{DeadLetter, DeadLetters};

pub(crate) use args::DeadLettersArgs;
use args::{Ask, DeadLetterQueue, List, Show};

const TIMEOUTS: Timeouts = Timeouts { attempt: Duration::from_secs(10), operation: Duration::from_secs(30) };

/// How many messages are received at most to find one by its id.
const SEARCHED: usize = 10_000;

pub(crate) async fn run(args: DeadLettersArgs) -> Result<()> {
    match args.ask {
        Ask::List(args) => list(args).await,
        Ask::Show(args) => show(args).await,
        Ask::Requeue(args) => requeue::requeue(args).await,
    }
}

async fn list(args: List) -> Result<()> {
    let letters = open(&args.queue).await?;
    let found = letters.receive(args.limit, |_| false).await.with_context(|| trouble(&args.queue))?;
    letters.give_back(&found).await.with_context(|| trouble(&args.queue))?;
    let lines: String = found.iter().map(|letter| words::line(letter) + "\n").collect();
    // Not `println!`, which panics when the reader of a pipe has seen enough.
    std::io::stdout().write_all(lines.as_bytes())?;
    match found.len() {
        0 => eprintln!("no dead letters (or all of them are being looked at by somebody else just now)"),
        count if count == args.limit => eprintln!("there may be more: --limit shows more than {count}"),
        _ => {}
    }
    Ok(())
}

async fn show(args: Show) -> Result<()> {
    let letters = open(&args.queue).await?;
    let found = letters.receive(SEARCHED, |letter| letter.id == args.id).await;
    let found = found.with_context(|| trouble(&args.queue))?;
    letters.give_back(&found).await.with_context(|| trouble(&args.queue))?;
    match found.iter().find(|letter| letter.id == args.id) {
        Some(letter) => Ok(std::io::stdout().write_all(words::everything(letter).as_bytes())?),
        None => bail!(not_found(&args.id, &found)),
    }
}

async fn open(queue: &DeadLetterQueue) -> Result<DeadLetters> {
    let config = connect::from_profile(TIMEOUTS).await;
    if config.region().is_none() {
        bail!("no AWS region: set AWS_REGION, or a region in the profile that AWS_PROFILE names");
    }
    Ok(DeadLetters::new(Client::new(&config), queue.url.clone()))
}

/// What to look at when AWS does not do what it was asked.
fn trouble(queue: &DeadLetterQueue) -> String {
    format!("{}: check --queue-url, the AWS region and the credentials", queue.url)
}

fn not_found(id: &str, found: &[DeadLetter]) -> String {
    let count = found.len();
    format!(
        "no message {id} among the {count} that could be received. `holdfast dead-letters list` shows the ids; a message \
         that somebody else is looking at comes back within a minute"
    )
}
