//! The tenant that a path names.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::engine::{Actor, Engine};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::access::Role;

use super::caller::Caller;
use crate::path::PathId;
use crate::turns::TurnSlot;
use crate::{App, Problem};

/// A tenant that the caller may read: an operator any, an admin or a viewer its own.
pub(crate) struct ReadableTenant {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tenant: Tenant,
}

/// A tenant whose quotas the caller may set: only an operator.
pub(crate) struct ManagedTenant {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tenant: Tenant,
    pub(crate) by: Actor,
}

impl FromRequestParts<Arc<App>> for ReadableTenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<ReadableTenant, Problem> {
        let (tenant, _) = tenant_of_path(Role::Viewer, parts, app).await?;
        Ok(ReadableTenant { engine: Arc::clone(&app.engine), tenant })
    }
}

impl FromRequestParts<Arc<App>> for ManagedTenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<ManagedTenant, Problem> {
        let (tenant, by) = tenant_of_path(Role::Operator, parts, app).await?;
        Ok(ManagedTenant { engine: Arc::clone(&app.engine), tenant, by })
    }
}

/// Another tenant's name is answered like one that does not exist. `?tenant=` may name only the same tenant.
async fn tenant_of_path(role: Role, parts: &mut Parts, app: &Arc<App>) -> Result<(Tenant, Actor), Problem> {
    let caller = Caller::authenticate(role, parts, app).await?;
    let named = caller.named_tenant(parts, app).await?;
    let own = caller.home.filter(|_| caller.by.role != Role::Operator);
    let PathId(name) = PathId::from_request_parts(parts, app).await?;
    let allowed = |tenant: &Tenant| [&own, &named].into_iter().flatten().all(|only| only == tenant);
    match Tenant::named(&name).filter(allowed) {
        Some(tenant) if app.keys.tenant_exists(&app.engine, &tenant).await? => {
            TurnSlot::fill(parts, app, &tenant).await?;
            Ok((tenant, caller.by))
        }
        _ => Err(Problem::not_found("tenant")),
    }
}
