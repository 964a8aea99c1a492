//! The extractors of the handlers, which get the engine and the tenant from them. Without a key of the required role, a handler is
//! not called.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::engine::{Actor, Engine};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::access::Role;

use super::caller::{Caller, tenant_param};
use super::list_scope::ListScope;
use crate::turns::TurnSlot;
use crate::{App, Problem};

/// May post events of this tenant.
pub(crate) struct Producer {
    pub(crate) app: Arc<App>,
    pub(crate) tenant: Tenant,
}

/// May read and change everything of this tenant.
pub(crate) struct Admin {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tenant: Tenant,
    /// For histories and the audit list.
    pub(crate) by: Actor,
}

/// May read everything of this tenant, except secrets.
pub(crate) struct Viewer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tenant: Tenant,
}

/// May do everything, with keys too.
pub(crate) struct Operator {
    pub(crate) app: Arc<App>,
    /// The tenant in `?tenant=`.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) by: Actor,
}

/// An operator who creates a key. The tenant is in the body, so `?tenant=` is rejected.
pub(crate) struct KeyCreator {
    pub(crate) engine: Arc<Engine>,
    pub(crate) by: Actor,
}

impl FromRequestParts<Arc<App>> for Producer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Producer, Problem> {
        let caller = Caller::authenticate(Role::Ingest, parts, app).await?;
        Ok(Producer { app: Arc::clone(app), tenant: caller.tenant(parts, app).await? })
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Admin, Problem> {
        let caller = Caller::authenticate(Role::Admin, parts, app).await?;
        let tenant = caller.tenant(parts, app).await?;
        TurnSlot::fill(parts, app, &tenant).await?;
        Ok(Admin { engine: Arc::clone(&app.engine), tenant, by: caller.by })
    }
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Viewer, Problem> {
        let caller = Caller::authenticate(Role::Viewer, parts, app).await?;
        let tenant = caller.tenant(parts, app).await?;
        TurnSlot::fill(parts, app, &tenant).await?;
        Ok(Viewer { engine: Arc::clone(&app.engine), tenant })
    }
}

impl FromRequestParts<Arc<App>> for ListScope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<ListScope, Problem> {
        let caller = Caller::authenticate(Role::Viewer, parts, app).await?;
        let tenant = caller.named_tenant(parts, app).await?.or(caller.home);
        // All tenants' things are for operators, who need no turn.
        if let Some(tenant) = &tenant {
            TurnSlot::fill(parts, app, tenant).await?;
        }
        Ok(ListScope { app: Arc::clone(app), tenant, starts_without_tenant: false })
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Problem> {
        let caller = Caller::authenticate(Role::Operator, parts, app).await?;
        let tenant = caller.named_tenant(parts, app).await?;
        Ok(Operator { app: Arc::clone(app), tenant, by: caller.by })
    }
}

impl FromRequestParts<Arc<App>> for KeyCreator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<KeyCreator, Problem> {
        let Caller { by, .. } = Caller::authenticate(Role::Operator, parts, app).await?;
        if tenant_param(parts.uri.query().unwrap_or_default())?.is_none() {
            return Ok(KeyCreator { engine: Arc::clone(&app.engine), by });
        }
        Err(Problem::invalid_field("tenant", "is not a parameter of this call; put it into the body"))
    }
}
