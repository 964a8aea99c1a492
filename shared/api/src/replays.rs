//! `/v1/replays`, and the calls that begin a replay

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::ReplayError;
use holdfast_core::records::{ReplayOf, ReplayRecord, ReplayState, UrlReplay};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::answer::{self, Time};
use crate::auth::Admin;
use crate::fields::Fields;
use crate::path::PathId;
use crate::posted::Posted;
use crate::{App, Problem};

/// What is told when a replay was taken.
#[derive(Serialize)]
struct Begun<'a> {
    id: &'a str,
    matched: u64,
    /// There are more than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Serialize)]
struct ShownReplay<'a> {
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

impl<'a> ShownReplay<'a> {
    fn of(replay: &'a ReplayRecord) -> ShownReplay<'a> {
        let (delivery, url) = match &replay.of {
            ReplayOf::Delivery(key) => (Some(key), None),
            ReplayOf::Url(url) => (None, Some(url)),
        };
        ShownReplay {
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

pub(crate) async fn view(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let found = app.engine.view_replay(&tenant, &id.replay()?).await?;
    let replay = found.ok_or_else(|| Problem::not_found("replay"))?;
    Ok(answer::json(StatusCode::OK, &ShownReplay::of(&replay)))
}

pub(crate) async fn of_delivery(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    match app.engine.replay(&id.delivery(&tenant)?).await {
        Ok(id) => {
            let begun = Begun { id: id.as_str(), matched: 1, more: false };
            Ok(answer::json(StatusCode::ACCEPTED, &begun))
        }
        Err(ReplayError::Unknown) => Err(Problem::not_found("delivery")),
        Err(ReplayError::Unavailable(error)) => Err(error.into()),
        Err(
            error @ (ReplayError::Live(_)
            | ReplayError::BodyGone
            | ReplayError::Unsubscribed
            | ReplayError::Inactive),
        ) => Err(Problem::conflict(format!("Not replayed: {error}."))),
    }
}

pub(crate) async fn of_url(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let url_id = id.url()?;
    let Wish { since, until, states } = wish_of(&body, app.engine.clock().now())?;
    let wanted = UrlReplay { url_id, since, until, states, expired_since: None };
    let begun = app.engine.replay_url(&tenant, wanted).await?;
    let replay = begun.ok_or_else(|| Problem::not_found("URL"))?;
    let begun = Begun { id: replay.id.as_str(), matched: replay.matched, more: replay.more };
    Ok(answer::json(StatusCode::ACCEPTED, &begun))
}

struct Wish {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    states: Vec<DeliveryState>,
}

/// No body at all is fine: everything dead is replayed.
fn wish_of(body: &[u8], now: Timestamp) -> Result<Wish, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(Wish { since: None, until: None, states: vec![DeliveryState::Dead] });
    }
    let mut fields = Fields::of_body(body)?;
    let (since, until) = (time(&mut fields, "since"), time(&mut fields, "until"));
    match (since, until) {
        (Some(since), Some(until)) if since > until => {
            fields.fault("since", "must not be later than `until`");
        }
        (Some(since), None) if since > now => {
            fields.fault("since", "must not be later than now, which is where `until` is if it is not given");
        }
        _ => {}
    }
    let states = states_of(&mut fields);
    let faults = fields.finish();
    if faults.is_empty() { Ok(Wish { since, until, states }) } else { Err(Problem::invalid(faults)) }
}

fn time(fields: &mut Fields<'_>, name: &str) -> Option<Timestamp> {
    const WANTED: &str = "a time in RFC 3339 such as 2026-01-31T12:00:00Z";
    let given: String = fields.optional(name, WANTED)?;
    let time = Timestamp::parse(&given);
    if time.is_none() {
        fields.fault(name, format!("must be {WANTED}"));
    }
    time
}

fn states_of(fields: &mut Fields<'_>) -> Vec<DeliveryState> {
    const WANTED: &str = r#"a list of "dead" and "delivered", or left out for ["dead"]"#;
    let Some(given) = fields.optional::<Vec<String>>("states", WANTED) else {
        return vec![DeliveryState::Dead];
    };
    let mut states = Vec::new();
    for state in [DeliveryState::Dead, DeliveryState::Delivered] {
        if given.iter().any(|name| name == state.as_str()) {
            states.push(state);
        }
    }
    let all_known = given.iter().all(|name| states.iter().any(|state| name == state.as_str()));
    if given.is_empty() || !all_known {
        fields.fault("states", format!("must be {WANTED}; what is waiting or parked cannot be replayed"));
    }
    states
}
