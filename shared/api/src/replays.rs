//! `/v1/replays`, and the calls that start a replay

use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{ReplayError, ReplayUrlError};
use holdfast_core::ids::UrlId;
use holdfast_core::records::{ReplayOf, ReplayRecord, ReplayState, UrlReplay};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::Problem;
use crate::auth::{Admin, ListScope, Viewer};
use crate::body::RequestBody;
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::whole_secs;
use crate::response::{self, Time};
use crate::suggest::quote;
use crate::urls::admit_change;

#[derive(Serialize)]
struct ReplayStartedJson<'a> {
    id: &'a str,
    matched: u64,
    /// There are more than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Serialize)]
struct ReplayJson<'a> {
    id: &'a str,
    state: ReplayState,
    #[serde(skip_serializing_if = "Option::is_none")]
    url_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_id: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    states: &'a [DeliveryState],
    matched: u64,
    more: bool,
    done: u64,
    skipped: u64,
    created_at: Time,
    ended_at: Option<Time>,
}

impl<'a> ReplayJson<'a> {
    fn of(replay: &'a ReplayRecord) -> ReplayJson<'a> {
        let (delivery, url) = match &replay.of {
            ReplayOf::Delivery(key) => (Some(key), None),
            ReplayOf::Url(url) => (None, Some(url)),
        };
        ReplayJson {
            id: replay.id.as_str(),
            state: replay.state,
            url_id: url.map(|url| url.url_id.as_str()),
            delivery_id: delivery.map(|key| key.id()),
            since: url.and_then(|url| url.since).map(Time),
            until: url.map(|url| Time(url.until.unwrap_or(replay.created_at))),
            states: url.map_or(&[], |url| &url.states),
            matched: replay.matched,
            more: replay.more,
            done: replay.done,
            skipped: replay.skipped,
            created_at: Time(replay.created_at),
            ended_at: replay.ended_at.map(Time),
        }
    }
}

pub(crate) async fn list(scope: ListScope, params: Params) -> Result<Response, Problem> {
    let engine = &scope.app.engine;
    let load = |tenant, after, limit| async move { Ok(engine.list_replays(&tenant, after, limit).await?) };
    let page = scope.list("replays", params, load).await?;
    Ok(response::list(&page, ReplayJson::of))
}

pub(crate) async fn get(viewer: Viewer, id: PathId) -> Result<Response, Problem> {
    let found = viewer.engine.view_replay(&viewer.tenant, &id.replay()?).await?;
    let replay = found.ok_or_else(|| Problem::not_found("replay"))?;
    Ok(response::ok(&ReplayJson::of(&replay)))
}

pub(crate) async fn replay_delivery(admin: Admin, id: PathId) -> Result<Response, Problem> {
    let replayed = admin.engine.replay(&id.delivery(&admin.tenant)?, &admin.by).await;
    let id = replayed.map_err(|error| match error {
        ReplayError::Unknown => Problem::not_found("delivery"),
        ReplayError::Unavailable(error) => error.into(),
        ReplayError::OverQuota(refused) => {
            let (wait, secs) = (refused.retry_after(), whole_secs(refused.retry_after()));
            let detail = format!(
                "Not replayed: {refused}; replay again after {secs} s, or ask an operator to raise the quota."
            );
            Problem::too_many(wait, detail)
        }
        ReplayError::Live(_)
        | ReplayError::TooOften
        | ReplayError::BodyGone
        | ReplayError::Unsubscribed
        | ReplayError::Inactive => Problem::conflict(format!("Not replayed: {error}.")),
    })?;
    let started = ReplayStartedJson { id: id.as_str(), matched: 1, more: false };
    Ok(response::json(StatusCode::ACCEPTED, &started))
}

pub(crate) async fn replay_url(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    let url_id = id.url()?;
    let now = admin.engine.clock().now();
    let (wanted, _held) = body.parse(move |body| parse_request(body, url_id, now)).await?;
    admit_change(&admin.engine, &admin.tenant, &wanted.url_id, None)?;
    let replay = admin.engine.replay_url(&admin.tenant, wanted, &admin.by).await.map_err(|error| match error {
        ReplayUrlError::UnknownUrl => Problem::not_found("URL"),
        ReplayUrlError::Running(id) => Problem::conflict(format!(
            "The replay {id} of this URL is running; see GET /v1/replays/{id}, and start another one when it is done."
        )),
        ReplayUrlError::Unavailable(error) => error.into(),
    })?;
    let started = ReplayStartedJson { id: replay.id.as_str(), matched: replay.matched, more: replay.more };
    Ok(response::json(StatusCode::ACCEPTED, &started))
}

/// Without a body, all dead deliveries are replayed.
pub(crate) fn parse_request(body: &[u8], url_id: UrlId, now: Timestamp) -> Result<UrlReplay, Problem> {
    if body.trim_ascii().is_empty() {
        let states = vec![DeliveryState::Dead];
        return Ok(UrlReplay { url_id, since: None, until: None, states, expired_since: None });
    }
    let mut fields = Fields::of_body(body)?;
    let (since, until) = (parse_time(&mut fields, "since"), parse_time(&mut fields, "until"));
    match (since, until) {
        (Some(since), Some(until)) if since > until => {
            fields.reject("since", "is later than `until`; give an earlier time");
        }
        (Some(since), None) if since > now => {
            fields.reject("since", "is later than now, the default of `until`; give an earlier time");
        }
        _ => {}
    }
    let states = parse_states(&mut fields);
    let errors = fields.finish();
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    Ok(UrlReplay { url_id, since, until, states, expired_since: None })
}

fn parse_time(fields: &mut Fields<'_>, name: &'static str) -> Option<Timestamp> {
    const WANTED: &str = "a time in RFC 3339 such as 2026-01-31T12:00:00Z";
    let given: String = fields.optional(name, WANTED)?;
    let time = Timestamp::parse(&given);
    if time.is_none() {
        fields.reject(name, format!("must be {WANTED}, not {}", quote(&given)));
    }
    time
}

fn parse_states(fields: &mut Fields<'_>) -> Vec<DeliveryState> {
    const WANTED: &str = r#"a list of "dead" and "delivered", or left out for ["dead"]"#;
    let Some(given) = fields.optional::<Vec<String>>("states", WANTED) else {
        return vec![DeliveryState::Dead];
    };
    let mut states = vec![DeliveryState::Dead, DeliveryState::Delivered];
    states.retain(|state| given.iter().any(|name| name == state.as_str()));
    let all_known = given.iter().all(|name| states.iter().any(|state| name == state.as_str()));
    if given.is_empty() || !all_known {
        let detail = format!("must be {WANTED}; waiting and parked deliveries cannot be replayed");
        fields.reject("states", detail);
    }
    states
}
