//! `/v1/keys`

use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{DeleteKeyError, NewKey, Page};
use holdfast_core::ids::Tenant;
use holdfast_core::records::KeyRecord;
use holdfast_core::rules::access::Role;
use holdfast_core::time::Timestamp;
use serde::Serialize;

use crate::Problem;
use crate::auth::{BuiltIn, KeyCreator, Operator};
use crate::body::RequestBody;
use crate::fields::Fields;
use crate::params::Params;
use crate::path::PathId;
use crate::response::{self, Time};
use crate::suggest::quote;

const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// A key without its text and its hash.
#[derive(Serialize)]
struct KeyJson<'a> {
    id: &'a str,
    tenant: Option<&'a str>,
    role: Role,
    description: Option<&'a str>,
    /// A built-in key has none.
    created_at: Option<Time>,
    expires_at: Option<Time>,
    built_in: bool,
    /// The text of the key, only when it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> KeyJson<'a> {
    fn of(key: &'a KeyRecord) -> KeyJson<'a> {
        KeyJson {
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

    fn of_built_in(key: &'a BuiltIn) -> KeyJson<'a> {
        KeyJson {
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
    KeyCreator { engine, by }: KeyCreator,
    body: RequestBody,
) -> Result<Response, Problem> {
    let now_real = engine.clock().wall();
    let (new, _held) = body.parse(move |body| parse_new_key(body, now_real)).await?;
    let created = engine.create_key(new, &by).await?;
    let key = KeyJson { key: Some(&created.text), ..KeyJson::of(&created.record) };
    Ok(response::json(StatusCode::CREATED, &key))
}

/// Checks every field, so that all errors are reported at once.
pub(crate) fn parse_new_key(body: &[u8], now_real: Timestamp) -> Result<NewKey, Problem> {
    let mut fields = Fields::of_body(body)?;
    let role: Option<Role> = fields.required("role", "one of ingest, viewer, admin, operator");
    let tenant = parse_tenant(&mut fields, role);
    let description: Option<String> = fields.optional("description", "a string");
    fields.check_length("description", description.as_deref(), MAX_DESCRIPTION_CHARS);
    let expires_at_real = parse_expires_at(&mut fields, now_real);
    let errors = fields.finish();
    match role {
        Some(role) if errors.is_empty() => Ok(NewKey { tenant, role, description, expires_at_real }),
        _ => Err(Problem::invalid(errors)),
    }
}

/// Only an operator key may have none.
fn parse_tenant(fields: &mut Fields<'_>, role: Option<Role>) -> Option<Tenant> {
    let what = "a name of a-z, 0-9, - and _, such as shop-1";
    let given: String = match role {
        Some(Role::Ingest | Role::Viewer | Role::Admin) => fields.required("tenant", what)?,
        Some(Role::Operator) | None => fields.optional("tenant", what)?,
    };
    let tenant = Tenant::named(&given);
    if tenant.is_none() {
        let detail = format!(
            "{} is not a tenant name; use 1 to 64 characters of a-z, 0-9, - and _, starting with a letter or digit",
            quote(&given)
        );
        fields.reject("tenant", detail);
    }
    tenant
}

fn parse_expires_at(fields: &mut Fields<'_>, now_real: Timestamp) -> Option<Timestamp> {
    let what = "a time in RFC 3339 such as 2027-01-31T12:00:00Z";
    let given: String = fields.optional("expires_at", what)?;
    let time = Timestamp::parse(&given);
    match time {
        None => fields.reject("expires_at", format!("must be {what}, not {}", quote(&given))),
        Some(time) if time <= now_real => {
            fields.reject("expires_at", format!("must be in the future, not {given}"))
        }
        Some(_) => {}
    }
    time
}

pub(crate) async fn list(
    Operator { app, tenant, .. }: Operator,
    params: Params,
) -> Result<Response, Problem> {
    let request = params.page("cursor", "keys", tenant.as_ref().unwrap_or(&"*".into()))?;
    let built_in: Vec<_> =
        app.keys.built_in().iter().filter(|key| tenant.is_none() || key.home == tenant).collect();
    // The built-in ones come first. A position among them is a number, which no id of a stored key is.
    let (skipped, after) = match request.after {
        None => (0, None),
        Some(after) => after.parse().map_or((built_in.len(), Some(after)), |skipped: usize| (skipped, None)),
    };
    let built_in: Vec<_> = built_in.iter().skip(skipped).take(request.limit).collect();
    let stored = if built_in.len() < request.limit {
        app.engine.list_keys(tenant.as_ref(), after, request.limit - built_in.len()).await?
    } else {
        Page { items: Vec::new(), next: Some((skipped + built_in.len()).to_string()) }
    };
    let built_in = built_in.into_iter().map(|key| KeyJson::of_built_in(key));
    let items = built_in.chain(stored.items.iter().map(KeyJson::of)).collect();
    Ok(response::list_of(items, stored.next.map(|next| request.cursors.encode(&next))))
}

pub(crate) async fn delete(Operator { app, tenant, by }: Operator, id: PathId) -> Result<Response, Problem> {
    if let Some(built_in) = app.keys.built_in().iter().find(|key| key.name == id.0) {
        return Err(Problem::conflict(format!("Not deleted: this key is built in. {}", built_in.change)));
    }
    let id = id.key()?;
    let other_operator = !app.keys.built_in().is_empty();
    let deleted = app.engine.delete_key(&id, tenant.as_ref(), other_operator, &by).await;
    // After an error too, because the key may have been deleted anyway.
    app.keys.evict(&id);
    deleted.map_err(|error| match error {
        DeleteKeyError::Unknown => Problem::not_found("key"),
        DeleteKeyError::LastOperator => {
            Problem::conflict("Not deleted: this is the last operator key; create another one first.")
        }
        DeleteKeyError::Unavailable(error) => error.into(),
    })?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}
