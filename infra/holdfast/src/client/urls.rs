//! `holdfast urls`

use anyhow::{Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use holdfast_core::ids::UrlId;
use holdfast_core::rules::url_form;
use serde_json::{Value, json};

use super::api::Api;
use super::output::{Column, Output, text, time};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Urls {
    #[command(subcommand)]
    command: Option<UrlsCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Args)]
struct List {
    /// Only URLs that keep failing, those that have failed longest first.
    #[arg(long, conflicts_with = "state")]
    failing: bool,
    /// Only URLs in this state.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Maximum number of URLs to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::limit())]
    limit: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Enabled,
    Disabled,
    Frozen,
}

#[derive(Subcommand)]
enum UrlsCommand {
    /// Show a URL with its health and history.
    Get {
        /// Its id (url_…), or the URL itself.
        url: String,
    },
    /// Enable a URL: its parked deliveries are released.
    Enable(Enable),
    /// Disable a URL: its deliveries are parked, and it is probed every 10 minutes.
    Disable(Change),
    /// Freeze a URL: nothing is attempted until it is enabled.
    Freeze(Change),
}

#[derive(Args)]
struct Change {
    /// Its id (url_…), or the URL itself.
    url: String,
    /// The reason, for the history.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Args)]
struct Enable {
    #[command(flatten)]
    change: Change,
    /// Also replay the deliveries that expired while they were parked.
    #[arg(long)]
    replay_expired: bool,
}

const COLUMNS: &[Column] = &[
    ("STATE", |item| text(&item["state"])),
    ("SINCE", |item| time(&item["since"])),
    ("STREAK", |item| text(&item["streak"])),
    ("FAILED", |item| failed(item)),
    ("LAST SUCCESS", |item| time(&item["last_success_at"])),
    ("LAST ERROR", |item| last_error(item)),
    ("NEXT PROBE", |item| time(&item["next_probe_at"])),
    ("ID", |item| text(&item["id"])),
    ("URL", |item| text(&item["url"])),
];

/// Of the attempts in the window.
fn failed(item: &Value) -> String {
    format!("{} of {}", text(&item["window_failures"]), text(&item["window_attempts"]))
}

fn last_error(item: &Value) -> String {
    match (&item["last_error"]["kind"], &item["last_error"]["status"]) {
        (Value::Null, _) => "-".to_owned(),
        (kind, Value::Null) => text(kind),
        (kind, status) => format!("{} {}", text(kind), text(status)),
    }
}

pub(super) async fn run(command: Urls, api: &Api, output: &Output) -> Result<()> {
    match command.command {
        None => list(&command.list, api, output).await,
        Some(UrlsCommand::Get { url }) => output.object(&api.get(&path(&url, "")?, &[]).await?),
        Some(UrlsCommand::Enable(Enable { change, replay_expired })) => {
            let mut body = change.body();
            if replay_expired {
                body["replay_expired"] = true.into();
            }
            let answer = api.post(&path(&change.url, "/enable")?, &body).await?;
            let more = if answer["more"] == true { " or more" } else { "" };
            let sentence = format!(
                "{} is enabled; {}{more} parked deliveries are released.",
                text(&answer["url"]),
                text(&answer["released"])
            );
            output.done(&answer, &sentence)
        }
        Some(UrlsCommand::Disable(change)) => change.make("/disable", api, output).await,
        Some(UrlsCommand::Freeze(change)) => change.make("/freeze", api, output).await,
    }
}

async fn list(list: &List, api: &Api, output: &Output) -> Result<()> {
    let state =
        list.state.and_then(|state| state.to_possible_value()).map(|state| state.get_name().to_owned());
    let failing = list.failing.then(|| "true".to_owned());
    let urls = api.list("/v1/urls", &[("state", state), ("failing", failing)], list.limit as usize).await?;
    output.list(&urls, COLUMNS, if list.failing { "No URL is failing." } else { "There are no such URLs." })
}

impl Change {
    fn body(&self) -> Value {
        match &self.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        }
    }

    async fn make(&self, action: &str, api: &Api, output: &Output) -> Result<()> {
        let answer = api.post(&path(&self.url, action)?, &self.body()).await?;
        output.done(&answer, &format!("{} is {}.", text(&answer["url"]), text(&answer["state"])))
    }
}

fn path(url: &str, action: &str) -> Result<String> {
    Ok(super::api::path(&["v1", "urls", &id_of(url)?], action))
}

/// The id of a URL is derived from the URL, so that one can be named by either.
pub(super) fn id_of(url: &str) -> Result<String> {
    if url.contains("://") {
        let normal = url_form::normalise(url, true).map_err(|fault| anyhow::anyhow!("the URL {fault}"))?;
        return Ok(UrlId::of(&normal).to_string());
    }
    ensure!(url.starts_with("url_"), "{url:?} is neither the id of a URL (url_…) nor a URL (https://…)");
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_named_by_its_id_or_as_it_is() {
        assert_eq!(id_of("url_abc").unwrap(), "url_abc");
        let id = id_of("https://Example.com").unwrap();
        assert_eq!(id, UrlId::of("https://example.com/").to_string());
        assert_eq!(id, id_of("https://example.com/#part").unwrap());
        for refused in ["example.com", "dlv_abc", "https://", "ftp://example.com"] {
            assert!(id_of(refused).is_err(), "{refused}");
        }
    }
}
