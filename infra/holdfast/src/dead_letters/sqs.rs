//! The dead-letter queue on AWS.
//!
//! SQS can neither list messages nor find them by id: reading a message means receiving it, which hides it from other readers.
//! Messages are made visible again at once, or by their visibility timeout of a minute if that fails.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::Client;
use holdfast_aws::connect::{self, Timeouts};
use holdfast_aws::queue::{DeadLetter, DeadLetters};

use super::args::{DeadLetterQueue, Show};
use super::words;

const TIMEOUTS: Timeouts = Timeouts { attempt: Duration::from_secs(10), operation: Duration::from_secs(30) };

/// How many messages are received at most to find one by its id.
pub(super) const MAX_SEARCHED: usize = 10_000;

pub(super) async fn list(queue: &DeadLetterQueue, limit: usize) -> Result<()> {
    let letters = open(queue).await?;
    let found = letters.receive(limit, |_| false).await.with_context(|| trouble(queue))?;
    letters.give_back(&found).await.with_context(|| trouble(queue))?;
    let lines: String = found.iter().map(|letter| words::line(letter) + "\n").collect();
    // Not `println!`, which panics when the reader of a pipe has closed it.
    std::io::stdout().write_all(lines.as_bytes())?;
    match found.len() {
        0 => eprintln!("no dead letters (or another reader is looking at all of them now)"),
        count if count == limit => eprintln!("there may be more; show more than {count} with --limit"),
        _ => {}
    }
    Ok(())
}

pub(super) async fn show(args: Show) -> Result<()> {
    let letters = open(&args.queue).await?;
    let found = letters.receive(MAX_SEARCHED, |letter| letter.id == args.id).await;
    let found = found.with_context(|| trouble(&args.queue))?;
    letters.give_back(&found).await.with_context(|| trouble(&args.queue))?;
    match found.iter().find(|letter| letter.id == args.id) {
        Some(letter) => Ok(std::io::stdout().write_all(words::everything(letter).as_bytes())?),
        None => bail!(not_found(&args.id, &found)),
    }
}

pub(super) async fn open(queue: &DeadLetterQueue) -> Result<DeadLetters> {
    let config = connect::from_profile(TIMEOUTS).await;
    if config.region().is_none() {
        bail!("no AWS region: set AWS_REGION, or the region of the profile in AWS_PROFILE");
    }
    Ok(DeadLetters::new(Client::new(&config), queue.url.clone()))
}

/// What to check when a call to AWS fails.
pub(super) fn trouble(queue: &DeadLetterQueue) -> String {
    format!("{}: check --queue-url, the AWS region and the credentials", queue.url)
}

pub(super) fn not_found(id: &str, found: &[DeadLetter]) -> String {
    let count = found.len();
    format!(
        "no message {id} among the {count} that could be received; `holdfast dead-letters list` shows the ids. A message \
         that another reader is looking at is visible again within a minute"
    )
}
