//! `/v1/subscriptions`

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{PingError, RotateError, SubscribeError, UpdateError};
use holdfast_core::records::Subscription;
use holdfast_core::rules::filter::{Connector, Filter};
use holdfast_core::rules::health::UrlState;
use serde::Serialize;

use crate::Problem;
use crate::auth::{Admin, ListScope, Viewer};
use crate::body::RequestBody;
use crate::deliveries::AttemptResultJson;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::whole_secs;
use crate::response::{self, Time};
use crate::subscription_request::{parse_create, parse_patch, parse_ping};

/// What to do when a tenant has too many URLs.
const FEWER_URLS: &str = "use one of them, or wait until those that no subscription has are removed";

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

/// A tenant that changes its subscriptions all the time would fill the disk with the list of its changes. Those that are created or changed
/// count; to delete one is always possible.
fn admit_change(admin: &Admin) -> Result<(), Problem> {
    admin.engine.take_change(&admin.tenant, 0).map_err(changed_too_often)
}

/// For changes of all subscriptions and URLs of a tenant together.
pub(crate) fn changed_too_often(wait: Duration) -> Problem {
    let secs = whole_secs(wait);
    let detail = format!(
        "Not changed: this tenant changes its subscriptions and URLs too often; 10 changes a second are possible in the long run. Try again after {secs} s."
    );
    Problem::too_many(wait, detail)
}

pub(crate) async fn create(admin: Admin, body: RequestBody) -> Result<Response, Problem> {
    let http_allowed = admin.engine.settings().http_allowed;
    let (new, _held) = body.parse(move |body| parse_create(body, http_allowed)).await?;
    admit_change(&admin)?;
    let created = admin.engine.subscribe(&admin.tenant, new, &admin.by).await.map_err(|error| match error {
        SubscribeError::Equal(_) => Problem::conflict(format!("Not created: {error}; use that one.")),
        SubscribeError::TooMany => {
            Problem::conflict(format!("Not created: {error}; delete one that is not needed."))
        }
        SubscribeError::OverQuota { .. } => Problem::conflict(format!(
            "Not created: {error}; delete one that is not needed, or ask an operator to raise the quota."
        )),
        SubscribeError::TooLarge(_) => Problem::conflict(format!(
            "Not created: {error}; use fewer or shorter event types and filters, or delete subscriptions that are not needed."
        )),
        SubscribeError::TooManyUrls(_) => Problem::conflict(format!("Not created: {error}; {FEWER_URLS}.")),
        SubscribeError::Refused(refused) => Problem::invalid_field("url", refused.to_string()),
        SubscribeError::Unavailable(error) => error.into(),
    })?;
    let secret = created.secrets.first().map(|secret| secret.value.as_str());
    Ok(response::json(StatusCode::CREATED, &SubscriptionJson { secret, ..SubscriptionJson::of(&created) }))
}

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let url = params.url_or_id("url");
    let (engine, url) = (&scope.app.engine, url.as_ref());
    let load = |tenant, after, limit| async move {
        Ok(match url {
            Some(url) => engine.list_subscriptions_of(&tenant, url, after, limit).await?,
            None => engine.list_subscriptions(&tenant, after, limit).await?,
        })
    };
    let page = scope.list("subscriptions", params, load).await?;
    Ok(response::list(&page, SubscriptionJson::of))
}

pub(crate) async fn get(viewer: Viewer, id: PathId) -> Result<Response, Problem> {
    let found = viewer.engine.get_subscription(&viewer.tenant, &id.subscription()?).await?;
    let subscription = found.ok_or_else(|| Problem::not_found("subscription"))?;
    Ok(response::ok(&SubscriptionJson::of(&subscription)))
}

pub(crate) async fn update(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    let id = id.subscription()?;
    let http_allowed = admin.engine.settings().http_allowed;
    let (patch, _held) = body.parse(move |body| parse_patch(body, http_allowed)).await?;
    admit_change(&admin)?;
    let updated = admin.engine.update_subscription(&admin.tenant, &id, patch, &admin.by).await;
    let updated = updated.map_err(|error| match error {
        UpdateError::Unknown => Problem::not_found("subscription"),
        UpdateError::Equal(_) => {
            Problem::conflict(format!("Not changed: {error}; use that one, or delete one of them."))
        }
        UpdateError::TooLarge(_) => Problem::conflict(format!(
            "Not changed: {error}; use fewer or shorter event types and filters, or delete subscriptions that are not needed."
        )),
        UpdateError::TooManyUrls(_) => Problem::conflict(format!("Not changed: {error}; {FEWER_URLS}.")),
        UpdateError::Refused(refused) => Problem::invalid_field("url", refused.to_string()),
        UpdateError::Unavailable(error) => error.into(),
    })?;
    Ok(response::ok(&SubscriptionJson::of(&updated)))
}

pub(crate) async fn rotate_secret(admin: Admin, id: PathId) -> Result<Response, Problem> {
    let id = id.subscription()?;
    admit_change(&admin)?;
    let rotated = admin.engine.rotate_secret(&admin.tenant, &id, &admin.by).await;
    let rotated = rotated.map_err(|error| match error {
        RotateError::Unknown => Problem::not_found("subscription"),
        RotateError::TooMany(_) => {
            Problem::conflict(format!("Not rotated: {error}; wait until the oldest one expires."))
        }
        RotateError::Unavailable(error) => error.into(),
    })?;
    let secret = rotated.secrets.first().map(|secret| secret.value.as_str());
    Ok(response::ok(&SubscriptionJson { secret, ..SubscriptionJson::of(&rotated) }))
}

pub(crate) async fn delete(admin: Admin, id: PathId) -> Result<Response, Problem> {
    if admin.engine.delete_subscription(&admin.tenant, &id.subscription()?, &admin.by).await? {
        Ok(response::empty(StatusCode::NO_CONTENT))
    } else {
        Err(Problem::not_found("subscription"))
    }
}

/// An attempt without a delivery.
#[derive(Serialize)]
struct PingJson<'a> {
    webhook_id: String,
    #[serde(flatten)]
    result: AttemptResultJson<'a>,
}

pub(crate) async fn ping(admin: Admin, id: PathId, body: RequestBody) -> Result<Response, Problem> {
    let id = id.subscription()?;
    let (force, _held) = body.parse(parse_ping).await?;
    let attempt = admin.engine.ping(&admin.tenant, &id, force).await;
    let attempt = attempt.map_err(|error| match error {
        PingError::Unknown => Problem::not_found("subscription"),
        PingError::NotEnabled(UrlState::Disabled) => Problem::conflict(format!(
            "Not sent: {error}; send {{\"force\": true}} to try it all the same, or enable it first."
        )),
        PingError::NotEnabled(_) => Problem::conflict(format!("Not sent: {error}; enable it first.")),
        PingError::Unavailable(error) => error.into(),
    })?;
    let result = AttemptResultJson::of(&attempt, usize::MAX);
    Ok(response::ok(&PingJson { webhook_id: attempt.key.id(), result }))
}
