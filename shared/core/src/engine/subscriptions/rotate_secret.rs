//! Gives a subscription a new signing secret. The old one stays valid for a while, so that the receiver can change over.

use super::super::{Change, Engine, Loaded, Unavailable};
use crate::ids::{SubscriptionId, Tenant};
use crate::records::{Actor, AuditAction, Subscription};
use crate::rules::signing::{self, TooManySecrets};

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("there is no such subscription")]
    Unknown,
    #[error(transparent)]
    TooMany(#[from] TooManySecrets),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// Returns the subscription with its new secret first. Caches need not be told: every attempt reads its subscription.
    pub async fn rotate_secret(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        by: &Actor,
    ) -> Result<Subscription, RotateError> {
        let fresh = signing::new_secret(self.random());
        let rotate = |Loaded { record: mut subscription, .. }: Loaded<Subscription>| {
            let (now_real, overlap) = (self.ports.clock.wall(), self.settings.secret_overlap);
            signing::rotate(&mut subscription.secrets, fresh.clone(), now_real, overlap)?;
            let audit = self.audit(Some(tenant), AuditAction::SecretRotated, id.as_str(), by).into_write();
            Ok::<_, RotateError>(Change::Write(subscription.clone(), vec![audit], subscription))
        };
        self.repository.update(Subscription::key(tenant, id), rotate).await?.ok_or(RotateError::Unknown)
    }
}
