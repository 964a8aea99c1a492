//! `/v1/overview` and `/v1/attempts`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{MAX_MINUTES_SHOWN, Overview, UrlCounts};
use holdfast_core::ports::Count;
use holdfast_core::records::AttemptSummary;
use holdfast_core::rules::activity::{Counts, LatencySummary};
use holdfast_core::rules::delivery::AttemptOutcome;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::auth::{Admin, ListScope};
use crate::params::Params;
use crate::response::{self, Time};
use crate::{App, Problem};

const DEFAULT_MINUTES: u32 = 60;

#[derive(Serialize)]
struct OverviewJson {
    at: Time,
    totals: CountsJson,
    latency_ms: Option<LatencySummary>,
    waiting: CountJson,
    parked: CountJson,
    dead: CountJson,
    urls: UrlCountsJson,
    /// How many tenants the numbers cover.
    tenants: CountJson,
    minutes: Vec<MinuteJson>,
}

#[derive(Serialize)]
struct CountsJson {
    events: u64,
    attempts: AttemptCountsJson,
}

#[derive(Serialize)]
struct AttemptCountsJson {
    success: u64,
    failure: u64,
    interrupted: u64,
}

#[derive(Serialize)]
struct CountJson {
    count: u64,
    more: bool,
}

#[derive(Serialize)]
struct UrlCountsJson {
    enabled: u64,
    disabled: u64,
    frozen: u64,
    more: bool,
}

#[derive(Serialize)]
struct MinuteJson {
    minute: Time,
    #[serde(flatten)]
    counts: CountsJson,
    /// `None` if no attempt ended.
    latency_ms: Option<LatencySummary>,
}

impl CountsJson {
    fn of(counts: &Counts) -> CountsJson {
        let Counts { success, failure, interrupted, .. } = *counts;
        CountsJson { events: counts.events, attempts: AttemptCountsJson { success, failure, interrupted } }
    }
}

impl From<Count> for CountJson {
    fn from(Count { count, more }: Count) -> CountJson {
        CountJson { count, more }
    }
}

impl MinuteJson {
    fn of((minute, counts): &(Timestamp, Counts)) -> MinuteJson {
        let latency_ms = counts.latency.summary();
        MinuteJson { minute: Time(*minute), counts: CountsJson::of(counts), latency_ms }
    }
}

impl OverviewJson {
    fn of(overview: &Overview, tenants: CountJson) -> OverviewJson {
        let UrlCounts { enabled, disabled, frozen, more } = overview.urls;
        OverviewJson {
            at: Time(overview.at),
            totals: CountsJson::of(&overview.totals),
            latency_ms: overview.totals.latency.summary(),
            waiting: overview.waiting.into(),
            parked: overview.parked.into(),
            dead: overview.dead.into(),
            urls: UrlCountsJson { enabled, disabled, frozen, more },
            tenants,
            minutes: overview.minutes.iter().map(MinuteJson::of).collect(),
        }
    }
}

/// Of one tenant, or the sum of all.
pub(crate) async fn overview(
    State(app): State<Arc<App>>,
    scope: ListScope,
    mut params: Params,
) -> Result<Response, Problem> {
    let minutes = params.number("minutes", 1..=MAX_MINUTES_SHOWN).unwrap_or(DEFAULT_MINUTES);
    params.finish()?;
    let (tenants, more) = scope.tenants(&app).await?;
    // Without any tenant, the overview of one that does not exist is empty.
    let mut overview =
        app.engine.overview(tenants.first().unwrap_or(&scope.cursor_tenant()), minutes).await?;
    for tenant in tenants.iter().skip(1) {
        overview.add(&app.engine.overview(tenant, minutes).await?);
    }
    let tenants = CountJson { count: tenants.len() as u64, more };
    Ok(response::json(StatusCode::OK, &OverviewJson::of(&overview, tenants)))
}

#[derive(Serialize)]
struct AttemptsFeedJson<'a> {
    items: Vec<AttemptSummaryJson<'a>>,
    left_out: u64,
    next: String,
}

#[derive(Serialize)]
struct AttemptSummaryJson<'a> {
    delivery_id: &'a str,
    event_id: &'a str,
    r#type: &'a str,
    subscription_id: &'a str,
    url_id: &'a str,
    epoch: u32,
    n: u32,
    at: Time,
    outcome: AttemptOutcome,
    status: Option<u16>,
    error: Option<&'a str>,
    ms: u64,
}

impl<'a> AttemptSummaryJson<'a> {
    fn of(attempt: &'a AttemptSummary) -> AttemptSummaryJson<'a> {
        AttemptSummaryJson {
            delivery_id: &attempt.delivery_id,
            event_id: &attempt.event_id,
            r#type: &attempt.event_type,
            subscription_id: &attempt.subscription_id,
            url_id: &attempt.url_id,
            epoch: attempt.epoch,
            n: attempt.n,
            at: Time(attempt.at),
            outcome: attempt.outcome,
            status: attempt.status,
            error: attempt.error.as_deref(),
            ms: attempt.ms,
        }
    }
}

/// A feed without an end: `next` is always present, and later attempts come after it.
pub(crate) async fn attempts(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    params: Params,
) -> Result<Response, Problem> {
    let request = params.page_by("after", "attempts", &tenant)?;
    let page = app.engine.attempts_feed(&tenant, request.after.as_deref(), request.limit).await?;
    let items = page.items.iter().map(AttemptSummaryJson::of).collect();
    let feed = AttemptsFeedJson { items, left_out: page.omitted, next: request.cursors.encode(&page.next) };
    Ok(response::json(StatusCode::OK, &feed))
}
