//! The way back. In this order: receive, send, delete. A crash in between leaves a message on both queues, and handling it
//! twice does no harm: a first attempt is marked `again`, and tickets are only hints.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use holdfast_aws::queue::{DeadLetter, DeadLetters, read_message, to_text};
use holdfast_core::records::{FirstAttempt, Message};

use super::args::Requeue;
use super::{SEARCHED, not_found, open, trouble};

pub(super) async fn requeue(args: Requeue) -> Result<()> {
    let letters = open(&args.queue).await?;
    let found = find(&letters, &args).await.with_context(|| trouble(&args.queue))?;
    let mut faults: Vec<String> =
        args.ids.iter().filter(|id| !has(&found, id)).map(|id| not_found(id, &found)).collect();
    let (chosen, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|letter| args.all || args.ids.contains(&letter.id));
    let mut left = others;
    let mut requeued = 0;
    for (place, letter) in chosen.iter().enumerate() {
        let parcel = match parcel(letter, &args) {
            Ok(parcel) => parcel,
            Err(fault) => {
                faults.push(format!("{}: {fault}", letter.id));
                left.push(letter);
                continue;
            }
        };
        if let Err(error) = send_back(&letters, letter, &parcel).await {
            // What AWS refuses once it will most likely refuse for all the others too.
            faults.push(format!("{error:#}"));
            left.extend(&chosen[place..]);
            break;
        }
        requeued += 1;
        println!("{} is back on {}", letter.id, parcel.url);
    }
    letters.give_back(left).await.with_context(|| trouble(&args.queue))?;
    if args.all && found.len() == args.limit {
        eprintln!("there may be more: run this again, or with a higher --limit");
    }
    conclude(requeued, &faults)
}

fn conclude(requeued: usize, faults: &[String]) -> Result<()> {
    eprintln!("requeued: {requeued}");
    for fault in faults {
        eprintln!("holdfast: {fault}");
    }
    if !faults.is_empty() {
        bail!("not everything that was asked for is back");
    }
    Ok(())
}

async fn find(letters: &DeadLetters, args: &Requeue) -> Result<Vec<DeadLetter>> {
    // All are received before the first is sent: one that dies again at once must not go round and round.
    if args.all {
        return Ok(letters.receive(args.limit, |_| false).await?);
    }
    let mut missing: HashSet<&str> = args.ids.iter().map(String::as_str).collect();
    let enough = |letter: &DeadLetter| {
        missing.remove(letter.id.as_str());
        missing.is_empty()
    };
    Ok(letters.receive(SEARCHED, enough).await?)
}

fn has(found: &[DeadLetter], id: &str) -> bool {
    found.iter().any(|letter| letter.id == id)
}

/// What is sent for a dead letter, and where.
struct Parcel {
    url: String,
    text: String,
    group: Option<String>,
}

fn parcel(letter: &DeadLetter, args: &Requeue) -> Result<Parcel> {
    let url = |usual: Option<&String>, missing| args.to.as_ref().or(usual).cloned().context(missing);
    let group = |message: &Message| Some(message.group().to_owned());
    match read_message(&letter.text) {
        Ok(Message::FirstAttempt(first)) => {
            let missing = "a first attempt: say with --first-queue-url where it goes";
            // It may have been attempted before it died: whoever receives it must read the record first.
            let message = Message::FirstAttempt(FirstAttempt { again: true, ..first });
            let url = url(args.first_queue_url.as_ref(), missing)?;
            Ok(Parcel { url, group: group(&message), text: to_text(message.encode()) })
        }
        Ok(ticket) => {
            let missing = "not a first attempt: say with --retry-queue-url where it goes";
            let url = url(args.retry_queue_url.as_ref(), missing)?;
            Ok(Parcel { url, group: group(&ticket), text: letter.text.clone() })
        }
        Err(_) => {
            let url = url(None, "this Holdfast cannot read it: say with --to where it goes")?;
            Ok(Parcel { url, group: letter.group.clone(), text: letter.text.clone() })
        }
    }
}

async fn send_back(letters: &DeadLetters, letter: &DeadLetter, parcel: &Parcel) -> Result<()> {
    letters
        .send_to(&parcel.url, &parcel.text, parcel.group.as_deref())
        .await
        .with_context(|| format!("{}: not sent to {}", letter.id, parcel.url))?;
    letters.delete(letter).await.with_context(|| {
        format!(
            "{}: sent to {}, but still here as well; requeueing it again does no harm",
            letter.id, parcel.url
        )
    })
}
