//! Receives, sends and deletes, in this order. A crash in between leaves a message on both queues, and handling it twice does no
//! harm: a first attempt is marked `again`, and tickets are only hints.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use holdfast_aws::queue::{DeadLetter, DeadLetters, group_of, read_message, to_text};
use holdfast_core::ports::QueueName;
use holdfast_core::records::{FirstAttempt, Message};

use super::args::Requeue;
use super::sqs::{MAX_SEARCHED, not_found, open, trouble};

pub(super) async fn requeue(args: Requeue) -> Result<()> {
    let letters = open(&args.queue).await?;
    let found = find(&letters, &args).await.with_context(|| trouble(&args.queue))?;
    let missing = args.ids.iter().filter(|id| found.iter().all(|letter| letter.id != **id));
    let mut faults: Vec<String> = missing.map(|id| not_found(id, &found)).collect();
    let (chosen, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|letter| args.all || args.ids.contains(&letter.id));
    let mut left = others;
    let mut count = 0;
    for (place, letter) in chosen.iter().enumerate() {
        let message = match requeued(letter, &args) {
            Ok(message) => message,
            Err(fault) => {
                faults.push(format!("{}: {fault}", letter.id));
                left.push(letter);
                continue;
            }
        };
        if let Err(error) = send_back(&letters, letter, &message).await {
            // Sending the others would most likely fail too.
            faults.push(format!("{error:#}"));
            left.extend(&chosen[place..]);
            break;
        }
        count += 1;
        println!("{} sent to {}", letter.id, message.url);
    }
    letters.give_back(left).await.with_context(|| trouble(&args.queue))?;
    if args.all && found.len() == args.limit {
        eprintln!("there may be more; run the command again, or with a higher --limit");
    }
    eprintln!("requeued: {count}");
    for fault in &faults {
        eprintln!("holdfast: {fault}");
    }
    if !faults.is_empty() {
        bail!("some messages were not requeued");
    }
    Ok(())
}

async fn find(letters: &DeadLetters, args: &Requeue) -> Result<Vec<DeadLetter>> {
    // All are received before the first is sent, so that a message that dies again at once is not requeued again.
    if args.all {
        return Ok(letters.receive(args.limit, |_| false).await?);
    }
    let mut missing: HashSet<&str> = args.ids.iter().map(String::as_str).collect();
    let enough = |letter: &DeadLetter| {
        missing.remove(letter.id.as_str());
        missing.is_empty()
    };
    Ok(letters.receive(MAX_SEARCHED, enough).await?)
}

/// The message to send for a dead letter, and its queue.
struct Requeued {
    url: String,
    text: String,
    group: Option<String>,
}

fn requeued(letter: &DeadLetter, args: &Requeue) -> Result<Requeued> {
    let url = |usual: Option<&String>, missing| args.to.as_ref().or(usual).cloned().context(missing);
    let group = |queue, message: &Message| Some(group_of(queue, message));
    match read_message(&letter.text) {
        Ok(Message::FirstAttempt(first)) => {
            let missing = "a first attempt: give its queue with --first-queue-url";
            // It may have been attempted already: its receiver must read the record first.
            let message = Message::FirstAttempt(FirstAttempt { again: true, ..first });
            let url = url(args.first_queue_url.as_ref(), missing)?;
            Ok(Requeued { url, group: group(QueueName::First, &message), text: to_text(message.encode()) })
        }
        Ok(ticket) => {
            let missing = "not a first attempt: give its queue with --retry-queue-url";
            let url = url(args.retry_queue_url.as_ref(), missing)?;
            Ok(Requeued { url, group: group(QueueName::Retry, &ticket), text: letter.text.clone() })
        }
        Err(_) => {
            let url = url(None, "this release cannot read it: give its queue with --to")?;
            Ok(Requeued { url, group: letter.group.clone(), text: letter.text.clone() })
        }
    }
}

async fn send_back(letters: &DeadLetters, letter: &DeadLetter, message: &Requeued) -> Result<()> {
    letters
        .send_to(&message.url, &message.text, message.group.as_deref())
        .await
        .with_context(|| format!("{}: not sent to {}", letter.id, message.url))?;
    letters.delete(letter).await.with_context(|| {
        format!(
            "{}: sent to {}, but not deleted here; requeueing it again does no harm",
            letter.id, message.url
        )
    })
}
