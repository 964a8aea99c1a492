//! `holdfast explain`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::api::Api;
use super::output::{Output, on_one_line, print_text, text};

#[derive(Args)]
pub(crate) struct Explain {
    /// The id of the event.
    event: String,
    /// The id of the subscription.
    subscription: String,
}

pub(super) async fn run(command: &Explain, api: &Api, output: &Output) -> Result<()> {
    let parameters =
        [("event", Some(command.event.clone())), ("subscription", Some(command.subscription.clone()))];
    let answer = api.get("/v1/explain", &parameters).await?;
    if !output.is_json() {
        print_text(&format!("{}\n\n", on_one_line(&text(&answer["summary"]))))?;
    }
    output.object(&without_summary(answer, output.is_json()))
}

/// People have read it already.
fn without_summary(mut answer: Value, is_json: bool) -> Value {
    if let Some(fields) = answer.as_object_mut().filter(|_| !is_json) {
        fields.remove("summary");
    }
    answer
}
