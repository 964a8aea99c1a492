//! On one machine there is no dead-letter queue: a message that cannot be read stays in its queue, in the data folder.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use holdfast_core::ports::QueueName;
use holdfast_embedded::{UnreadableRow, list_unreadable};

use super::{MAX_WHY_CHARS, on_one_line};

pub(super) fn list(data: &Path, limit: usize) -> Result<()> {
    let found = list_unreadable(data, limit)?;
    let lines: String = found.iter().map(|row| line(row) + "\n").collect();
    // Not `println!`, which panics when the reader of a pipe has closed it.
    std::io::stdout().write_all(lines.as_bytes())?;
    match found.len() {
        0 => eprintln!("all messages can be read"),
        count if count == limit => eprintln!("there may be more; show more than {count} with --limit"),
        _ => {}
    }
    Ok(())
}

/// One line, without anything of a payload.
fn line(row: &UnreadableRow) -> String {
    let from = if row.queue == QueueName::Retry { "retry" } else { "first" };
    let why: String = row.why.to_string().chars().take(MAX_WHY_CHARS).collect();
    on_one_line(&format!("{}  due={}  from={from}  bytes={}  why: {why}", row.id, row.deliver_at, row.bytes))
}
