//! `holdfast keys`

use anyhow::Result;
use clap::{Args, Subcommand};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value};

use super::api::{Api, path};
use super::output::{Column, Output, text, time};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: Option<KeysCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Args)]
struct List {
    /// Maximum number of keys to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Create a key for the tenant that --tenant names. Prints it, once.
    Create(Create),
    /// Delete a key. It stops working within 5 seconds.
    Delete { id: String },
}

#[derive(Args)]
struct Create {
    /// What the key may do: ingest (post events), viewer (read), admin (everything of its tenant), operator (everything).
    #[arg(long)]
    role: String,
    #[arg(long)]
    description: Option<String>,
    /// When it expires, in RFC 3339 [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    expires_at: Option<Timestamp>,
}

fn parse_time(input: &str) -> Result<Timestamp, String> {
    Timestamp::parse(input).ok_or_else(|| "write a time such as 2026-12-31T00:00:00Z".to_owned())
}

const COLUMNS: &[Column] = &[
    ("ID", |item| text(&item["id"])),
    ("ROLE", |item| text(&item["role"])),
    ("CREATED", |item| time(&item["created_at"])),
    ("EXPIRES", |item| time(&item["expires_at"])),
    ("DESCRIPTION", |item| text(&item["description"])),
];

pub(super) async fn run(command: Keys, api: &Api, output: &Output) -> Result<()> {
    match command.command {
        None => {
            let list = api.list("/v1/keys", &[], command.list.limit as usize).await?;
            output.list(&list, COLUMNS, "There are no keys.")
        }
        Some(KeysCommand::Create(create)) => {
            let mut body = Map::new();
            body.insert("role".to_owned(), create.role.into());
            body.extend(api.tenant().map(|tenant| ("tenant".to_owned(), tenant.into())));
            body.extend(create.description.map(|text| ("description".to_owned(), text.into())));
            body.extend(create.expires_at.map(|at| ("expires_at".to_owned(), at.to_string().into())));
            output.object(&api.for_all_tenants().post("/v1/keys", &Value::from(body)).await?)
        }
        Some(KeysCommand::Delete { id }) => {
            let answer = api.for_all_tenants().delete(&path(&["v1", "keys", &id], "")).await?;
            output.done(&answer, &format!("{id} is deleted."))
        }
    }
}
