//! `holdfast subscriptions`

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::api::Api;
use super::events::read_data;
use super::output::{Column, Output, text};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Subscriptions {
    #[command(subcommand)]
    command: Option<SubscriptionsCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Args)]
struct List {
    /// Maximum number of subscriptions to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

#[derive(Subcommand)]
enum SubscriptionsCommand {
    /// Subscribe a URL. Prints the signing secret, once.
    Create(Create),
    /// Show a subscription.
    Get { id: String },
    /// Change a subscription.
    Update(Update),
    /// Delete a subscription. Its waiting and parked deliveries become dead.
    Delete { id: String },
    /// Replace the signing secret. Prints the new one, once; the old one stays valid for signing for a while.
    RotateSecret { id: String },
    /// Send a test event now, and show the response.
    Ping(Ping),
    /// Say which subscriptions an event would match. Nothing is sent.
    Test(Test),
}

#[derive(Args)]
struct Create {
    /// The URL to deliver to.
    url: String,
    #[command(flatten)]
    fields: Fields,
    /// A signing secret of your own (whsec_…), in a file [default: a new one]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,
}

#[derive(Args)]
struct Update {
    id: String,
    /// Deliver to this URL instead.
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    fields: Fields,
    /// Whether it gets deliveries.
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
}

#[derive(Args)]
struct Fields {
    /// An event type to deliver, such as order.created, order.* or * for all. Can be given more than once [default for a new one: *]
    #[arg(long = "event-type", value_name = "TYPE", value_delimiter = ',')]
    event_types: Vec<String>,
    /// A filter as JSON, such as '{"field": "data.total", "op": "gte", "value": 100}'. Can be given more than once; all must match.
    #[arg(long = "filter", value_name = "JSON")]
    filters: Vec<String>,
    #[arg(long)]
    description: Option<String>,
}

#[derive(Args)]
struct Ping {
    id: String,
    /// Also if the URL is disabled.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct Test {
    /// The type of the event.
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The data: JSON, @FILE, or - for standard input [default: null]
    data: Option<String>,
}

const COLUMNS: &[Column] = &[
    ("ID", |item| text(&item["id"])),
    ("URL", |item| text(&item["url"])),
    ("EVENT TYPES", |item| text(&item["event_types"])),
    ("FILTERS", |item| item["filters"].as_array().map_or(0, Vec::len).to_string()),
    ("ACTIVE", |item| if item["active"] == true { "yes" } else { "no" }.to_owned()),
];

const TEST_COLUMNS: &[Column] = &[
    ("MATCHES", |item| if item["matches"] == true { "yes" } else { "no" }.to_owned()),
    ("SUBSCRIPTION", |item| text(&item["subscription_id"])),
    ("URL", |item| text(&item["url"])),
    ("WHY NOT", why_not),
];

fn why_not(item: &Value) -> String {
    let refused = &item["refused_by"];
    match item["reason"].as_str() {
        None => String::new(),
        Some("filter") => {
            let filter = &refused["filter"];
            let condition = [&filter["field"], &filter["op"], &filter["value"]].map(text).join(" ");
            format!("{condition}: found {}", text(&refused["found"]))
        }
        Some("type") => "other event types".to_owned(),
        Some(reason) => reason.to_owned(),
    }
}

pub(super) async fn run(command: Subscriptions, api: &Api, output: &Output) -> Result<()> {
    let Some(command) = command.command else {
        let list = api.list("/v1/subscriptions", &[], command.list.limit as usize).await?;
        return output.list(
            &list,
            COLUMNS,
            "There are no subscriptions; `holdfast subscriptions create` makes one.",
        );
    };
    match command {
        SubscriptionsCommand::Create(create) => {
            let body = create.body()?;
            output.object(&api.post("/v1/subscriptions", &body).await?)
        }
        SubscriptionsCommand::Get { id } => output.object(&api.get(&path(&id, ""), &[]).await?),
        SubscriptionsCommand::Update(update) => {
            let (path, body) = (path(&update.id, ""), update.body()?);
            output.object(&api.patch(&path, &body).await?)
        }
        SubscriptionsCommand::Delete { id } => {
            let answer = api.delete(&path(&id, "")).await?;
            output.done(&answer, &format!("{id} is deleted."))
        }
        SubscriptionsCommand::RotateSecret { id } => {
            output.object(&api.post(&path(&id, "/rotate-secret"), &json!({})).await?)
        }
        SubscriptionsCommand::Ping(Ping { id, force }) => {
            let body = if force { json!({ "force": true }) } else { json!({}) };
            output.object(&api.post(&path(&id, "/ping"), &body).await?)
        }
        SubscriptionsCommand::Test(test) => {
            let data = read_data(test.data.as_deref().unwrap_or("null"))?;
            let body = json!({ "type": test.event_type, "data": data });
            let list = api.post("/v1/subscriptions/test", &body).await?;
            output.list(&list, TEST_COLUMNS, "There are no subscriptions.")
        }
    }
}

fn path(id: &str, action: &str) -> String {
    super::api::path(&["v1", "subscriptions", id], action)
}

impl Create {
    fn body(self) -> Result<Value> {
        let mut body = self.fields.body()?;
        body.insert("url".to_owned(), self.url.into());
        body.entry("event_types").or_insert_with(|| json!(["*"]));
        if let Some(file) = self.secret_file {
            let secret = std::fs::read_to_string(&file)
                .with_context(|| format!("--secret-file: cannot read {}", file.display()))?;
            body.insert("secret".to_owned(), secret.trim().into());
        }
        Ok(body.into())
    }
}

impl Update {
    fn body(self) -> Result<Value> {
        let mut body = self.fields.body()?;
        body.extend(self.url.map(|url| ("url".to_owned(), url.into())));
        body.extend(self.active.map(|active| ("active".to_owned(), active.into())));
        anyhow::ensure!(!body.is_empty(), "nothing to change; name what to change, such as --active false");
        Ok(body.into())
    }
}

impl Fields {
    /// Those that were given.
    fn body(self) -> Result<Map<String, Value>> {
        let mut body = Map::new();
        if !self.event_types.is_empty() {
            body.insert("event_types".to_owned(), self.event_types.into());
        }
        if !self.filters.is_empty() {
            let filters: Result<Vec<Value>> =
                self.filters.iter().map(|filter| parse_filter(filter)).collect();
            body.insert("filters".to_owned(), filters?.into());
        }
        body.extend(self.description.map(|text| ("description".to_owned(), text.into())));
        Ok(body)
    }
}

fn parse_filter(filter: &str) -> Result<Value> {
    serde_json::from_str(filter).with_context(|| {
        format!("--filter {filter}: not JSON; write it such as '{{\"field\": \"data.total\", \"op\": \"gte\", \"value\": 100}}'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_wanted_and_found() {
        let filter = json!({"field": "data.total", "op": "gte", "value": 100});
        let refused = json!({"reason": "filter", "refused_by": {"filter": filter, "found": 5}});
        assert_eq!(why_not(&refused), "data.total gte 100: found 5");
        assert_eq!(why_not(&json!({"reason": "type", "refused_by": null})), "other event types");
        assert_eq!(why_not(&json!({"reason": "inactive"})), "inactive");
        assert_eq!(why_not(&json!({"reason": null})), "");
    }
}
