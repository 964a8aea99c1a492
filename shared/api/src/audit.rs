//! `/v1/audit`

use axum::response::Response;
use holdfast_core::engine::AuditFilter;
use holdfast_core::ports::Order;
use holdfast_core::records::{AuditAction, AuditEntry};
use holdfast_core::rules::access::Role;
use serde::Serialize;

use crate::Problem;
use crate::auth::{ListScope, no_tenant};
use crate::params::Params;
use crate::response::{self, Time};
use crate::urls::{ORDERS, order_name};

#[derive(Serialize)]
struct AuditEntryJson<'a> {
    id: &'a str,
    at: Time,
    action: AuditAction,
    key_id: &'a str,
    role: Role,
    target: &'a str,
    reason: Option<&'a str>,
    changed: &'a [String],
}

impl<'a> AuditEntryJson<'a> {
    fn of(entry: &'a AuditEntry) -> AuditEntryJson<'a> {
        AuditEntryJson {
            id: entry.id.as_str(),
            at: Time(entry.at),
            action: entry.action,
            key_id: &entry.key_id,
            role: entry.role,
            target: &entry.target,
            reason: entry.reason.as_deref(),
            changed: &entry.changed,
        }
    }
}

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let filter = AuditFilter {
        since: params.time("since"),
        until: params.time("until"),
        order: params.one_of("order", &ORDERS, order_name).unwrap_or(Order::Descending),
    };
    let scope = scope.starting_without_tenant();
    let (engine, filter) = (&scope.app.engine, &filter);
    let load = |tenant, after, limit| async move {
        let tenant = Some(tenant).filter(|tenant| *tenant != no_tenant());
        Ok(engine.list_audit(tenant.as_ref(), filter, after, limit).await?)
    };
    let page = scope.list("audit", params, load).await?;
    Ok(response::list(&page, AuditEntryJson::of))
}
