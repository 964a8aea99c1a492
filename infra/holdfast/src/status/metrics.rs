//! The text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use holdfast_core::engine::{Counters, LATENCY_BOUNDS_MS, StateCounts, TenantCounters};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::QueueName;
use holdfast_core::rules::shortage::Shortage;
use holdfast_embedded::EmbeddedQueue;

use crate::server::Connections;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the page is made of.
pub(super) struct Shown<'a> {
    pub(super) counters: &'a Counters,
    pub(super) queue: &'a EmbeddedQueue,
    pub(super) connections: &'a Connections,
    /// `None`: nothing was counted yet.
    pub(super) states: Option<StateCounts>,
    pub(super) last_sweep_age: Duration,
    /// Empty unless the operator asked for them.
    pub(super) tenants: BTreeMap<Tenant, TenantCounters>,
}

pub(super) fn format(shown: &Shown<'_>) -> String {
    let mut page = Page(String::new());
    page.metric("holdfast_build_info", "gauge", "The release that runs.");
    page.value(concat!("holdfast_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1);
    attempts(&mut page, shown.counters);
    trouble(&mut page, shown.counters);
    states(&mut page, shown);
    connections(&mut page, shown.connections);
    if !shown.tenants.is_empty() {
        tenants(&mut page, &shown.tenants);
    }
    page.0
}

fn attempts(page: &mut Page, counters: &Counters) {
    page.single(
        "holdfast_events_accepted_total",
        "counter",
        "Events that were accepted.",
        counters.events_accepted,
    );
    page.metric("holdfast_attempts_total", "counter", "Attempts that were made, by outcome.");
    page.value("holdfast_attempts_total{outcome=\"success\"}", counters.attempts_succeeded);
    page.value("holdfast_attempts_total{outcome=\"failure\"}", counters.attempts_failed);
    let not_made = "holdfast_attempts_not_made_total";
    page.metric(not_made, "counter", "Attempts that could not be made, by what this host ran out of.");
    for shortage in Shortage::ALL {
        let series = format!("{not_made}{{shortage=\"{}\"}}", shortage.as_str());
        page.value(&series, counters.not_attempted[shortage as usize]);
    }
    latencies(page, counters);
}

/// A histogram counts in each bucket what is in the smaller ones too.
fn latencies(page: &mut Page, counters: &Counters) {
    let name = "holdfast_attempt_seconds";
    page.metric(name, "histogram", "How long attempts took.");
    let bounds = LATENCY_BOUNDS_MS.iter().map(|ms| (*ms as f64 / 1_000.0).to_string());
    let mut sum = 0;
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counters.latency_bins) {
        sum += count;
        page.value(&format!("{name}_bucket{{le=\"{bound}\"}}"), sum);
    }
    page.value(&format!("{name}_sum"), Duration::from_micros(counters.latency_total_us).as_secs_f64());
    page.value(&format!("{name}_count"), sum);
}

fn trouble(page: &mut Page, counters: &Counters) {
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
    page.single(
        "holdfast_posts_over_quota_total",
        "counter",
        "Posts that a quota of their tenant refused.",
        counters.posts_over_quota,
    );
    page.metric(
        "holdfast_urls_in_trouble_total",
        "counter",
        "How often a URL got into trouble (failing), and out of it (recovered).",
    );
    page.value("holdfast_urls_in_trouble_total{change=\"failing\"}", counters.urls_failing);
    page.value("holdfast_urls_in_trouble_total{change=\"recovered\"}", counters.urls_recovered);
    page.single(
        "holdfast_deliveries_dead_total",
        "counter",
        "Deliveries that were given up.",
        counters.deliveries_dead,
    );
}

/// How much there is now.
fn states(page: &mut Page, shown: &Shown<'_>) {
    page.metric(
        "holdfast_messages",
        "gauge",
        "Messages in the queue of first attempts, and of retries and other tickets.",
    );
    page.value("holdfast_messages{queue=\"first\"}", shown.queue.messages(QueueName::First));
    page.value("holdfast_messages{queue=\"retry\"}", shown.queue.messages(QueueName::Retry));
    page.single(
        "holdfast_last_sweep_age_seconds",
        "gauge",
        "Seconds since the last sweep that succeeded.",
        shown.last_sweep_age.as_secs(),
    );
    let counts = shown.states.unwrap_or_default();
    page.metric("holdfast_deliveries", "gauge", "Deliveries that are not delivered, by state.");
    for (state, count) in [("waiting", counts.waiting), ("parked", counts.parked), ("dead", counts.dead)] {
        page.value(&format!("holdfast_deliveries{{state=\"{state}\"}}"), count);
    }
    page.metric("holdfast_urls", "gauge", "URLs by state.");
    let urls = [
        ("enabled", counts.urls_enabled),
        ("disabled", counts.urls_disabled),
        ("frozen", counts.urls_frozen),
    ];
    for (state, count) in urls {
        page.value(&format!("holdfast_urls{{state=\"{state}\"}}"), count);
    }
    page.single(
        "holdfast_counts_truncated",
        "gauge",
        "1 if there are more deliveries or URLs in a state than were counted, or if nothing was counted yet.",
        u8::from(shown.states.is_none_or(|counts| counts.more)),
    );
}

fn connections(page: &mut Page, connections: &Connections) {
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
}

/// The name of a tenant needs no escape: it has letters, digits, `_` and `-` only.
fn tenants(page: &mut Page, tenants: &BTreeMap<Tenant, TenantCounters>) {
    let name = "holdfast_tenant_events_accepted_total";
    page.metric(name, "counter", "Events that were accepted, by tenant.");
    for (tenant, counters) in tenants {
        page.value(&format!("{name}{{tenant=\"{tenant}\"}}"), counters.events_accepted);
    }
    let name = "holdfast_tenant_attempts_total";
    page.metric(name, "counter", "Attempts that were made, by tenant and outcome.");
    for (tenant, counters) in tenants {
        let outcomes = [("success", counters.attempts_succeeded), ("failure", counters.attempts_failed)];
        for (outcome, count) in outcomes {
            page.value(&format!("{name}{{tenant=\"{tenant}\",outcome=\"{outcome}\"}}"), count);
        }
    }
    let name = "holdfast_tenant_deliveries_dead_total";
    page.metric(name, "counter", "Deliveries that were given up, by tenant.");
    for (tenant, counters) in tenants {
        page.value(&format!("{name}{{tenant=\"{tenant}\"}}"), counters.deliveries_dead);
    }
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
