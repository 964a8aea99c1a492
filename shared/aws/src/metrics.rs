//! Metrics in CloudWatch's embedded format: a line of JSON in the log, which CloudWatch turns into metrics. It takes no request, so it
//! cannot fail or delay the function.

use std::time::Duration;

use holdfast_core::engine::{Counters, StateCounts, SweepReport};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Holdfast";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Seconds,
    Milliseconds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: Unit,
    pub value: Measured,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    One(u64),
    /// CloudWatch takes up to 100, and has their percentiles.
    Each(Vec<u32>),
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
    metrics.extend(of_posts(counters));
    let slow = counters.sent_to_slow_queue;
    metrics.extend((slow > 0).then(|| count("SentToSlowQueue", slow)));
    metrics.extend(of_trouble(counters));
    metrics.extend((dead_letters > 0).then(|| count("DeadLetters", dead_letters as u64)));
    metrics
}

/// What was accepted: by the API, and of Holdfast's own events by deliver-retry.
#[must_use]
pub fn of_posts(counters: Counters) -> Option<Metric> {
    (counters.events_accepted > 0).then(|| count("EventsAccepted", counters.events_accepted))
}

/// How long the attempts of a batch took: of the first 100.
#[must_use]
pub fn latencies(ms: Vec<u32>) -> Option<Metric> {
    let value = Measured::Each(ms);
    (value != Measured::Each(Vec::new())).then_some(Metric {
        name: "AttemptMilliseconds",
        unit: Unit::Milliseconds,
        value,
    })
}

/// How many deliveries and URLs are in each state now. Nothing while all are zero, because every metric of a month costs.
#[must_use]
pub fn of_states(counts: StateCounts) -> Vec<Metric> {
    let found = [
        ("Waiting", counts.waiting),
        ("Parked", counts.parked),
        ("Dead", counts.dead),
        ("UrlsDisabled", counts.urls_disabled),
        ("UrlsFrozen", counts.urls_frozen),
    ];
    if found.iter().all(|(_, value)| *value == 0) {
        return Vec::new();
    }
    let mut metrics: Vec<Metric> = found.into_iter().map(|(name, value)| count(name, value)).collect();
    metrics.extend(counts.more.then(|| count("CountsTruncated", 1)));
    metrics
}

/// How late the message of a batch is handled that was due first.
#[must_use]
pub fn handled_overdue(overdue: Duration) -> Metric {
    Metric { name: "HandledOverdueSeconds", unit: Unit::Seconds, value: Measured::One(overdue.as_secs()) }
}

/// What went wrong, or well again, without what is zero.
fn of_trouble(counters: Counters) -> impl Iterator<Item = Metric> {
    let counts = [
        ("HealthWritesDropped", counters.health_writes_dropped),
        ("TicketsNotSent", counters.tickets_not_sent),
        ("UrlsFailing", counters.urls_failing),
        ("UrlsRecovered", counters.urls_recovered),
        ("DeliveriesDead", counters.deliveries_dead),
        ("EventsNotPublished", counters.events_not_published),
    ];
    counts.into_iter().filter(|(_, value)| *value > 0).map(|(name, value)| count(name, value))
}

/// Also when nothing was overdue: an alarm must be able to distinguish that from a sweep that did not run.
#[must_use]
pub fn of_sweep(report: SweepReport, counters: Counters) -> Vec<Metric> {
    let oldest_s = report.oldest_overdue.as_secs();
    let mut metrics = vec![
        Metric { name: "OldestOverdueSeconds", unit: Unit::Seconds, value: Measured::One(oldest_s) },
        count("LookedAt", report.looked_at as u64),
    ];
    if report.failed > 0 {
        metrics.push(count("LooksFailed", report.failed as u64));
    }
    metrics.extend(of_trouble(counters));
    metrics
}

fn count(name: &'static str, value: u64) -> Metric {
    Metric { name, unit: Unit::Count, value: Measured::One(value) }
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
    members.extend(metrics.iter().map(|metric| {
        let value = match &metric.value {
            Measured::One(value) => json!(value),
            Measured::Each(values) => json!(values),
        };
        (metric.name.to_owned(), value)
    }));
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
    fn latencies_are_a_list_and_missing_without_attempts() {
        let printed = read(&latencies(vec![7, 1_200]).into_iter().collect::<Vec<_>>());
        assert_eq!(printed["AttemptMilliseconds"], json!([7, 1_200]));
        assert_eq!(printed["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"], "Milliseconds");
        assert_eq!(latencies(Vec::new()), None);
    }

    #[test]
    fn states_are_reported_together_or_not_at_all() {
        assert_eq!(of_states(StateCounts { urls_enabled: 5, more: true, ..StateCounts::default() }), []);
        let counts = StateCounts { parked: 3, urls_frozen: 1, more: true, ..StateCounts::default() };
        let printed = read(&of_states(counts));
        assert_eq!(
            (&printed["Waiting"], &printed["Parked"], &printed["Dead"]),
            (&json!(0), &json!(3), &json!(0))
        );
        assert_eq!((&printed["UrlsDisabled"], &printed["UrlsFrozen"]), (&json!(0), &json!(1)));
        assert_eq!(printed["CountsTruncated"], 1);
        assert_eq!(of_posts(Counters::default()), None);
        let accepted = of_posts(Counters { events_accepted: 2, ..Counters::default() });
        assert_eq!(accepted, Some(count("EventsAccepted", 2)));
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
