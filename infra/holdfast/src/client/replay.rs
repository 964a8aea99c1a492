//! `holdfast replay`

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use holdfast_core::time::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::time::interval;

use super::api::{Api, path};
use super::output::{Output, text};
use super::{urls, when};

/// How often the progress of a replay is asked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many deliveries a dry run counts.
const MAX_COUNTED: usize = 10_000;

#[derive(Args)]
pub(crate) struct Replay {
    /// The id of a delivery (dlv_…), or a URL or its id (url_…) to replay all of its dead deliveries.
    target: String,
    /// Of a URL: only deliveries accepted since: a time, or how long ago, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    since: Option<Timestamp>,
    /// Of a URL: only deliveries accepted until: a time, or how long ago, such as 30m [default: now]
    #[arg(long, value_name = "TIME", value_parser = when::parse_argument)]
    until: Option<Timestamp>,
    /// Of a URL: which deliveries. Can be given more than once.
    #[arg(long = "state", value_enum, default_values_t = [State::Dead])]
    states: Vec<State>,
    /// Only say how many deliveries would be replayed.
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the replay has ended.
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    Dead,
    Delivered,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Dead => "dead",
            State::Delivered => "delivered",
        }
    }
}

pub(super) async fn run(command: Replay, api: &Api, output: &Output) -> Result<()> {
    let started = if command.target.starts_with("dlv_") {
        ensure!(
            command.since.is_none() && command.until.is_none(),
            "--since and --until are for the deliveries of a URL; leave them out for one delivery"
        );
        if command.dry_run {
            return dry_run_one(&command, api, output).await;
        }
        api.post(&path(&["v1", "deliveries", &command.target], "/replay"), &json!({})).await?
    } else {
        let url = urls::id_of(&command.target)?;
        if command.dry_run {
            return dry_run(&command, &url, api, output).await;
        }
        api.post(&path(&["v1", "urls", &url], "/replay"), &command.body()).await?
    };
    if command.detach {
        return output.done(&started, &format!("{} has begun.", text(&started["id"])));
    }
    let ended = wait_for_end(&text(&started["id"]), api, output).await?;
    let sentence = format!("{} replayed, {} skipped.", text(&ended["done"]), text(&ended["skipped"]));
    output.done(&ended, &sentence)
}

impl Replay {
    fn body(&self) -> Value {
        let mut body =
            json!({ "states": self.states.iter().map(|state| state.as_str()).collect::<Vec<_>>() });
        if let Some(since) = self.since {
            body["since"] = since.to_string().into();
        }
        if let Some(until) = self.until {
            body["until"] = until.to_string().into();
        }
        body
    }
}

async fn dry_run_one(command: &Replay, api: &Api, output: &Output) -> Result<()> {
    let delivery = api.get(&path(&["v1", "deliveries", &command.target], ""), &[]).await?;
    let state = text(&delivery["state"]);
    let would = if matches!(state.as_str(), "dead" | "delivered") { "would be" } else { "cannot be" };
    output.done(&delivery, &format!("{} is {state} and {would} replayed.", command.target))
}

/// Counts by listing, which changes nothing.
async fn dry_run(command: &Replay, url: &str, api: &Api, output: &Output) -> Result<()> {
    let mut count = 0;
    let mut more = false;
    for state in &command.states {
        let parameters = [
            ("url", Some(url.to_owned())),
            ("state", Some(state.as_str().to_owned())),
            ("since", command.since.map(|since| since.to_string())),
            ("until", command.until.map(|until| until.to_string())),
        ];
        let found = api.list("/v1/deliveries", &parameters, MAX_COUNTED).await?;
        count += found["items"].as_array().map_or(0, Vec::len);
        more |= found["more"] == true;
    }
    let at_least = if more { " or more" } else { "" };
    let sentence = format!("{count}{at_least} deliveries would be replayed.");
    output.done(&json!({ "url_id": url, "matched": count, "more": more }), &sentence)
}

async fn wait_for_end(id: &str, api: &Api, output: &Output) -> Result<Value> {
    let bar = progress_bar(output);
    let mut ticks = interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        let replay = api.get(&path(&["v1", "replays", id], ""), &[]).await?;
        let (done, matched) = (replay["done"].as_u64().unwrap_or(0), replay["matched"].as_u64().unwrap_or(0));
        bar.set_length(matched.max(done));
        bar.set_position(done + replay["skipped"].as_u64().unwrap_or(0));
        if replay["state"] == "done" {
            bar.finish_and_clear();
            return Ok(replay);
        }
    }
}

/// On a terminal only.
fn progress_bar(output: &Output) -> ProgressBar {
    if output.is_json() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len}, {elapsed}").expect("a valid template");
    ProgressBar::new(0).with_style(style)
}
