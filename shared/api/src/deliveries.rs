//! `/v1/deliveries`

use axum::response::Response;
use holdfast_core::engine::{DeliveryFilter, DeliveryView, ListError, Page, Scope};
use holdfast_core::records::Attempt;
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState, Reason};
use serde::Serialize;

use crate::Problem;
use crate::auth::{ListScope, Viewer};
use crate::events::is_id;
use crate::params::Params;
use crate::path::{self, PathId};
use crate::response::{self, Time};

#[derive(Serialize)]
pub(crate) struct DeliveryJson<'a> {
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
    attempts: Vec<AttemptJson<'a>>,
}

#[derive(Serialize)]
struct AttemptJson<'a> {
    n: u32,
    epoch: u32,
    #[serde(flatten)]
    result: AttemptResultJson<'a>,
}

#[derive(Serialize)]
pub(crate) struct AttemptResultJson<'a> {
    at: Time,
    outcome: AttemptOutcome,
    status: Option<u16>,
    error: Option<&'a str>,
    ms: u64,
    excerpt: Option<&'a str>,
}

/// In lists, so that a page stays below the maximum size of a Lambda response.
const MAX_LISTED_EXCERPT_BYTES: usize = 256;

impl<'a> DeliveryJson<'a> {
    /// As an item of a list.
    pub(crate) fn of(view: &'a DeliveryView) -> DeliveryJson<'a> {
        DeliveryJson::with_excerpts(view, MAX_LISTED_EXCERPT_BYTES)
    }

    fn with_excerpts(view: &'a DeliveryView, max_bytes: usize) -> DeliveryJson<'a> {
        let attempts = view.attempts.iter().map(|attempt| AttemptJson {
            n: attempt.n,
            epoch: attempt.epoch,
            result: AttemptResultJson::of(attempt, max_bytes),
        });
        DeliveryJson {
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
            attempts: attempts.collect(),
        }
    }
}

impl<'a> AttemptResultJson<'a> {
    pub(crate) fn of(attempt: &'a Attempt, max_excerpt_bytes: usize) -> AttemptResultJson<'a> {
        AttemptResultJson {
            at: Time(attempt.at),
            outcome: attempt.outcome,
            status: attempt.status,
            error: attempt.error.as_deref(),
            ms: attempt.ms,
            excerpt: attempt.excerpt.as_deref().map(|text| truncate(text, max_excerpt_bytes)),
        }
    }
}

/// Cuts between characters.
fn truncate(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

const STATES: [DeliveryState; 4] =
    [DeliveryState::Waiting, DeliveryState::Parked, DeliveryState::Delivered, DeliveryState::Dead];

/// `None`: a filter names an id that cannot exist, so the list is empty.
pub(crate) fn parse_filter(params: &mut Params) -> Option<DeliveryFilter> {
    let event = params.filter("event");
    let url = params.url_or_id("url");
    let subscription = params.filter("subscription").map(|id| path::subscription_id(&id));
    let state = params.one_of("state", &STATES, DeliveryState::as_str);
    let (since, until) = (params.time("since"), params.time("until"));
    if event.as_ref().is_some_and(|id| !is_id(id)) {
        return None;
    }
    if url.as_ref().is_some_and(|id| path::url_id(id.as_str()).is_none()) {
        return None;
    }
    let subscription = subscription.map_or(Some(None), |id| id.map(Some))?;
    let scope = match (event, &url, &subscription) {
        (Some(id), _, _) => Scope::Event(id),
        (None, Some(id), _) => Scope::Url(id.clone()),
        (None, None, Some(id)) => Scope::Subscription(id.clone()),
        (None, None, None) => Scope::Tenant,
    };
    Some(DeliveryFilter { scope, url, subscription, state, since, until })
}

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let filter = parse_filter(&mut params);
    let (engine, filter) = (&scope.app.engine, filter.as_ref());
    let load = |tenant, after, limit| async move {
        let empty = Page { items: Vec::new(), next: None };
        let Some(filter) = filter else { return Ok(empty) };
        match engine.list_deliveries(&tenant, filter, after, limit).await {
            Ok(page) => Ok(page),
            Err(ListError::UnknownEvent) => Ok(empty),
            Err(ListError::Unavailable(error)) => Err(error.into()),
        }
    };
    let page = scope.list("deliveries", params, load).await?;
    Ok(response::list(&page, DeliveryJson::of))
}

pub(crate) async fn get(viewer: Viewer, id: PathId) -> Result<Response, Problem> {
    let found = viewer.engine.view_delivery(&id.delivery(&viewer.tenant)?).await?;
    let view = found.ok_or_else(|| Problem::not_found("delivery"))?;
    Ok(response::ok(&DeliveryJson::with_excerpts(&view, usize::MAX)))
}
