//! `/v1/keys`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{DeleteKeyError, ListPage, NewKey};
use holdfast_core::ids::Tenant;
use holdfast_core::records::KeyRecord;
use holdfast_core::rules::access::Role;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::answer::{self, Time};
use crate::auth::{BuiltIn, KeyMaker, Operator};
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::posted::Posted;
use crate::{App, Problem};

const MAX_DESCRIPTION: usize = 1_024;

/// A key without its text and its hash.
#[derive(Serialize)]
struct ShownKey<'a> {
    id: &'a str,
    tenant: Option<&'a str>,
    role: Role,
    description: Option<&'a str>,
    /// A built-in key was there before anybody made one.
    created_at: Option<Time>,
    expires_at: Option<Time>,
    built_in: bool,
    /// At creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> ShownKey<'a> {
    fn of(key: &'a KeyRecord) -> ShownKey<'a> {
        ShownKey {
            id: key.id.as_str(),
            tenant: key.tenant.as_ref().map(Tenant::as_str),
            role: key.role,
            description: key.description.as_deref(),
            created_at: Some(Time(key.created_at_real)),
            expires_at: key.expires_at_real.map(Time),
            built_in: false,
            key: None,
        }
    }

    fn of_built_in(key: &'a BuiltIn) -> ShownKey<'a> {
        ShownKey {
            id: key.name,
            tenant: key.home.as_ref().map(Tenant::as_str),
            role: Role::Operator,
            description: Some(key.description),
            created_at: None,
            expires_at: None,
            built_in: true,
            key: None,
        }
    }
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    KeyMaker: KeyMaker,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let new = new_key(&body, app.engine.clock().now_real())?;
    let made = app.engine.create_key(new).await?;
    let shown = ShownKey { key: Some(&made.text), ..ShownKey::of(&made.record) };
    Ok(answer::json(StatusCode::CREATED, &shown))
}

/// Checks everything, so that all that is wrong is told at once.
fn new_key(body: &[u8], now_real: Timestamp) -> Result<NewKey, Problem> {
    let mut fields = Fields::of_body(body)?;
    let role: Option<Role> = fields.required("role", "one of ingest, admin, operator");
    let tenant = tenant_of(&mut fields, role);
    let description: Option<String> = fields.optional("description", "a string");
    if description.as_ref().is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
        fields.fault("description", format!("must have at most {MAX_DESCRIPTION} characters"));
    }
    let expires_at_real = expires_at(&mut fields, now_real);
    let faults = fields.finish();
    match role {
        Some(role) if faults.is_empty() => Ok(NewKey { tenant, role, description, expires_at_real }),
        _ => Err(Problem::invalid(faults)),
    }
}

/// Only an operator's key may be without one.
fn tenant_of(fields: &mut Fields<'_>, role: Option<Role>) -> Option<Tenant> {
    let what = "a name of a-z, 0-9, - and _, such as shop-1";
    let given: String = match role {
        Some(Role::Ingest | Role::Admin) => fields.required("tenant", what)?,
        Some(Role::Operator) | None => fields.optional("tenant", what)?,
    };
    let tenant = Tenant::named(&given);
    if tenant.is_none() {
        let detail =
            "must have 1 to 64 characters, of a-z, 0-9, - and _, the first of them a letter or a digit";
        fields.fault("tenant", detail);
    }
    tenant
}

fn expires_at(fields: &mut Fields<'_>, now_real: Timestamp) -> Option<Timestamp> {
    let what = "a time in RFC 3339 such as 2027-01-31T12:00:00Z";
    let given: String = fields.optional("expires_at", what)?;
    let time = Timestamp::parse(&given);
    match time {
        None => fields.fault("expires_at", format!("must be {what}")),
        Some(time) if time <= now_real => fields.fault("expires_at", "must be in the future"),
        Some(_) => {}
    }
    time
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Operator { tenant, .. }: Operator,
    params: Params,
) -> Result<Response, Problem> {
    let part = params.finish("keys", tenant.as_ref().unwrap_or(&"*".into()))?;
    let built_in: Vec<_> =
        app.keys.built_in().iter().filter(|key| tenant.is_none() || key.home == tenant).collect();
    // The built-in ones come first. A place among them is a number, which no id of a stored key is.
    let (shown, after) = match part.after {
        None => (0, None),
        Some(place) => place.parse().map_or((built_in.len(), Some(place)), |shown: usize| (shown, None)),
    };
    let rest: Vec<_> = built_in.iter().skip(shown).take(part.limit).collect();
    let stored = if rest.len() < part.limit {
        app.engine.list_keys(tenant.as_ref(), after, part.limit - rest.len()).await?
    } else {
        ListPage { items: Vec::new(), next: Some((shown + rest.len()).to_string()) }
    };
    let shown = rest.into_iter().map(|key| ShownKey::of_built_in(key));
    let items = shown.chain(stored.items.iter().map(ShownKey::of)).collect();
    Ok(answer::list_of(items, &part.tag, stored.next.as_deref()))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Operator { tenant, .. }: Operator,
    id: PathId,
) -> Result<Response, Problem> {
    if let Some(built_in) = app.keys.built_in().iter().find(|key| key.name == id.0) {
        return Err(Problem::conflict(format!("Not deleted: the key is built in. {}", built_in.change)));
    }
    let id = id.key()?;
    let operator_remains = !app.keys.built_in().is_empty();
    let deleted = app.engine.delete_key(&id, tenant.as_ref(), operator_remains).await;
    // Also if it is not known that it was deleted: then it is only looked up again.
    app.keys.forget(&id);
    deleted.map_err(|error| match error {
        DeleteKeyError::Unknown => Problem::not_found("key"),
        DeleteKeyError::LastOperator => {
            Problem::conflict(format!("Not deleted: {error}. Make another one first."))
        }
        DeleteKeyError::Unavailable(error) => error.into(),
    })?;
    Ok(answer::empty(StatusCode::NO_CONTENT))
}
