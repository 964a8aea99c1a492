//! `holdfast events`

use anyhow::Result;
use clap::{Args, Subcommand};
use holdfast_core::time::Timestamp;

use super::api::{Api, path};
use super::output::{Column, Output, text, time};
use super::when;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Events {
    #[command(subcommand)]
    command: Option<EventsCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Subcommand)]
enum EventsCommand {
    /// Show an event with its deliveries.
    Get { id: String },
}

#[derive(Args)]
struct List {
    /// Only events of this type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events about this subject.
    #[arg(long)]
    subject: Option<String>,
    /// Only those accepted since: a time, or how long ago, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    since: Option<Timestamp>,
    /// Only those accepted until: a time, or how long ago, such as 30m.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    until: Option<Timestamp>,
    /// Maximum number of events to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

const COLUMNS: &[Column] = &[
    ("ACCEPTED", |item| time(&item["accepted_at"])),
    ("TYPE", |item| text(&item["type"])),
    ("SUBJECT", |item| text(&item["subject"])),
    ("DELIVERIES", |item| text(&item["deliveries"])),
    ("ID", |item| text(&item["id"])),
];

pub(super) async fn run(command: Events, api: &Api, output: &Output) -> Result<()> {
    if let Some(EventsCommand::Get { id }) = command.command {
        return output.object(&api.get(&path(&["v1", "events", &id], ""), &[]).await?);
    }
    let list = command.list;
    let parameters = [
        ("type", list.event_type),
        ("subject", list.subject),
        ("since", list.since.map(|since| since.to_string())),
        ("until", list.until.map(|until| until.to_string())),
    ];
    let found = api.list("/v1/events", &parameters, list.limit as usize).await?;
    output.list(&found, COLUMNS, "There are no such events.")
}
