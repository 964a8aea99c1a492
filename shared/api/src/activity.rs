//! `/v1/overview` and `/v1/attempts`

use axum::response::Response;
use holdfast_core::engine::{AllAttemptsPage, AttemptFilter, MAX_MINUTES_SHOWN, UrlCounts};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::Count;
use holdfast_core::records::AttemptSummary;
use holdfast_core::rules::activity::{Counts, LatencySummary};
use holdfast_core::rules::delivery::AttemptOutcome;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::Problem;
use crate::auth::ListScope;
use crate::params::Params;
use crate::response::{self, Time};

const DEFAULT_MINUTES: u32 = 60;

#[derive(Serialize)]
struct OverviewJson {
    at: Time,
    totals: CountsJson,
    latency_ms: Option<LatencySummary>,
    waiting: Count,
    parked: Count,
    dead: Count,
    urls: UrlCounts,
    /// How many tenants the numbers cover.
    tenants: Count,
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

/// Of one tenant, or the sum of all.
pub(crate) async fn overview(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let minutes = params.number("minutes", 1..=MAX_MINUTES_SHOWN).unwrap_or(DEFAULT_MINUTES);
    params.finish()?;
    let (tenants, more) = scope.tenants().await?;
    // Without any tenant, the overview of one that does not exist is empty.
    let first = tenants.first().cloned().unwrap_or_else(|| scope.cursor_tenant());
    let engine = &scope.app.engine;
    let mut overview = engine.overview(&first, minutes).await?;
    for tenant in tenants.iter().skip(1) {
        overview.add(&engine.overview(tenant, minutes).await?);
    }
    let minutes = overview.minutes.iter().map(|(minute, counts)| MinuteJson {
        minute: Time(*minute),
        counts: CountsJson::of(counts),
        latency_ms: counts.latency.summary(),
    });
    Ok(response::ok(&OverviewJson {
        at: Time(overview.at),
        totals: CountsJson::of(&overview.totals),
        latency_ms: overview.totals.latency.summary(),
        waiting: overview.waiting,
        parked: overview.parked,
        dead: overview.dead,
        urls: overview.urls,
        tenants: Count { count: tenants.len() as u64, more },
        minutes: minutes.collect(),
    }))
}

#[derive(Serialize)]
struct AttemptsFeedJson<'a> {
    items: Vec<FeedItemJson<'a>>,
    left_out: u64,
    next: String,
    /// How many tenants are followed, if they are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenants: Option<Count>,
}

#[derive(Serialize)]
struct FeedItemJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a Tenant>,
    #[serde(flatten, with = "AttemptSummaryJson")]
    attempt: &'a AttemptSummary,
}

/// The record with the API's names and times.
#[derive(Serialize)]
#[serde(remote = "AttemptSummary")]
struct AttemptSummaryJson {
    delivery_id: String,
    event_id: String,
    #[serde(rename = "type")]
    event_type: String,
    subscription_id: String,
    url_id: String,
    epoch: u32,
    n: u32,
    #[serde(serialize_with = "response::time")]
    at: Timestamp,
    outcome: AttemptOutcome,
    status: Option<u16>,
    error: Option<String>,
    ms: u64,
}

const OUTCOMES: [AttemptOutcome; 3] =
    [AttemptOutcome::Success, AttemptOutcome::Failure, AttemptOutcome::Interrupted];

fn outcome_name(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Success => "success",
        AttemptOutcome::Failure => "failure",
        AttemptOutcome::Interrupted => "interrupted",
    }
}

/// A feed without an end: `next` is always present, and later attempts come after it.
pub(crate) async fn attempts(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let filter = AttemptFilter {
        url: params.url_or_id("url"),
        outcome: params.one_of("outcome", &OUTCOMES, outcome_name),
        delivery: params.filter("delivery"),
    };
    let request = params.page("after", "attempts", &scope.cursor_tenant())?;
    let (engine, after) = (&scope.app.engine, request.after.as_deref());
    if let Some(tenant) = scope.tenant() {
        let page = engine.attempts_feed(tenant, &filter, after, request.limit).await?;
        let items = page.items.iter().map(|attempt| FeedItemJson { tenant: None, attempt }).collect();
        let next = request.cursors.encode(&page.next);
        return Ok(response::ok(&AttemptsFeedJson { items, left_out: page.omitted, next, tenants: None }));
    }
    let (tenants, more) = scope.tenants().await?;
    let AllAttemptsPage { items, omitted, next } =
        engine.attempts_of_all(&tenants, &filter, after, request.limit).await?;
    let items =
        items.iter().map(|(tenant, attempt)| FeedItemJson { tenant: Some(tenant), attempt }).collect();
    let tenants = Some(Count { count: tenants.len() as u64, more });
    let next = request.cursors.encode(&next);
    Ok(response::ok(&AttemptsFeedJson { items, left_out: omitted, next, tenants }))
}
