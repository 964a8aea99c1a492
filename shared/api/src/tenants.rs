//! `/v1/tenants`

use axum::response::Response;
use holdfast_core::engine::{SetQuotasError, TenantView};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::quota::{MAX_QUOTA, Quota, QuotaPatch, Quotas};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use crate::auth::{ListScope, ManagedTenant, Operator, ReadableTenant};
use crate::body::RequestBody;
use crate::fields::Fields;
use crate::params::Params;
use crate::{Problem, response};

#[derive(Serialize)]
struct TenantJson<'a> {
    tenant: &'a str,
    quotas: QuotasJson,
    usage: UsageJson,
    /// The quotas that are nearly used up, in words.
    warnings: Vec<String>,
}

/// Every quota, null if it is off.
#[derive(Serialize)]
struct QuotasJson {
    events_per_second: Option<u64>,
    subscriptions: Option<u64>,
    waiting_bytes: Option<u64>,
    stored_bytes: Option<u64>,
}

#[derive(Serialize)]
struct UsageJson {
    subscriptions: u64,
    /// On one machine only.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_bytes: Option<u64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
}

impl<'a> TenantJson<'a> {
    fn of(view: &'a TenantView) -> TenantJson<'a> {
        let Quotas { events_per_second, subscriptions, waiting_bytes, stored_bytes } = view.quotas;
        TenantJson {
            tenant: view.tenant.as_str(),
            quotas: QuotasJson { events_per_second, subscriptions, waiting_bytes, stored_bytes },
            usage: UsageJson {
                subscriptions: view.subscriptions,
                waiting_bytes: view.waiting_bytes,
                stored_bytes: view.stored_bytes,
            },
            warnings: view.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Serialize)]
struct TenantNameJson {
    tenant: Tenant,
}

/// In the order of their names, with those of built-in keys.
pub(crate) async fn list(operator: Operator, params: Params) -> Result<Response, Problem> {
    // Like a list of all tenants, which no tenant is called.
    let request = params.page("cursor", "tenants", &"*".into())?;
    let scope = ListScope::of_all(operator.app);
    let (tenants, next) = match operator.tenant {
        Some(tenant) => (vec![tenant], None),
        None => scope.tenants_after(request.after.map(|after| after.as_str().into()), request.limit).await?,
    };
    let items = tenants.into_iter().map(|tenant| TenantNameJson { tenant }).collect();
    Ok(response::list_of(items, next.map(|next| request.cursors.encode(next.as_str()))))
}

pub(crate) async fn get(ReadableTenant { engine, tenant }: ReadableTenant) -> Result<Response, Problem> {
    Ok(response::ok(&TenantJson::of(&engine.view_tenant(&tenant).await?)))
}

pub(crate) async fn update(
    ManagedTenant { engine, tenant, by }: ManagedTenant,
    body: RequestBody,
) -> Result<Response, Problem> {
    let (patch, _held) = body.parse(parse_patch).await?;
    let view = engine.set_quotas(&tenant, patch, &by).await.map_err(|error| match error {
        SetQuotasError::NotCounted(quota) => Problem::invalid_field(
            quota.as_str(),
            "is for one machine only, because these bytes are not counted on AWS; leave it out",
        ),
        SetQuotasError::Unavailable(error) => error.into(),
    })?;
    Ok(response::ok(&TenantJson::of(&view)))
}

/// Checks every field, so that all errors are reported at once.
pub(crate) fn parse_patch(body: &[u8]) -> Result<QuotaPatch, Problem> {
    let mut fields = Fields::of_body(body)?;
    let patch = QuotaPatch {
        events_per_second: parse_quota(&mut fields, Quota::EventsPerSecond),
        subscriptions: parse_quota(&mut fields, Quota::Subscriptions),
        waiting_bytes: parse_quota(&mut fields, Quota::WaitingBytes),
        stored_bytes: parse_quota(&mut fields, Quota::StoredBytes),
    };
    let errors = fields.finish();
    if errors.is_empty() { Ok(patch) } else { Err(Problem::invalid(errors)) }
}

/// A JSON number without a fraction: 5 and 5.0 are the same to JSON Schema.
struct WholeNumber(u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WholeNumber, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let is_whole = |n: &f64| n.fract() == 0.0 && (0.0..=MAX_QUOTA as f64).contains(n);
        let whole = number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|n| n as u64));
        whole.map(WholeNumber).ok_or_else(|| D::Error::custom("not a whole number"))
    }
}

fn parse_quota(fields: &mut Fields<'_>, quota: Quota) -> Option<Option<u64>> {
    let what = format!("a whole number from 1 to {MAX_QUOTA}, or null for none");
    let given: Option<WholeNumber> = fields.removable(quota.as_str(), &what)?;
    let given = given.map(|number| number.0);
    if let Some(value) = given.filter(|value| !(1..=MAX_QUOTA).contains(value)) {
        fields.reject(quota.as_str(), format!("must be {what}, not {value}"));
    }
    Some(given)
}
