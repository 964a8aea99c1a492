//! Metrics in CloudWatch's embedded format: a line of JSON in the log, which CloudWatch turns into metrics. It takes no request, so it
//! cannot fail or delay the function.

use std::time::Duration;

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

/// The metrics of a batch. Alarms compare the first four with each other and need their zeros too: CloudWatch has no value for a metric
/// that was never published.
#[must_use]
pub fn of_batch(counters: Counters, given_back: usize, dead_letters: usize) -> Vec<Metric> {
    let always = [
        ("AttemptsSucceeded", counters.attempts_succeeded),
        ("AttemptsFailed", counters.attempts_failed),
        ("AttemptsNotMade", counters.not_attempted.iter().sum()),
        ("MessagesGivenBack", given_back as u64),
    ];
    let mut metrics: Vec<Metric> = always.into_iter().map(|(name, value)| count(name, value)).collect();
    let slow = counters.sent_to_slow_queue;
    metrics.extend((slow > 0).then(|| count("SentToSlowQueue", slow)));
    metrics.extend(of_trouble(counters));
    metrics.extend((dead_letters > 0).then(|| count("DeadLetters", dead_letters as u64)));
    metrics
}

/// How late the message of a batch is handled that was due first.
#[must_use]
pub fn handled_overdue(overdue: Duration) -> Metric {
    Metric { name: "HandledOverdueSeconds", unit: Unit::Seconds, value: overdue.as_secs() }
}

/// What went wrong, without what is zero.
fn of_trouble(counters: Counters) -> impl Iterator<Item = Metric> {
    let counts = [
        ("HealthWritesDropped", counters.health_writes_dropped),
        ("TicketsNotSent", counters.tickets_not_sent),
    ];
    counts.into_iter().filter(|(_, value)| *value > 0).map(|(name, value)| count(name, value))
}

/// Also when nothing was overdue: an alarm must be able to distinguish that from a sweep that did not run.
#[must_use]
pub fn of_sweep(report: SweepReport, counters: Counters) -> Vec<Metric> {
    let oldest_s = report.oldest_overdue.as_secs();
    let mut metrics = vec![
        Metric { name: "OldestOverdueSeconds", unit: Unit::Seconds, value: oldest_s },
        count("LookedAt", report.looked_at as u64),
    ];
    if report.failed > 0 {
        metrics.push(count("LooksFailed", report.failed as u64));
    }
    metrics.extend(of_trouble(counters));
    metrics
}

fn count(name: &'static str, value: u64) -> Metric {
    Metric { name, unit: Unit::Count, value }
}

/// One line of JSON.
#[must_use]
pub fn line(stack: &str, at: Timestamp, metrics: &[Metric]) -> String {
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
    Value::Object(members).to_string()
}

pub fn publish(stack: &str, at: Timestamp, metrics: &[Metric]) {
    println!("{}", line(stack, at, metrics));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metrics: &[Metric]) -> Value {
        let text = line("holdfast", Timestamp::from_millis(1_767_225_600_123), metrics);
        assert!(!text.contains('\n'));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_batch_reports_what_happened_and_the_zeros_that_alarms_need() {
        let counters = Counters { attempts_succeeded: 7, attempts_failed: 2, ..Counters::default() };
        let expected = json!({
            "_aws": {
                "Timestamp": 1_767_225_600_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Holdfast",
                    "Dimensions": [["Stack"]],
                    "Metrics": [
                        { "Name": "AttemptsSucceeded", "Unit": "Count" },
                        { "Name": "AttemptsFailed", "Unit": "Count" },
                        { "Name": "AttemptsNotMade", "Unit": "Count" },
                        { "Name": "MessagesGivenBack", "Unit": "Count" },
                        { "Name": "DeadLetters", "Unit": "Count" },
                    ],
                }],
            },
            "Stack": "holdfast",
            "AttemptsSucceeded": 7,
            "AttemptsFailed": 2,
            "AttemptsNotMade": 0,
            "MessagesGivenBack": 0,
            "DeadLetters": 1,
        });
        assert_eq!(read(&of_batch(counters, 0, 1)), expected);
    }

    #[test]
    fn a_sweep_that_found_nothing_reports_zero() {
        let metrics = of_sweep(SweepReport::default(), Counters::default());
        let printed = read(&metrics);
        assert_eq!((&printed["OldestOverdueSeconds"], &printed["LookedAt"]), (&json!(0), &json!(0)));
        assert_eq!(metrics.len(), 2);
    }

    #[test]
    fn a_sweep_reports_how_late_it_was_and_how_many_tickets_it_could_not_send() {
        let report = SweepReport {
            looked_at: 12,
            oldest_overdue: Duration::from_millis(61_900),
            more: false,
            failed: 2,
        };
        let printed = read(&of_sweep(report, Counters { tickets_not_sent: 3, ..Counters::default() }));
        assert_eq!(printed["OldestOverdueSeconds"], 61);
        assert_eq!(printed["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"], "Seconds");
        assert_eq!(
            (&printed["LookedAt"], &printed["LooksFailed"], &printed["TicketsNotSent"]),
            (&json!(12), &json!(2), &json!(3))
        );
    }
}
