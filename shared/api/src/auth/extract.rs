//! What handlers ask for. Without such a key they are never called.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::ids::Tenant;
use holdfast_core::rules::access::Role;

use super::across::{Across, Tenants};
use super::caller::{Caller, tenant_param};
use crate::{App, Fault, Problem};

/// Whoever may post events of this tenant.
pub(crate) struct Producer {
    pub(crate) tenant: Tenant,
}

/// Whoever may see and change this tenant's things.
pub(crate) struct Admin {
    pub(crate) tenant: Tenant,
    /// Who it is, for histories: the id of the key, or the name of a built-in one.
    pub(crate) by: String,
}

/// Whoever may do everything, keys too.
pub(crate) struct Operator {
    /// The tenant that `?tenant=` names.
    pub(crate) tenant: Option<Tenant>,
}

/// An operator who makes a key: its tenant is in the body, so that none is named beside it.
pub(crate) struct KeyMaker;

impl FromRequestParts<Arc<App>> for Producer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Producer, Problem> {
        let caller = Caller::with(Role::Ingest, parts, app).await?;
        Ok(Producer { tenant: caller.one_tenant(parts, app).await? })
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Admin, Problem> {
        let caller = Caller::with(Role::Admin, parts, app).await?;
        Ok(Admin { tenant: caller.one_tenant(parts, app).await?, by: caller.by })
    }
}

impl FromRequestParts<Arc<App>> for Across {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Across, Problem> {
        let caller = Caller::with(Role::Admin, parts, app).await?;
        let named = caller.named_tenant(parts, app).await?;
        Ok(Across { tenants: named.or(caller.home).map_or(Tenants::All, Tenants::One) })
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Problem> {
        let caller = Caller::with(Role::Operator, parts, app).await?;
        Ok(Operator { tenant: caller.named_tenant(parts, app).await? })
    }
}

impl FromRequestParts<Arc<App>> for KeyMaker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<KeyMaker, Problem> {
        Caller::with(Role::Operator, parts, app).await?;
        if tenant_param(parts.uri.query().unwrap_or_default())?.is_none() {
            return Ok(KeyMaker);
        }
        let detail = "belongs into the body here; leave it out of the URL";
        Err(Problem::invalid(vec![Fault::new("tenant", detail)]))
    }
}
