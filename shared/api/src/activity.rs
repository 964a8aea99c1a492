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

use crate::answer::{self, Time};
use crate::auth::{Across, Admin};
use crate::params::Params;
use crate::{App, Problem};

const DEFAULT_MINUTES: u32 = 60;

#[derive(Serialize)]
struct ShownOverview {
    at: Time,
    totals: ShownCounts,
    latency_ms: Option<LatencySummary>,
    waiting: ShownCount,
    parked: ShownCount,
    dead: ShownCount,
    urls: ShownUrls,
    /// How many tenants these are the numbers of.
    tenants: ShownCount,
    minutes: Vec<ShownMinute>,
}

#[derive(Serialize)]
struct ShownCounts {
    events: u64,
    attempts: ShownAttempts,
}

#[derive(Serialize)]
struct ShownAttempts {
    success: u64,
    failure: u64,
    interrupted: u64,
}

#[derive(Serialize)]
struct ShownCount {
    count: u64,
    more: bool,
}

#[derive(Serialize)]
struct ShownUrls {
    enabled: u64,
    disabled: u64,
    frozen: u64,
    more: bool,
}

#[derive(Serialize)]
struct ShownMinute {
    minute: Time,
    #[serde(flatten)]
    counts: ShownCounts,
    /// Nothing if no attempt ended.
    latency_ms: Option<LatencySummary>,
}

impl ShownCounts {
    fn of(counts: &Counts) -> ShownCounts {
        let Counts { success, failure, interrupted, .. } = *counts;
        ShownCounts { events: counts.events, attempts: ShownAttempts { success, failure, interrupted } }
    }
}

impl From<Count> for ShownCount {
    fn from(Count { count, more }: Count) -> ShownCount {
        ShownCount { count, more }
    }
}

impl ShownMinute {
    fn of((minute, counts): &(Timestamp, Counts)) -> ShownMinute {
        let latency_ms = counts.latency.summary();
        ShownMinute { minute: Time(*minute), counts: ShownCounts::of(counts), latency_ms }
    }
}

impl ShownOverview {
    fn of(overview: &Overview, tenants: ShownCount) -> ShownOverview {
        let UrlCounts { enabled, disabled, frozen, more } = overview.urls;
        ShownOverview {
            at: Time(overview.at),
            totals: ShownCounts::of(&overview.totals),
            latency_ms: overview.totals.latency.summary(),
            waiting: overview.waiting.into(),
            parked: overview.parked.into(),
            dead: overview.dead.into(),
            urls: ShownUrls { enabled, disabled, frozen, more },
            tenants,
            minutes: overview.minutes.iter().map(ShownMinute::of).collect(),
        }
    }
}

/// Of one tenant, or of all together.
pub(crate) async fn overview(
    State(app): State<Arc<App>>,
    across: Across,
    mut params: Params,
) -> Result<Response, Problem> {
    let minutes = params.number("minutes", 1..=MAX_MINUTES_SHOWN).unwrap_or(DEFAULT_MINUTES);
    params.end()?;
    let (tenants, more) = across.tenants(&app).await?;
    // A tenant that nobody has made yet has nothing: so there is an overview even if there is no tenant at all.
    let mut overview = app.engine.overview(tenants.first().unwrap_or(&across.tag()), minutes).await?;
    for tenant in tenants.iter().skip(1) {
        overview.add(&app.engine.overview(tenant, minutes).await?);
    }
    let tenants = ShownCount { count: tenants.len() as u64, more };
    Ok(answer::json(StatusCode::OK, &ShownOverview::of(&overview, tenants)))
}

#[derive(Serialize)]
struct ShownFeed<'a> {
    items: Vec<ShownGlimpse<'a>>,
    omitted: u64,
    next: String,
}

#[derive(Serialize)]
struct ShownGlimpse<'a> {
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

impl<'a> ShownGlimpse<'a> {
    fn of(glimpse: &'a AttemptSummary) -> ShownGlimpse<'a> {
        ShownGlimpse {
            delivery_id: &glimpse.delivery_id,
            event_id: &glimpse.event_id,
            r#type: &glimpse.event_type,
            subscription_id: &glimpse.subscription_id,
            url_id: &glimpse.url_id,
            epoch: glimpse.epoch,
            n: glimpse.n,
            at: Time(glimpse.at),
            outcome: glimpse.outcome,
            status: glimpse.status,
            error: glimpse.error.as_deref(),
            ms: glimpse.ms,
        }
    }
}

/// Not a list with an end: `next` is always there, and what comes later is found behind it.
pub(crate) async fn attempts(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    params: Params,
) -> Result<Response, Problem> {
    let part = params.finish_by("after", "attempts", &tenant)?;
    let followed = app.engine.attempts_feed(&tenant, part.after.as_deref(), part.limit).await?;
    let items = followed.items.iter().map(ShownGlimpse::of).collect();
    let feed = ShownFeed { items, omitted: followed.omitted, next: part.tag.cursor(&followed.next) };
    Ok(answer::json(StatusCode::OK, &feed))
}
