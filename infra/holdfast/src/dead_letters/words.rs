//! Describes dead letters.

use std::fmt::Write;

use holdfast_aws::queue::{DeadLetter, read_message};
use holdfast_core::records::{DeliveryTicket, FirstAttempt, Message, Unreadable};

use super::{MAX_WHY_CHARS, on_one_line};

/// One line, without anything of a payload.
pub(super) fn line(letter: &DeadLetter) -> String {
    let source = letter.source.as_deref().unwrap_or("?");
    // The queue's name is the last part of its ARN.
    let source = source.rsplit(':').next().unwrap_or(source);
    let why: String = why(letter).chars().take(MAX_WHY_CHARS).collect();
    on_one_line(&format!(
        "{}  sent={}  received={}  from={source}  {}  why: {why}",
        letter.id,
        sent_at(letter),
        letter.receive_count,
        about(letter)
    ))
}

/// All that is known. The text comes last, unchanged.
pub(super) fn everything(letter: &DeadLetter) -> String {
    let mut all = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(all, "{:<10}{}", format!("{name}:"), on_one_line(value));
    };
    row("id", &letter.id);
    row("sent", &sent_at(letter));
    row("received", &letter.receive_count.to_string());
    row("from", letter.source.as_deref().unwrap_or("?"));
    row("group", letter.group.as_deref().unwrap_or("-"));
    row("about", &about(letter));
    row("why", why(letter));
    let _ = writeln!(all, "text, {} bytes:\n{}", letter.text.len(), letter.text);
    all
}

fn about(letter: &DeadLetter) -> String {
    match read_message(&letter.text) {
        Ok(Message::FirstAttempt(FirstAttempt { key, url_id, .. })) => {
            format!("first_attempt delivery={} tenant={} url={url_id}", key.id(), key.tenant)
        }
        Ok(Message::Delivery(DeliveryTicket { key, url_id, epoch, n, .. })) => {
            format!("delivery delivery={} tenant={} url={url_id} epoch={epoch} n={n}", key.id(), key.tenant)
        }
        Ok(Message::Probe { tenant, url_id }) => format!("probe tenant={tenant} url={url_id}"),
        Ok(Message::Announce { tenant, url_id }) => format!("announce tenant={tenant} url={url_id}"),
        Ok(Message::Release { tenant, url_id, step, .. }) => {
            format!("release tenant={tenant} url={url_id} step={step}")
        }
        Ok(Message::Job { tenant, id, .. }) => format!("job job={id} tenant={tenant}"),
        Err(Unreadable::Newer(version)) => {
            format!("a message of version {version}, newer than this release")
        }
        Err(Unreadable::Corrupt(_)) => "not a message".to_owned(),
    }
}

fn sent_at(letter: &DeadLetter) -> String {
    letter.sent_at.map_or_else(|| "?".to_owned(), |at| at.to_string())
}

/// The functions give a reason. SQS gives none when it moves a message that was received too often.
fn why(letter: &DeadLetter) -> &str {
    match (&letter.why, &letter.source) {
        (Some(why), _) => why,
        (None, Some(_)) => "received too often without being handled",
        (None, None) => "?",
    }
}
