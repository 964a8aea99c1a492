//! `holdfast tail`

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::time::interval;

use super::api::Api;
use super::output::{Output, on_one_line, paint, print_text, text, time};
use super::urls;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Tail {
    /// Only attempts to this URL: its id, or the URL itself.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Only attempts with this outcome.
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,
    /// Only attempts of this delivery.
    #[arg(long, value_name = "ID")]
    delivery: Option<String>,
    /// Print the latest attempts and end, instead of following new ones.
    #[arg(long)]
    no_follow: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outcome {
    Success,
    Failure,
    Interrupted,
}

/// Which attempts are printed.
struct Wanted {
    url_id: Option<String>,
    outcome: Option<&'static str>,
    delivery: Option<String>,
}

impl Wanted {
    fn includes(&self, attempt: &Value) -> bool {
        let is = |wanted: Option<&str>, field: &str| wanted.is_none_or(|wanted| attempt[field] == wanted);
        is(self.url_id.as_deref(), "url_id")
            && is(self.outcome, "outcome")
            && is(self.delivery.as_deref(), "delivery_id")
    }
}

pub(super) async fn tail(command: &Tail, api: &Api, output: &Output) -> Result<()> {
    let wanted = Wanted {
        url_id: command.url.as_deref().map(urls::id_of).transpose()?,
        outcome: command.outcome.map(|outcome| match outcome {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Interrupted => "interrupted",
        }),
        delivery: command.delivery.clone(),
    };
    let mut ticks = interval(POLL_INTERVAL);
    let mut after = None;
    loop {
        ticks.tick().await;
        let feed = api.get("/v1/attempts", &[("after", after), ("limit", Some("100".to_owned()))]).await?;
        for attempt in
            feed["items"].as_array().into_iter().flatten().filter(|attempt| wanted.includes(attempt))
        {
            print_text(&line(attempt, output.is_json()))?;
        }
        if let Some(missing) = feed["left_out"].as_u64().filter(|count| *count > 0 && !output.is_json()) {
            print_text(&format!("… {missing} more that the feed does not keep\n"))?;
        }
        if command.no_follow {
            return Ok(());
        }
        after = feed["next"].as_str().map(str::to_owned);
        // There is more to read now.
        if feed["items"].as_array().is_some_and(|items| items.len() == 100) {
            ticks.reset_immediately();
        }
    }
}

fn line(attempt: &Value, is_json: bool) -> String {
    if is_json {
        return format!("{attempt}\n");
    }
    let what = match (&attempt["status"], attempt["error"].as_str()) {
        (Value::Number(status), _) => status.to_string(),
        (_, Some(error)) => on_one_line(error),
        _ => String::new(),
    };
    let which = match attempt["n"].as_u64() {
        Some(0) | None => "first".to_owned(),
        Some(n) => format!("retry {n}"),
    };
    // Only in the feed of all tenants.
    let tenant = attempt["tenant"].as_str().map(|name| format!("{name}  ")).unwrap_or_default();
    format!(
        "{}  {tenant}{}  {which:<8}  {:>5} ms  {}  {}  {}  {what}\n",
        time(&attempt["at"]),
        paint(&text(&attempt["outcome"])),
        text(&attempt["ms"]),
        text(&attempt["type"]),
        text(&attempt["delivery_id"]),
        text(&attempt["url_id"]),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_what_happened() {
        let attempt = json!({"at": "2026-01-02T03:04:05.678Z", "outcome": "failure", "n": 3, "ms": 12, "type": "a.b",
            "delivery_id": "dlv_1", "url_id": "url_1", "status": 503, "error": "status: …"});
        let line = line(&attempt, false);
        for part in ["2026-01-02 03:04:05Z", "failure", "retry 3", "12 ms", "a.b", "dlv_1", "url_1", "503"] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
        let of_all = json!({"tenant": "shop-1", "at": "2026-01-02T03:04:05.678Z", "outcome": "success"});
        assert!(super::line(&of_all, false).starts_with("2026-01-02 03:04:05Z  shop-1  "));
    }

    #[test]
    fn only_wanted_attempts_are_printed() {
        let wanted =
            |url: Option<&str>, outcome| Wanted { url_id: url.map(str::to_owned), outcome, delivery: None };
        let attempt = json!({"url_id": "url_1", "outcome": "failure"});
        assert!(wanted(None, None).includes(&attempt));
        assert!(wanted(Some("url_1"), Some("failure")).includes(&attempt));
        assert!(!wanted(Some("url_2"), None).includes(&attempt));
        assert!(!wanted(Some("url_1"), Some("success")).includes(&attempt));
    }
}
