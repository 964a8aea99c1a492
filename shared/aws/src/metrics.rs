//! Metrics in CloudWatch's embedded format: a line of JSON in the log, which CloudWatch turns into metrics. No call is made, so
//! nothing can fail and nothing waits.

use holdfast_core::engine::{Counters, SweepReport};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Holdfast";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: Unit,
    pub value: u64,
}

/// What happened to a batch, as far as there is something to count.
#[must_use]
pub fn of_batch(tally: Counters, given_back: usize, dead_letters: usize) -> Vec<Metric> {
    let counts = [
        ("AttemptsSucceeded", tally.attempts_succeeded),
        ("AttemptsFailed", tally.attempts_failed),
        ("HealthWritesDropped", tally.health_writes_dropped),
        ("TicketsNotSent", tally.tickets_not_sent),
        ("MessagesGivenBack", given_back as u64),
        ("DeadLetters", dead_letters as u64),
    ];
    counts.into_iter().filter(|(_, value)| *value > 0).map(|(name, value)| count(name, value)).collect()
}

/// Also when nothing was overdue: an alarm must be able to tell "all is well" from "nobody looked".
#[must_use]
pub fn of_sweep(report: SweepReport, tally: Counters) -> Vec<Metric> {
    let oldest_s = report.oldest_overdue.as_secs();
    let mut metrics = vec![
        Metric { name: "OldestOverdueSeconds", unit: Unit::Seconds, value: oldest_s },
        count("LookedAt", report.looked_at as u64),
    ];
    if report.failed > 0 {
        metrics.push(count("LooksFailed", report.failed as u64));
    }
    metrics.extend(of_batch(tally, 0, 0));
    metrics
}

fn count(name: &'static str, value: u64) -> Metric {
    Metric { name, unit: Unit::Count, value }
}

/// The line; `None` if there is nothing to tell.
#[must_use]
pub fn line(stack: &str, at: Timestamp, metrics: &[Metric]) -> Option<String> {
    if metrics.is_empty() {
        return None;
    }
    let described: Vec<Value> = metrics
        .iter()
        .map(|metric| json!({ "Name": metric.name, "Unit": format!("{:?}", metric.unit) }))
        .collect();
    let metadata = json!({
        "Timestamp": at.as_millis(),
        "CloudWatchMetrics": [{ "Namespace": NAMESPACE, "Dimensions": [["Stack"]], "Metrics": described }],
    });
    let mut members = Map::from_iter([("_aws".to_owned(), metadata), ("Stack".to_owned(), json!(stack))]);
    members.extend(metrics.iter().map(|metric| (metric.name.to_owned(), json!(metric.value))));
    Some(Value::Object(members).to_string())
}

/// Prints the line, if there is something to tell.
pub fn publish(stack: &str, at: Timestamp, metrics: &[Metric]) {
    if let Some(line) = line(stack, at, metrics) {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(metrics: &[Metric]) -> Value {
        let text = line("holdfast", Timestamp::from_millis(1_767_225_600_123), metrics).unwrap();
        assert!(!text.contains('\n'));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_batch_tells_only_what_happened() {
        let tally = Counters { attempts_succeeded: 7, attempts_failed: 2, ..Counters::default() };
        let expected = json!({
            "_aws": {
                "Timestamp": 1_767_225_600_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Holdfast",
                    "Dimensions": [["Stack"]],
                    "Metrics": [
                        { "Name": "AttemptsSucceeded", "Unit": "Count" },
                        { "Name": "AttemptsFailed", "Unit": "Count" },
                        { "Name": "DeadLetters", "Unit": "Count" },
                    ],
                }],
            },
            "Stack": "holdfast",
            "AttemptsSucceeded": 7,
            "AttemptsFailed": 2,
            "DeadLetters": 1,
        });
        assert_eq!(read(&of_batch(tally, 0, 1)), expected);
    }

    #[test]
    fn nothing_happened_is_no_line() {
        assert_eq!(line("holdfast", Timestamp::ZERO, &of_batch(Counters::default(), 0, 0)), None);
    }

    #[test]
    fn a_sweep_that_found_nothing_says_so() {
        let metrics = of_sweep(SweepReport::default(), Counters::default());
        let told = read(&metrics);
        assert_eq!((&told["OldestOverdueSeconds"], &told["LookedAt"]), (&json!(0), &json!(0)));
        assert_eq!(metrics.len(), 2);
    }

    #[test]
    fn a_sweep_tells_how_late_it_was_and_which_tickets_it_could_not_send() {
        let report = SweepReport {
            looked_at: 12,
            oldest_overdue: Duration::from_millis(61_900),
            more: false,
            failed: 2,
        };
        let told = read(&of_sweep(report, Counters { tickets_not_sent: 3, ..Counters::default() }));
        assert_eq!(told["OldestOverdueSeconds"], 61);
        assert_eq!(told["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"], "Seconds");
        assert_eq!(
            (&told["LookedAt"], &told["LooksFailed"], &told["TicketsNotSent"]),
            (&json!(12), &json!(2), &json!(3))
        );
    }
}
