use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use holdfast_core::engine::Actor;
use holdfast_core::ids::Tenant;
use holdfast_core::rules::access::Role;

use super::key_use::{KeyHolder, KeyUse};
use crate::params::MAX_PARAMS;
use crate::turns::TurnSlot;
use crate::{App, Problem};

/// The holder of the key in a request.
pub(super) struct Caller {
    /// For histories and the audit list.
    pub(super) by: Actor,
    /// The default tenant. Only an operator may have none.
    pub(super) home: Option<Tenant>,
}

impl Caller {
    pub(super) async fn authenticate(role: Role, parts: &mut Parts, app: &App) -> Result<Caller, Problem> {
        let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
        let given = headers.next().and_then(|value| bearer(value.as_bytes()));
        if headers.next().is_some() {
            // A proxy in front may have checked the other one.
            let detail = "The `authorization` header is given more than once; give it once.";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        let key = given.ok_or_else(Problem::unauthorized)?;
        let found = app.keys.find(&app.engine, key).await?;
        let caller = found.ok_or_else(Problem::unauthorized)?;
        let holder = caller.key_holder();
        if let Some(key_use) = parts.extensions.get::<KeyUse>() {
            key_use.record(holder.number());
        }
        TurnSlot::set_holder(parts, &holder).await;
        parts.extensions.insert(holder);
        if caller.by.role.suffices(role) {
            Ok(caller)
        } else {
            Err(Problem::wrong_role(caller.by.role, role))
        }
    }

    /// Operators may act for all tenants, so none of these answers for what they send.
    fn key_holder(&self) -> KeyHolder {
        match &self.home {
            Some(tenant) if self.by.role != Role::Operator => KeyHolder::Tenant(tenant.clone()),
            _ => KeyHolder::Operators,
        }
    }

    /// The tenant in `?tenant=`, if there is one and this caller may name it.
    pub(super) async fn named_tenant(&self, parts: &Parts, app: &App) -> Result<Option<Tenant>, Problem> {
        let Some(name) = tenant_param(parts.uri.query().unwrap_or_default())? else { return Ok(None) };
        if self.by.role != Role::Operator {
            return match &self.home {
                Some(own) if own.as_str() == name => Ok(Some(own.clone())),
                _ => Err(Problem::other_tenant()),
            };
        }
        match Tenant::named(&name) {
            Some(tenant) if app.keys.tenant_exists(&app.engine, &tenant).await? => Ok(Some(tenant)),
            _ => Err(Problem::no_such_tenant()),
        }
    }

    /// The named or the default tenant.
    pub(super) async fn tenant(&self, parts: &Parts, app: &App) -> Result<Tenant, Problem> {
        let named = self.named_tenant(parts, app).await?;
        named.or_else(|| self.home.clone()).ok_or_else(|| {
            let detail = "is required, because this key has no tenant; add ?tenant=NAME to the URL";
            Problem::invalid_field("tenant", detail)
        })
    }
}

/// The key in `Bearer <key>`. The scheme is case-insensitive.
pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
    let space = header.iter().position(|b| *b == b' ')?;
    let (scheme, rest) = header.split_at(space);
    let key = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !key.is_empty()).then_some(key)
}

/// As strict as the other parameters.
pub(crate) fn tenant_param(query: &str) -> Result<Option<String>, Problem> {
    if query.bytes().filter(|b| *b == b'&').count() >= MAX_PARAMS {
        let detail = format!("The URL has more than {MAX_PARAMS} parameters; leave some out.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let mut given = url::form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name == "tenant")
        .map(|(_, value)| value.into_owned());
    let invalid = |detail| Err(Problem::invalid_field("tenant", detail));
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => invalid("is given more than once; give it once"),
        (Some(name), None) if name.is_empty() => invalid("is empty; give a value or leave it out"),
        (name, _) => Ok(name),
    }
}
