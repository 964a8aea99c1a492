//! Who asks.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use holdfast_core::ids::Tenant;
use sha2::{Digest, Sha256};

use crate::{App, Problem};

/// The keys that are taken. Only their hashes are kept.
pub struct Keys {
    digest: [u8; 32],
    tenant: Tenant,
}

impl Keys {
    /// One key, for one tenant.
    #[must_use]
    pub fn single(key: &str, tenant: Tenant) -> Keys {
        Keys { digest: Sha256::digest(key.as_bytes()).into(), tenant }
    }

    fn tenant_of(&self, key: &[u8]) -> Option<&Tenant> {
        let given: [u8; 32] = Sha256::digest(key).into();
        // Looks at every byte whatever comes before it, so that the time it takes tells nothing.
        let differences = given.iter().zip(&self.digest).fold(0, |all, (a, b)| all | (a ^ b));
        (std::hint::black_box(differences) == 0).then_some(&self.tenant)
    }
}

/// Whoever may post events of this tenant. Without such a key the handler is never called; so it is with all of these.
pub(crate) struct Producer {
    pub(crate) tenant: Tenant,
}

/// Whoever may see and change this tenant's things.
pub(crate) struct Admin {
    pub(crate) tenant: Tenant,
    /// Who it is, for histories: the id of the key.
    #[expect(dead_code, reason = "the history names it once there is more than one key")]
    pub(crate) by: String,
}

impl FromRequestParts<Arc<App>> for Producer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Producer, Problem> {
        Ok(Producer { tenant: tenant_of(parts, app)? })
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Admin, Problem> {
        Ok(Admin { tenant: tenant_of(parts, app)?, by: "api".to_owned() })
    }
}

fn tenant_of(parts: &Parts, app: &App) -> Result<Tenant, Problem> {
    let given = parts.headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    given.and_then(|key| app.keys.tenant_of(key)).cloned().ok_or_else(Problem::unauthorized)
}

/// The key of `Bearer <key>`. The scheme's case does not matter.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let space = header.iter().position(|b| *b == b' ')?;
    let (scheme, rest) = header.split_at(space);
    let key = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !key.is_empty()).then_some(key)
}
