//! The API's answers, as far as the scenarios read them.

use anyhow::{Context, Result};
use holdfast_core::time::Timestamp;
use serde_json::Value;

/// A required text field.
pub fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("`{field}` is not text in {value}"))
}

pub fn number(value: &Value, field: &str) -> Result<u64> {
    value[field].as_u64().with_context(|| format!("`{field}` is not a number in {value}"))
}

pub fn items(value: &Value) -> Result<&Vec<Value>> {
    value["items"].as_array().with_context(|| format!("no `items` in {value}"))
}

/// A time in milliseconds since the Unix epoch; `None` for null.
pub fn time_ms(value: &Value, field: &str) -> Result<Option<i64>> {
    let Some(text) = value[field].as_str() else { return Ok(None) };
    let time = Timestamp::parse(text).with_context(|| format!("`{field}` is not a time in {value}"))?;
    Ok(Some(time.as_millis()))
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub n: u64,
    pub epoch: u64,
    pub at_ms: i64,
    pub outcome: String,
}

#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: String,
    pub event_id: String,
    pub state: String,
    pub reason: Option<String>,
    pub epoch: u64,
    pub accepted_at_ms: i64,
    pub due_at_ms: Option<i64>,
    pub attempts: Vec<Attempt>,
}

impl Delivery {
    pub fn of(value: &Value) -> Result<Delivery> {
        let attempts = value["attempts"].as_array().with_context(|| format!("no `attempts` in {value}"))?;
        Ok(Delivery {
            id: text(value, "id")?.to_owned(),
            event_id: text(value, "event_id")?.to_owned(),
            state: text(value, "state")?.to_owned(),
            reason: value["reason"].as_str().map(str::to_owned),
            epoch: number(value, "epoch")?,
            accepted_at_ms: time_ms(value, "accepted_at")?.context("no `accepted_at`")?,
            due_at_ms: time_ms(value, "due_at")?,
            attempts: attempts.iter().map(Attempt::of).collect::<Result<_>>()?,
        })
    }

    #[must_use]
    pub fn is(&self, state: &str) -> bool {
        self.state == state
    }

    /// When the successful attempt started.
    #[must_use]
    pub fn delivered_at_ms(&self) -> Option<i64> {
        self.attempts.iter().find(|attempt| attempt.outcome == "success").map(|attempt| attempt.at_ms)
    }
}

impl Attempt {
    fn of(value: &Value) -> Result<Attempt> {
        Ok(Attempt {
            n: number(value, "n")?,
            epoch: number(value, "epoch")?,
            at_ms: time_ms(value, "at")?.context("an attempt without a time")?,
            outcome: text(value, "outcome")?.to_owned(),
        })
    }
}
