//! `/v1/urls`

use axum::response::Response;
use holdfast_core::engine::{ChangeUrlStateError, Engine, UrlStateChange, UrlView};
use holdfast_core::ids::{JobId, Tenant, UrlId};
use holdfast_core::records::HistoryEntry;
use holdfast_core::rules::health::{OperatorAction, UrlState};
use serde::Serialize;

use crate::Problem;
use crate::auth::{Admin, ListScope};
use crate::body::RequestBody;
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::whole_secs;
use crate::response::{self, Time};

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
    parked: u64,
    parked_more: bool,
    history: Vec<StateChangeJson<'a>>,
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
        let history = view.history.as_deref().unwrap_or_default();
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
            next_probe_at: health.next_probe_at.map(Time),
            generation: health.generation,
            releasing: view.url.releasing.is_some(),
            details: view.parked.map(|(parked, parked_more)| UrlDetailsJson {
                parked,
                parked_more,
                history: history.iter().map(StateChangeJson::of).collect(),
            }),
            release: None,
        }
    }
}

impl<'a> StateChangeJson<'a> {
    fn of(entry: &'a HistoryEntry) -> StateChangeJson<'a> {
        StateChangeJson { at: Time(entry.at), from: entry.from, to: entry.to, by: &entry.by, why: &entry.why }
    }
}

const STATES: [UrlState; 3] = [UrlState::Enabled, UrlState::Disabled, UrlState::Frozen];

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let state = params.one_of("state", &STATES, UrlState::as_str);
    let engine = &scope.app.engine;
    let load =
        |tenant, after, limit| async move { Ok(engine.list_urls(&tenant, state, after, limit).await?) };
    let page = scope.list("urls", params, load).await?;
    Ok(response::list(&page, UrlJson::of))
}

pub(crate) async fn get(admin: Admin, id: PathId) -> Result<Response, Problem> {
    let found = admin.engine.view_url(&admin.tenant, &id.url()?).await?;
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
    admit_change(engine, tenant, &id)?;
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
pub(crate) fn admit_change(engine: &Engine, tenant: &Tenant, id: &UrlId) -> Result<(), Problem> {
    engine.take_url_change(tenant, id).map_err(|wait| {
        let secs = whole_secs(wait);
        let detail = format!(
            "Not changed: this URL was changed or replayed 10 times within the last minute; try again after {secs} s."
        );
        Problem::too_many(wait, detail)
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
