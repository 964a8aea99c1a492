//! Ids in paths. An id that cannot exist is answered like one that does not: 404, without a read from the store.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use holdfast_core::ids::{DeliveryKey, JobId, KeyId, SubscriptionId, Tenant, UrlId};

use crate::{Problem, params};

/// The length of the random or derived part of an id.
const SHORT_LEN: usize = 26;

/// The one id of a path, percent-decoded.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathId, Problem> {
        params::reject_unknown(parts.uri.query())?;
        let Path(id) =
            Path::from_request_parts(parts, state).await.map_err(|_| Problem::not_found("resource"))?;
        Ok(PathId(id))
    }
}

fn is_short(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == SHORT_LEN && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    })
}

pub(crate) fn subscription_id(id: &str) -> Option<SubscriptionId> {
    is_short(id, "sub_").then(|| SubscriptionId(id.to_owned()))
}

pub(crate) fn url_id(id: &str) -> Option<UrlId> {
    is_short(id, "url_").then(|| UrlId(id.to_owned()))
}

impl PathId {
    pub(crate) fn subscription(&self) -> Result<SubscriptionId, Problem> {
        subscription_id(&self.0).ok_or_else(|| Problem::not_found("subscription"))
    }

    pub(crate) fn url(&self) -> Result<UrlId, Problem> {
        url_id(&self.0).ok_or_else(|| Problem::not_found("URL"))
    }

    pub(crate) fn key(&self) -> Result<KeyId, Problem> {
        is_short(&self.0, "key_").then(|| KeyId(self.0.clone())).ok_or_else(|| Problem::not_found("key"))
    }

    pub(crate) fn replay(&self) -> Result<JobId, Problem> {
        let id = is_short(&self.0, "job_").then(|| JobId(self.0.clone()));
        id.ok_or_else(|| Problem::not_found("replay"))
    }

    pub(crate) fn delivery(&self, tenant: &Tenant) -> Result<DeliveryKey, Problem> {
        DeliveryKey::parse(tenant, &self.0).ok_or_else(|| Problem::not_found("delivery"))
    }
}
