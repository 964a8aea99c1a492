//! `holdfast send` and `holdfast trigger`

use std::io::Read;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use holdfast_core::ports::Entropy;
use holdfast_host::OsEntropy;
use reqwest::Method;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::api::Api;
use super::output::{Output, text};

#[derive(Args)]
pub(crate) struct Send {
    /// The type of the event, such as order.created.
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The data: JSON, @FILE, or - for standard input [default: null]. It is sent byte for byte.
    #[arg(value_name = "DATA")]
    data: Option<String>,
    /// Your id of the event: sending it again delivers it once.
    #[arg(long)]
    id: Option<String>,
    /// What the event is about.
    #[arg(long)]
    subject: Option<String>,
}

#[derive(Args)]
pub(crate) struct Trigger {
    /// Which sample.
    #[arg(value_name = "SAMPLE", value_enum)]
    sample: Sample,
    /// How many events.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    count: u32,
}

/// Sample events, as a shop would send them.
#[derive(Clone, Copy, ValueEnum)]
enum Sample {
    #[value(name = "order.created")]
    OrderCreated,
    /// Has an old and a new state, for filters with `changed`.
    #[value(name = "order.updated")]
    OrderUpdated,
    #[value(name = "payment.failed")]
    PaymentFailed,
    #[value(name = "user.created")]
    UserCreated,
}

/// An event as it is posted.
#[derive(Serialize)]
struct NewEvent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    data: &'a RawValue,
}

pub(super) async fn send(command: Send, api: &Api, output: &Output) -> Result<()> {
    let data = read_data(command.data.as_deref().unwrap_or("null"))?;
    let event = NewEvent {
        id: command.id.as_deref(),
        event_type: &command.event_type,
        subject: command.subject.as_deref(),
        data: &data,
    };
    post(&event, api, output).await
}

pub(super) async fn trigger(command: Trigger, api: &Api, output: &Output) -> Result<()> {
    for _ in 0..command.count {
        let (event_type, data) = command.sample.event(random_number());
        let data = to_raw_value(&data)?;
        post(&NewEvent { id: None, event_type, subject: None, data: &data }, api, output).await?;
    }
    Ok(())
}

async fn post(event: &NewEvent<'_>, api: &Api, output: &Output) -> Result<()> {
    let answer = api.send(Method::POST, "/v1/events", serde_json::to_string(event)?).await?;
    let deliveries = answer["deliveries"].as_u64().unwrap_or(0);
    let what = match (answer["duplicate"] == true, deliveries) {
        (true, _) => "was accepted before, and is not delivered again".to_owned(),
        (false, 0) => "is accepted; no subscription matches it".to_owned(),
        (false, 1) => "is accepted, for 1 subscription".to_owned(),
        (false, count) => format!("is accepted, for {count} subscriptions"),
    };
    output.done(&answer, &format!("{} {what}.", text(&answer["id"])))
}

/// The data of an event, as it was written.
pub(super) fn read_data(given: &str) -> Result<Box<RawValue>> {
    let data = match given.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
        None if given == "-" => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read).context("cannot read standard input")?;
            read
        }
        None => given.to_owned(),
    };
    ensure!(!data.trim().is_empty(), "the data is empty; write JSON, such as '{{\"number\": 1}}', or null");
    RawValue::from_string(data.trim().to_owned())
        .context("the data is not JSON; a text needs quotes of its own, such as '\"text\"'")
}

fn random_number() -> u32 {
    let mut bytes = [0; 4];
    OsEntropy.fill(&mut bytes);
    u32::from_le_bytes(bytes) % 1_000_000
}

impl Sample {
    /// The type and the data of the event. The number tells the events apart.
    fn event(self, number: u32) -> (&'static str, Value) {
        let order = |status: &str| json!({"number": number, "status": status, "total": f64::from(number % 50_000) / 100.0, "currency": "EUR"});
        match self {
            Sample::OrderCreated => ("order.created", order("created")),
            Sample::OrderUpdated => {
                ("order.updated", json!({"oldState": order("created"), "newState": order("shipped")}))
            }
            Sample::PaymentFailed => {
                ("payment.failed", json!({"order": number, "code": "card_declined", "attempt": 1}))
            }
            Sample::UserCreated => {
                ("user.created", json!({"number": number, "email": format!("user-{number}@example.com")}))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_sent_byte_for_byte() {
        let data = r#"{"b":1,  "a":12345678901234567890123456789012345678.50, "a":2}"#;
        let raw = read_data(data).unwrap();
        let event = NewEvent { id: None, event_type: "a.b", subject: None, data: &raw };
        assert_eq!(serde_json::to_string(&event).unwrap(), format!(r#"{{"type":"a.b","data":{data}}}"#));
    }

    #[test]
    fn data_that_is_not_json_is_refused_with_an_example() {
        for (given, example) in [("hello", "'\"text\"'"), ("", "null"), ("{", "not JSON")] {
            let error = read_data(given).unwrap_err().to_string();
            assert!(error.contains(example), "{given}: {error}");
        }
        assert!(read_data("@/no/such/file").unwrap_err().to_string().contains("/no/such/file"));
    }

    #[test]
    fn every_sample_has_the_type_that_names_it() {
        for sample in Sample::value_variants() {
            let name = sample.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(sample.event(7).0, name);
        }
    }
}
