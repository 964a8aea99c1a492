//! `/v1/urls`

use axum::response::Response;
use holdfast_core::engine::{
    ChangeUrlStateError, ChangedTooOften, Engine, TroubleSort, UrlDetails, UrlFilter, UrlStateChange, UrlView,
};
use holdfast_core::ids::{JobId, Tenant, UrlId};
use holdfast_core::ports::Order;
use holdfast_core::records::HistoryEntry;
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_core::rules::last_failure::{AttemptError, ErrorKind};
use holdfast_core::rules::url_form;
use serde::Serialize;

use crate::Problem;
use crate::auth::{Admin, ListScope, Viewer};
use crate::body::RequestBody;
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::whole_secs;
use crate::response::{self, Time};
use crate::subscriptions::changed_too_often;

const MAX_REASON_CHARS: usize = 1_024;

#[derive(Serialize)]
struct UrlJson<'a> {
    id: &'a str,
    url: &'a str,
    state: UrlState,
    since: Time,
    reason: &'a str,
    streak: u64,
    window_attempts: u64,
    window_failures: u64,
    window_first_attempts: u64,
    window_first_failures: u64,
    last_success_at: Option<Time>,
    last_failure_at: Option<Time>,
    last_error: Option<LastErrorJson<'a>>,
    failing: bool,
    failing_since: Option<Time>,
    recent_ms: Option<u32>,
    subscriptions: Option<u64>,
    next_probe_at: Option<Time>,
    generation: u64,
    releasing: bool,
    #[serde(flatten)]
    details: Option<UrlDetailsJson<'a>>,
    #[serde(flatten)]
    release: Option<ReleaseJson>,
}

/// Left out in lists.
#[derive(Serialize)]
struct UrlDetailsJson<'a> {
    waiting: u64,
    waiting_more: bool,
    parked: u64,
    parked_more: bool,
    oldest_expiry: Option<Time>,
    history: Vec<StateChangeJson<'a>>,
}

/// Why the last failed attempt failed.
#[derive(Serialize)]
pub(crate) struct LastErrorJson<'a> {
    kind: ErrorKind,
    status: Option<u16>,
    text: &'a str,
}

impl<'a> LastErrorJson<'a> {
    pub(crate) fn of(error: &'a AttemptError) -> LastErrorJson<'a> {
        LastErrorJson { kind: error.kind, status: error.status, text: &error.text }
    }
}

#[derive(Serialize)]
struct ReleaseJson {
    released: u64,
    expired: u64,
    more: bool,
    /// The replay of expired deliveries, if it was requested.
    replay: Option<JobId>,
}

#[derive(Serialize)]
struct StateChangeJson<'a> {
    at: Time,
    from: UrlState,
    to: UrlState,
    by: &'a str,
    why: &'a str,
}

impl<'a> UrlJson<'a> {
    fn of(view: &'a UrlView) -> UrlJson<'a> {
        let health = &view.url.health;
        let last_failure = health.last_failure.as_ref();
        UrlJson {
            id: view.url.id.as_str(),
            url: &view.url.url,
            state: health.state,
            since: Time(health.since),
            reason: &health.reason,
            streak: health.streak,
            window_attempts: health.window_attempts,
            window_failures: health.window_failures,
            window_first_attempts: health.window_first_attempts,
            window_first_failures: health.window_first_failures,
            last_success_at: health.last_success_at.map(Time),
            last_failure_at: last_failure.map(|last| Time(last.at)),
            last_error: last_failure.map(|last| LastErrorJson::of(&last.error)),
            failing: health.failing,
            failing_since: health.failing_since.map(Time),
            recent_ms: health.silent_since().map(|_| view.url.recent_ms),
            subscriptions: view.url.subscriptions,
            next_probe_at: health.next_probe_at.map(Time),
            generation: health.generation,
            releasing: view.url.releasing.is_some(),
            details: view.details.as_ref().map(UrlDetailsJson::of),
            release: None,
        }
    }
}

impl<'a> UrlDetailsJson<'a> {
    fn of(details: &'a UrlDetails) -> UrlDetailsJson<'a> {
        UrlDetailsJson {
            waiting: details.waiting.count,
            waiting_more: details.waiting.more,
            parked: details.parked.count,
            parked_more: details.parked.more,
            oldest_expiry: details.oldest_expiry.map(Time),
            history: details.history.iter().map(StateChangeJson::of).collect(),
        }
    }
}

impl<'a> StateChangeJson<'a> {
    fn of(entry: &'a HistoryEntry) -> StateChangeJson<'a> {
        StateChangeJson { at: Time(entry.at), from: entry.from, to: entry.to, by: &entry.by, why: &entry.why }
    }
}

const STATES: [UrlState; 3] = [UrlState::Enabled, UrlState::Disabled, UrlState::Frozen];

const SORTS: [TroubleSort; 2] = [TroubleSort::FailingSince, TroubleSort::LastFailureAt];
pub(crate) const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

pub(crate) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Ascending => "asc",
        Order::Descending => "desc",
    }
}

/// What to list. Each filter has a list or an index of its own, so only `sort` and `order` go together with another one.
pub(crate) fn parse_filter(params: &mut Params) -> UrlFilter {
    let state = params.one_of("state", &STATES, UrlState::as_str);
    let is_failing = params.one_of("failing", &[true], |_| "true").is_some();
    let sort = params.one_of("sort", &SORTS, TroubleSort::as_str);
    let order = params.one_of("order", &ORDERS, order_name);
    let url = params.filter("url");
    if url.is_some() && is_failing {
        params.reject_beside("failing", "url");
    }
    if let (true, Some(other)) =
        (state.is_some(), if is_failing { Some("failing") } else { url.as_ref().map(|_| "url") })
    {
        params.reject_beside("state", other);
    }
    for (name, is_given) in [("sort", sort.is_some()), ("order", order.is_some())] {
        if is_given && !is_failing {
            params.reject(name, "is only known for URLs in trouble; add failing=true, or leave it out");
        }
    }
    match (url, state) {
        (Some(url), _) => parse_url_filter(&url, params),
        (None, _) if is_failing => {
            UrlFilter::Failing(sort.unwrap_or(TroubleSort::FailingSince), order.unwrap_or(Order::Ascending))
        }
        (None, Some(state)) => UrlFilter::State(state),
        (None, None) => UrlFilter::All,
    }
}

/// A URL, or the beginning of URLs, before `*`.
fn parse_url_filter(given: &str, params: &mut Params) -> UrlFilter {
    let prefix = given.strip_suffix('*');
    let text = prefix.unwrap_or(given);
    // Without a path, the host may not be complete.
    let has_path = text.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if let (Some(prefix), false) = (prefix, has_path) {
        return UrlFilter::Prefix(prefix.to_ascii_lowercase());
    }
    match (url_form::normalise(text, true), prefix) {
        (Ok(url), Some(_)) => UrlFilter::Prefix(url),
        (Ok(url), None) => UrlFilter::Exact(UrlId::of(&url)),
        (Err(error), _) => {
            params.reject("url", error.to_string());
            UrlFilter::All
        }
    }
}

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let filter = parse_filter(&mut params);
    let (engine, filter) = (&scope.app.engine, &filter);
    let load =
        |tenant, after, limit| async move { Ok(engine.list_urls(&tenant, filter, after, limit).await?) };
    let page = scope.list("urls", params, load).await?;
    Ok(response::list(&page, UrlJson::of))
}

pub(crate) async fn get(viewer: Viewer, id: PathId) -> Result<Response, Problem> {
    let found = viewer.engine.view_url(&viewer.tenant, &id.url()?).await?;
    let view = found.ok_or_else(|| Problem::not_found("URL"))?;
    Ok(response::ok(&UrlJson::of(&view)))
}

pub(crate) async fn enable(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    change_state(&admin, &id, OperatorAction::Enable, body).await
}

pub(crate) async fn freeze(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    change_state(&admin, &id, OperatorAction::Freeze, body).await
}

pub(crate) async fn disable(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    change_state(&admin, &id, OperatorAction::Disable, body).await
}

async fn change_state(
    Admin { engine, tenant, by, .. }: &Admin,
    id: &PathId,
    action: OperatorAction,
    body: RequestBody,
) -> Result<Response, Problem> {
    let id = id.url()?;
    let ((reason, replay_expired), _held) = body.parse(move |body| parse_request(body, action)).await?;
    admit_change(engine, tenant, &id, reason.as_deref())?;
    let changed = engine.change_url_state(tenant, &id, action, reason.as_deref(), replay_expired, by).await;
    let UrlStateChange { url, released, expired, more, replay } = changed.map_err(|error| match error {
        ChangeUrlStateError::Unknown => Problem::not_found("URL"),
        ChangeUrlStateError::Frozen(_) => Problem::conflict(
            "A frozen URL cannot be disabled, because a probe would enable it again; enable it first, or leave it frozen.",
        ),
        ChangeUrlStateError::Unavailable(error) => error.into(),
    })?;
    let release = ReleaseJson { released, expired, more, replay };
    let release = (action == OperatorAction::Enable).then_some(release);
    Ok(response::ok(&UrlJson { release, ..UrlJson::of(&url) }))
}

/// A URL is changed by hand, and replayed in bulk, no more often than people do.
pub(crate) fn admit_change(
    engine: &Engine,
    tenant: &Tenant,
    id: &UrlId,
    reason: Option<&str>,
) -> Result<(), Problem> {
    engine.take_url_change(tenant, id, reason).map_err(|too_often| match too_often {
        ChangedTooOften::Url(wait) => {
            let secs = whole_secs(wait);
            let detail = format!(
                "Not changed: this URL was changed or replayed 10 times within the last minute; try again after {secs} s."
            );
            Problem::too_many(wait, detail)
        }
        ChangedTooOften::Tenant(wait) => changed_too_often(wait),
    })
}

/// The reason, and whether to replay expired deliveries. The body is optional.
pub(crate) fn parse_request(body: &[u8], action: OperatorAction) -> Result<(Option<String>, bool), Problem> {
    if body.trim_ascii().is_empty() {
        return Ok((None, false));
    }
    let mut fields = Fields::of_body(body)?;
    let reason: Option<String> = fields.optional("reason", "a string");
    fields.check_length("reason", reason.as_deref(), MAX_REASON_CHARS);
    let replay_expired = action == OperatorAction::Enable
        && fields.optional("replay_expired", "true or false").unwrap_or(false);
    let errors = fields.finish();
    if errors.is_empty() { Ok((reason, replay_expired)) } else { Err(Problem::invalid(errors)) }
}
