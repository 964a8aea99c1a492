//! The extractors of the handlers. Without a key of the required role, a handler is not called.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::ids::Tenant;
use holdfast_core::rules::access::Role;

use super::caller::{Caller, tenant_param};
use super::list_scope::ListScope;
use crate::{App, Problem};

/// May post events of this tenant.
pub(crate) struct Producer {
    pub(crate) tenant: Tenant,
}

/// May read and change everything of this tenant.
pub(crate) struct Admin {
    pub(crate) tenant: Tenant,
    /// For histories: the id of the key, or the name of a built-in one.
    pub(crate) by: String,
}

/// May do everything, with keys too.
pub(crate) struct Operator {
    /// The tenant in `?tenant=`.
    pub(crate) tenant: Option<Tenant>,
}

/// An operator who creates a key. The tenant is in the body, so `?tenant=` is rejected.
pub(crate) struct KeyCreator;

impl FromRequestParts<Arc<App>> for Producer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Producer, Problem> {
        let caller = Caller::authenticate(Role::Ingest, parts, app).await?;
        Ok(Producer { tenant: caller.tenant(parts, app).await? })
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Admin, Problem> {
        let caller = Caller::authenticate(Role::Admin, parts, app).await?;
        Ok(Admin { tenant: caller.tenant(parts, app).await?, by: caller.by })
    }
}

impl FromRequestParts<Arc<App>> for ListScope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<ListScope, Problem> {
        let caller = Caller::authenticate(Role::Admin, parts, app).await?;
        let named = caller.named_tenant(parts, app).await?;
        Ok(named.or(caller.home).map_or(ListScope::All, ListScope::One))
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Problem> {
        let caller = Caller::authenticate(Role::Operator, parts, app).await?;
        Ok(Operator { tenant: caller.named_tenant(parts, app).await? })
    }
}

impl FromRequestParts<Arc<App>> for KeyCreator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<KeyCreator, Problem> {
        Caller::authenticate(Role::Operator, parts, app).await?;
        if tenant_param(parts.uri.query().unwrap_or_default())?.is_none() {
            return Ok(KeyCreator);
        }
        Err(Problem::invalid_field("tenant", "is not a parameter of this call; put it into the body"))
    }
}
