//! `/v1/urls`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use holdfast_core::engine::{ChangeUrlStateError, UrlStateChange, UrlView};
use holdfast_core::ids::JobId;
use holdfast_core::records::HistoryEntry;
use holdfast_core::rules::health::{OperatorAction, UrlState};
use serde::Serialize;

use crate::answer::{self, Time};
use crate::auth::{Across, Admin};
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::posted::Posted;
use crate::{App, Problem};

const MAX_REASON: usize = 1_024;

#[derive(Serialize)]
struct ShownUrl<'a> {
    id: &'a str,
    url: &'a str,
    state: UrlState,
    since: Time,
    reason: &'a str,
    streak: u64,
    window_attempts: u64,
    window_failures: u64,
    last_success_at: Option<Time>,
    next_probe_at: Option<Time>,
    generation: u64,
    releasing: bool,
    #[serde(flatten)]
    more: Option<MoreOfUrl<'a>>,
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// What is shown when one URL is asked for.
#[derive(Serialize)]
struct MoreOfUrl<'a> {
    parked: u64,
    parked_more: bool,
    history: Vec<ShownChange<'a>>,
}

/// What an enable let go.
#[derive(Serialize)]
struct Counts {
    released: u64,
    expired: u64,
    more: bool,
    /// The replay of what expired, if that was asked for.
    replay: Option<JobId>,
}

#[derive(Serialize)]
struct ShownChange<'a> {
    at: Time,
    from: UrlState,
    to: UrlState,
    by: &'a str,
    why: &'a str,
}

impl<'a> ShownUrl<'a> {
    fn of(view: &'a UrlView) -> ShownUrl<'a> {
        let health = &view.url.health;
        let history = view.history.as_deref().unwrap_or_default();
        ShownUrl {
            id: view.url.id.as_str(),
            url: &view.url.url,
            state: health.state,
            since: Time(health.since),
            reason: &health.reason,
            streak: health.streak,
            window_attempts: health.window_attempts,
            window_failures: health.window_failures,
            last_success_at: health.last_success_at.map(Time),
            next_probe_at: health.next_probe_at.map(Time),
            generation: health.generation,
            releasing: view.url.releasing.is_some(),
            more: view.parked.map(|(parked, parked_more)| MoreOfUrl {
                parked,
                parked_more,
                history: history.iter().map(ShownChange::of).collect(),
            }),
            counts: None,
        }
    }
}

impl<'a> ShownChange<'a> {
    fn of(entry: &'a HistoryEntry) -> ShownChange<'a> {
        ShownChange { at: Time(entry.at), from: entry.from, to: entry.to, by: &entry.by, why: &entry.why }
    }
}

const STATES: [(&str, UrlState); 3] =
    [("enabled", UrlState::Enabled), ("disabled", UrlState::Disabled), ("frozen", UrlState::Frozen)];

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    across: Across,
    mut params: Params,
) -> Result<Response, Problem> {
    let state = params.word("state", &STATES);
    let part = params.finish("urls", &across.tag())?;
    let engine = &app.engine;
    let load =
        |tenant, after, limit| async move { Ok(engine.list_urls(&tenant, state, after, limit).await?) };
    let page = across.list(&app, &part, load).await?;
    Ok(answer::list(&page, &part.tag, ShownUrl::of))
}

pub(crate) async fn view(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let found = app.engine.view_url(&tenant, &id.url()?).await?;
    let view = found.ok_or_else(|| Problem::not_found("URL"))?;
    Ok(answer::json(StatusCode::OK, &ShownUrl::of(&view)))
}

pub(crate) async fn enable(
    State(app): State<Arc<App>>,
    admin: Admin,
    id: PathId,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let steered = steer(&app, &admin, &id, OperatorAction::Enable, &body).await?;
    let UrlStateChange { url, released, expired, more, replay } = steered;
    let counts = Counts { released, expired, more, replay };
    Ok(answer::json(StatusCode::OK, &ShownUrl { counts: Some(counts), ..ShownUrl::of(&url) }))
}

pub(crate) async fn freeze(
    State(app): State<Arc<App>>,
    admin: Admin,
    id: PathId,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let steered = steer(&app, &admin, &id, OperatorAction::Freeze, &body).await?;
    Ok(answer::json(StatusCode::OK, &ShownUrl::of(&steered.url)))
}

pub(crate) async fn disable(
    State(app): State<Arc<App>>,
    admin: Admin,
    id: PathId,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let steered = steer(&app, &admin, &id, OperatorAction::Disable, &body).await?;
    Ok(answer::json(StatusCode::OK, &ShownUrl::of(&steered.url)))
}

async fn steer(
    app: &App,
    admin: &Admin,
    id: &PathId,
    action: OperatorAction,
    body: &Bytes,
) -> Result<UrlStateChange, Problem> {
    let id = id.url()?;
    let (reason, replay_expired) = wish_of(body, action)?;
    let steered = app
        .engine
        .change_url_state(&admin.tenant, &id, action, reason.as_deref(), replay_expired, &admin.by)
        .await;
    steered.map_err(|error| match error {
        ChangeUrlStateError::Unknown => Problem::not_found("URL"),
        ChangeUrlStateError::Frozen(_) => Problem::conflict(
            "A frozen URL cannot be disabled: probes would enable it again. Enable it first, or leave it frozen.",
        ),
        ChangeUrlStateError::Unavailable(error) => error.into(),
    })
}

/// The reason, and whether to replay what expired. No body at all is fine.
fn wish_of(body: &[u8], action: OperatorAction) -> Result<(Option<String>, bool), Problem> {
    if body.trim_ascii().is_empty() {
        return Ok((None, false));
    }
    let mut fields = Fields::of_body(body)?;
    let reason: Option<String> = fields.optional("reason", "a string");
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        fields.fault("reason", format!("must have at most {MAX_REASON} characters"));
    }
    let replay_expired = action == OperatorAction::Enable
        && fields.optional("replay_expired", "true or false").unwrap_or(false);
    let faults = fields.finish();
    if faults.is_empty() { Ok((reason, replay_expired)) } else { Err(Problem::invalid(faults)) }
}
