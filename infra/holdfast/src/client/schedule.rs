//! `holdfast schedule`

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use holdfast_core::rules::schedule::Schedule as Rule;
use holdfast_core::time::Timestamp;
use serde_json::{Value, json};

use super::output::{Column, Output, text};
use super::when;

#[derive(Args)]
pub(crate) struct Schedule {
    /// Also print the times, if the first attempt is made at this time.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    from: Option<Timestamp>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[
    ("RETRY", |item| text(&item["retry"])),
    ("AFTER THE FIRST ATTEMPT", |item| text(&item["after"])),
    ("AFTER THE ONE BEFORE", |item| text(&item["gap"])),
    ("DUE AT", |item| text(&item["due_at"])),
];

pub(super) fn run(command: &Schedule) -> Result<()> {
    Output::new(command.json).list(&json!({ "items": retries(command.from) }), COLUMNS, "")
}

fn retries(from: Option<Timestamp>) -> Vec<Value> {
    let rule = Rule::default();
    let mut after = Duration::ZERO;
    let retries = (1..=rule.retries).filter_map(|retry| {
        let gap = rule.gap_before_retry(retry)?;
        after += gap;
        Some(json!({
            "retry": retry,
            "after": readable(after),
            "after_ms": after.as_millis() as u64,
            "gap": readable(gap),
            "gap_ms": gap.as_millis() as u64,
            "due_at": from.map(|from| (from + after).to_string()),
        }))
    });
    retries.collect()
}

/// Hours, minutes and seconds, without what is zero before it.
fn readable(duration: Duration) -> String {
    let secs = duration.as_secs();
    let (hours, minutes, tenths) = (secs / 3_600, secs / 60 % 60, duration.subsec_millis() / 100);
    let seconds = format!("{}.{tenths} s", secs % 60);
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes} min {seconds}"),
        (_, _) => format!("{hours} h {minutes} min {seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_retry_is_due_after_48_hours() {
        let from = Timestamp::parse("2026-01-01T00:00:00Z");
        let retries = retries(from);
        assert_eq!(retries.len(), 11);
        assert_eq!((&retries[0]["after"], &retries[0]["gap_ms"]), (&json!("1 min 24.8 s"), &json!(84_800)));
        assert_eq!(retries[10]["after"], "48 h 13 min 5.6 s");
        assert_eq!(retries[10]["due_at"], "2026-01-03T00:13:05.600Z");
    }

    #[test]
    fn durations_are_readable() {
        for (ms, expected) in [(800, "0.8 s"), (84_800, "1 min 24.8 s"), (3_600_000, "1 h 0 min 0.0 s")] {
            assert_eq!(readable(Duration::from_millis(ms)), expected);
        }
    }
}
