//! `holdfast audit`

use anyhow::Result;
use clap::Args;
use holdfast_core::time::Timestamp;
use serde_json::Value;

use super::api::Api;
use super::output::{Column, Output, text, time};
use super::when;

#[derive(Args)]
pub(crate) struct Audit {
    /// Only changes since: a time, or how long ago, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    since: Option<Timestamp>,
    /// Only changes until: a time, or how long ago, such as 30m.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    until: Option<Timestamp>,
    /// Oldest first, instead of newest first.
    #[arg(long)]
    oldest_first: bool,
    /// Maximum number of changes to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

const COLUMNS: &[Column] = &[
    ("WHEN", |item| time(&item["at"])),
    ("ACTION", |item| text(&item["action"])),
    ("TARGET", |item| text(&item["target"])),
    ("KEY", |item| text(&item["key_id"])),
    ("ROLE", |item| text(&item["role"])),
    ("CHANGED", |item| changed(item)),
    ("REASON", |item| text(&item["reason"])),
];

fn changed(item: &Value) -> String {
    let names: Vec<&str> =
        item["changed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

pub(super) async fn run(command: Audit, api: &Api, output: &Output) -> Result<()> {
    let parameters = [
        ("since", command.since.map(|since| since.to_string())),
        ("until", command.until.map(|until| until.to_string())),
        ("order", command.oldest_first.then(|| "asc".to_owned())),
    ];
    let found = api.list("/v1/audit", &parameters, command.limit as usize).await?;
    output.list(&found, COLUMNS, "There are no such changes.")
}
