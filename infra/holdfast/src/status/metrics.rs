//! The text format of Prometheus.

use std::fmt::{Display, Write};

use holdfast_core::engine::Counters;
use holdfast_core::ports::QueueName;
use holdfast_core::rules::shortage::Shortage;
use holdfast_embedded::EmbeddedQueue;

use crate::server::Connections;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn format(counters: &Counters, queue: &EmbeddedQueue, connections: &Connections) -> String {
    let mut page = Page(String::new());
    page.metric("holdfast_attempts_total", "counter", "Attempts that were made, by outcome.");
    page.value("holdfast_attempts_total{outcome=\"success\"}", counters.attempts_succeeded);
    page.value("holdfast_attempts_total{outcome=\"failure\"}", counters.attempts_failed);
    let not_made = "holdfast_attempts_not_made_total";
    page.metric(not_made, "counter", "Attempts that could not be made, by what this host ran out of.");
    for shortage in Shortage::ALL {
        let series = format!("{not_made}{{shortage=\"{}\"}}", shortage.as_str());
        page.value(&series, counters.not_attempted[shortage as usize]);
    }
    page.single(
        "holdfast_health_writes_dropped_total",
        "counter",
        "Outcomes that could not be counted on their URL.",
        counters.health_writes_dropped,
    );
    page.single(
        "holdfast_tickets_not_sent_total",
        "counter",
        "Tickets that could not be sent; the sweep sends them again.",
        counters.tickets_not_sent,
    );
    page.metric(
        "holdfast_messages",
        "gauge",
        "Messages in the queue of first attempts, and of retries and other tickets.",
    );
    page.value("holdfast_messages{queue=\"first\"}", queue.messages(QueueName::First));
    page.value("holdfast_messages{queue=\"retry\"}", queue.messages(QueueName::Retry));
    page.single(
        "holdfast_posts_over_quota_total",
        "counter",
        "Posts that a quota of their tenant refused.",
        counters.posts_over_quota,
    );
    page.single("holdfast_api_connections", "gauge", "Open connections of the API.", connections.open());
    page.single(
        "holdfast_api_connections_max",
        "gauge",
        "How many connections of the API may be open.",
        connections.bounds().connections,
    );
    page.single(
        "holdfast_api_connections_refused_total",
        "counter",
        "Connections that were closed at once because too many were open, in total or of their peer.",
        connections.refused(),
    );
    page.single(
        "holdfast_api_connections_displaced_total",
        "counter",
        "Idle connections that were closed to make room for a new one.",
        connections.displaced(),
    );
    page.0
}

struct Page(String);

impl Page {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, series: &str, value: impl Display) {
        let _ = writeln!(self.0, "{series} {value}");
    }

    /// A metric without labels.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.value(name, value);
    }
}
