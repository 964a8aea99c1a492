//! `/v1/subscriptions`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{RotateError, SubscribeError, UpdateError};
use holdfast_core::records::Subscription;
use holdfast_core::rules::filter::{Connector, Filter};
use serde::Serialize;

use crate::auth::{Admin, ListScope};
use crate::body::RequestBody;
use crate::params::Params;
use crate::path::PathId;
use crate::response::{self, Time};
use crate::subscription_request::{parse_create, parse_patch};
use crate::{App, Problem};

/// A subscription without its secrets and its token.
#[derive(Serialize)]
struct SubscriptionJson<'a> {
    id: &'a str,
    url: &'a str,
    url_id: &'a str,
    event_types: &'a [String],
    filters: &'a [Filter],
    filter_connector: Connector,
    description: Option<&'a str>,
    active: bool,
    has_auth_token: bool,
    created_at: Time,
    /// Only when it is created or rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> SubscriptionJson<'a> {
    fn of(subscription: &'a Subscription) -> SubscriptionJson<'a> {
        SubscriptionJson {
            id: subscription.id.as_str(),
            url: &subscription.url,
            url_id: subscription.url_id.as_str(),
            event_types: &subscription.event_types,
            filters: &subscription.filters,
            filter_connector: subscription.filter_connector,
            description: subscription.description.as_deref(),
            active: subscription.active,
            has_auth_token: subscription.auth_token.is_some(),
            created_at: Time(subscription.created_at),
            secret: None,
        }
    }
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    RequestBody(body): RequestBody,
) -> Result<Response, Problem> {
    let new = parse_create(&body, app.engine.settings().http_allowed)?;
    let created = app.engine.subscribe(&tenant, new).await.map_err(|error| match error {
        SubscribeError::Equal(_) => Problem::conflict(format!("Not created: {error}; use that one.")),
        SubscribeError::TooMany => {
            Problem::conflict(format!("Not created: {error}; delete one that is not needed."))
        }
        SubscribeError::Refused(refused) => Problem::invalid_field("url", refused.to_string()),
        SubscribeError::Unavailable(error) => error.into(),
    })?;
    let secret = created.secrets.first().map(|secret| secret.value.as_str());
    Ok(response::json(StatusCode::CREATED, &SubscriptionJson { secret, ..SubscriptionJson::of(&created) }))
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    scope: ListScope,
    params: Params,
) -> Result<Response, Problem> {
    let request = params.page("subscriptions", &scope.cursor_tenant())?;
    let engine = &app.engine;
    let load =
        |tenant, after, limit| async move { Ok(engine.list_subscriptions(&tenant, after, limit).await?) };
    let page = scope.list(&app, &request, load).await?;
    Ok(response::list(&page, &request.cursors, SubscriptionJson::of))
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let found = app.engine.get_subscription(&tenant, &id.subscription()?).await?;
    let subscription = found.ok_or_else(|| Problem::not_found("subscription"))?;
    Ok(response::json(StatusCode::OK, &SubscriptionJson::of(&subscription)))
}

pub(crate) async fn update(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
    RequestBody(body): RequestBody,
) -> Result<Response, Problem> {
    let id = id.subscription()?;
    let patch = parse_patch(&body, app.engine.settings().http_allowed)?;
    let updated = app.engine.update_subscription(&tenant, &id, patch).await.map_err(|error| match error {
        UpdateError::Unknown => Problem::not_found("subscription"),
        UpdateError::Equal(_) => {
            Problem::conflict(format!("Not changed: {error}; use that one, or delete one of them."))
        }
        UpdateError::Refused(refused) => Problem::invalid_field("url", refused.to_string()),
        UpdateError::Unavailable(error) => error.into(),
    })?;
    Ok(response::json(StatusCode::OK, &SubscriptionJson::of(&updated)))
}

pub(crate) async fn rotate_secret(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let rotated =
        app.engine.rotate_secret(&tenant, &id.subscription()?).await.map_err(|error| match error {
            RotateError::Unknown => Problem::not_found("subscription"),
            RotateError::TooMany(_) => {
                Problem::conflict(format!("Not rotated: {error}; wait until the oldest one expires."))
            }
            RotateError::Unavailable(error) => error.into(),
        })?;
    let secret = rotated.secrets.first().map(|secret| secret.value.as_str());
    Ok(response::json(StatusCode::OK, &SubscriptionJson { secret, ..SubscriptionJson::of(&rotated) }))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    if app.engine.delete_subscription(&tenant, &id.subscription()?).await? {
        Ok(response::empty(StatusCode::NO_CONTENT))
    } else {
        Err(Problem::not_found("subscription"))
    }
}
