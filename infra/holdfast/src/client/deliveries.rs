//! `holdfast deliveries`

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use holdfast_core::time::Timestamp;
use serde_json::Value;

use super::api::Api;
use super::output::{Column, Output, text, time};
use super::{urls, when};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Deliveries {
    #[command(subcommand)]
    command: Option<DeliveriesCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Subcommand)]
enum DeliveriesCommand {
    /// Show a delivery with its attempts.
    Get { id: String },
}

#[derive(Args)]
struct List {
    /// Only those of this event.
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only those to this URL: its id, or the URL itself.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Only those of this subscription.
    #[arg(long, value_name = "ID")]
    subscription: Option<String>,
    /// Only those in this state.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only those accepted since: a time, or how long ago, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    since: Option<Timestamp>,
    /// Only those accepted until: a time, or how long ago, such as 30m.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    until: Option<Timestamp>,
    /// Maximum number of deliveries to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Waiting,
    Parked,
    Delivered,
    Dead,
}

const COLUMNS: &[Column] = &[
    ("STATE", |item| text(&item["state"])),
    ("REASON", |item| text(&item["reason"])),
    ("TYPE", |item| text(&item["type"])),
    ("ACCEPTED", |item| time(&item["accepted_at"])),
    ("DUE", |item| time(&item["due_at"])),
    ("ATTEMPTS", |item| item["attempts"].as_array().map_or(0, Vec::len).to_string()),
    ("LAST ERROR", |item| last_error(item)),
    ("ID", |item| text(&item["id"])),
    ("URL", |item| text(&item["url"])),
];

/// The kind of the last failure: the text is for one delivery.
fn last_error(item: &Value) -> String {
    let last = item["attempts"].as_array().and_then(|attempts| attempts.last());
    let Some(last) = last.filter(|attempt| attempt["outcome"] != "success") else { return "-".to_owned() };
    match (&last["status"], last["error"].as_str()) {
        (Value::Number(status), _) => format!("status {status}"),
        (_, Some(error)) => error.split(':').next().unwrap_or_default().to_owned(),
        _ => text(&last["outcome"]),
    }
}

pub(super) async fn run(command: Deliveries, api: &Api, output: &Output) -> Result<()> {
    if let Some(DeliveriesCommand::Get { id }) = command.command {
        return output.object(&api.get(&super::api::path(&["v1", "deliveries", &id], ""), &[]).await?);
    }
    let list = command.list;
    let url = list.url.as_deref().map(urls::id_of).transpose()?;
    let state =
        list.state.and_then(|state| state.to_possible_value()).map(|state| state.get_name().to_owned());
    let parameters = [
        ("event", list.event),
        ("url", url),
        ("subscription", list.subscription),
        ("state", state),
        ("since", list.since.map(|since| since.to_string())),
        ("until", list.until.map(|until| until.to_string())),
    ];
    let found = api.list("/v1/deliveries", &parameters, list.limit as usize).await?;
    output.list(&found, COLUMNS, "There are no such deliveries.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_error_is_that_of_the_last_attempt() {
        let failed = json!({"outcome": "failure", "status": 503, "error": "status: …"});
        let refused = json!({"outcome": "failure", "status": null, "error": "dns: no such host"});
        let arrived = json!({"outcome": "success", "status": 200, "error": null});
        let lost = json!({"outcome": "interrupted", "status": null, "error": null});
        for (attempts, expected) in [
            (vec![], "-"),
            (vec![&refused, &failed], "status 503"),
            (vec![&failed, &refused], "dns"),
            (vec![&failed, &arrived], "-"),
            (vec![&lost], "interrupted"),
        ] {
            assert_eq!(last_error(&json!({ "attempts": attempts })), expected);
        }
    }
}
