//! `/v1/deliveries`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{DeliveryFilter, DeliveryView, ListError, ListPage, Scope};
use holdfast_core::records::Attempt;
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState, Reason};
use serde::Serialize;

use crate::answer::{self, Time};
use crate::auth::{Across, Admin};
use crate::events::is_id;
use crate::params::Params;
use crate::path::{self, PathId};
use crate::{App, Problem};

#[derive(Serialize)]
pub(crate) struct ShownDelivery<'a> {
    id: &'a str,
    event_id: &'a str,
    r#type: &'a str,
    subscription_id: &'a str,
    url_id: &'a str,
    url: &'a str,
    state: DeliveryState,
    reason: Option<Reason>,
    epoch: u32,
    accepted_at: Time,
    due_at: Option<Time>,
    expires_at: Option<Time>,
    attempts: Vec<ShownAttempt<'a>>,
}

#[derive(Serialize)]
struct ShownAttempt<'a> {
    n: u32,
    epoch: u32,
    at: Time,
    outcome: AttemptOutcome,
    status: Option<u16>,
    error: Option<&'a str>,
    ms: u64,
    excerpt: Option<&'a str>,
}

/// How much of a receiver's answer is shown where there are many: all of it would make a page larger than a function may answer.
const SHORT_EXCERPT: usize = 256;

impl<'a> ShownDelivery<'a> {
    /// One of many.
    pub(crate) fn of(view: &'a DeliveryView) -> ShownDelivery<'a> {
        ShownDelivery::with_excerpts(view, SHORT_EXCERPT)
    }

    fn with_excerpts(view: &'a DeliveryView, longest: usize) -> ShownDelivery<'a> {
        ShownDelivery {
            id: &view.id,
            event_id: &view.event_id,
            r#type: &view.event_type,
            subscription_id: view.subscription_id.as_str(),
            url_id: view.url_id.as_str(),
            url: &view.url,
            state: view.state,
            reason: view.reason,
            epoch: view.epoch,
            accepted_at: Time(view.accepted_at),
            due_at: view.due_at.map(Time),
            expires_at: view.expires_at.map(Time),
            attempts: view.attempts.iter().map(|attempt| ShownAttempt::of(attempt, longest)).collect(),
        }
    }
}

impl<'a> ShownAttempt<'a> {
    fn of(attempt: &'a Attempt, longest: usize) -> ShownAttempt<'a> {
        ShownAttempt {
            n: attempt.n,
            epoch: attempt.epoch,
            at: Time(attempt.at),
            outcome: attempt.outcome,
            status: attempt.status,
            error: attempt.error.as_deref(),
            ms: attempt.ms,
            excerpt: attempt.excerpt.as_deref().map(|text| beginning(text, longest)),
        }
    }
}

/// At most so many bytes of it, and no half character.
fn beginning(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

const STATES: [(&str, DeliveryState); 4] = [
    ("waiting", DeliveryState::Waiting),
    ("parked", DeliveryState::Parked),
    ("delivered", DeliveryState::Delivered),
    ("dead", DeliveryState::Dead),
];

/// Takes the filters. `None`: an id that nothing can have was asked for, so that the list is empty.
fn filter_of(params: &mut Params) -> Option<DeliveryFilter> {
    let event = params.text("event");
    let url = params.text("url").map(|id| path::url_id(&id));
    let subscription = params.text("subscription").map(|id| path::subscription_id(&id));
    let state = params.word("state", &STATES);
    let (since, until) = (params.time("since"), params.time("until"));
    if event.as_ref().is_some_and(|id| !is_id(id)) {
        return None;
    }
    // Inside out: an id that was given must be one.
    let url = url.map_or(Some(None), |id| id.map(Some))?;
    let subscription = subscription.map_or(Some(None), |id| id.map(Some))?;
    let scope = match (event, &url, &subscription) {
        (Some(id), _, _) => Scope::Event(id),
        (None, Some(id), _) => Scope::Url(id.clone()),
        (None, None, Some(id)) => Scope::Subscription(id.clone()),
        (None, None, None) => Scope::Tenant,
    };
    Some(DeliveryFilter { scope, url, subscription, state, since, until })
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    across: Across,
    mut params: Params,
) -> Result<Response, Problem> {
    let filter = filter_of(&mut params);
    let part = params.finish("deliveries", &across.tag())?;
    let (engine, filter) = (&app.engine, filter.as_ref());
    let load = |tenant, after, limit| async move {
        let nothing = ListPage { items: Vec::new(), next: None };
        let Some(filter) = filter else { return Ok(nothing) };
        match engine.list_deliveries(&tenant, filter, after, limit).await {
            Ok(page) => Ok(page),
            Err(ListError::UnknownEvent) => Ok(nothing),
            Err(ListError::Unavailable(error)) => Err(error.into()),
        }
    };
    let page = across.list(&app, &part, load).await?;
    Ok(answer::list(&page, &part.tag, ShownDelivery::of))
}

pub(crate) async fn view(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let found = app.engine.view_delivery(&id.delivery(&tenant)?).await?;
    let view = found.ok_or_else(|| Problem::not_found("delivery"))?;
    Ok(answer::json(StatusCode::OK, &ShownDelivery::with_excerpts(&view, usize::MAX)))
}
