//! Gives a subscription a new signing secret. The old one signs along for a while, so that the receiver can change over.

use super::subscribe::MOST_MEETINGS;
use super::{Engine, Unavailable};
use crate::ids::{SubscriptionId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Record, Subscription};
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
    /// Answers the subscription with its new secret first.
    pub async fn rotate_secret(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<Subscription, RotateError> {
        let fresh = signing::new_secret(self.random());
        for _ in 0..MOST_MEETINGS {
            let Some((mut subscription, version)) = self.get_subscription_versioned(tenant, id).await? else {
                return Err(RotateError::Unknown);
            };
            let (now_real, overlap) = (self.ports.clock.now_real(), self.settings.secret_overlap);
            signing::rotate(&mut subscription.secrets, fresh.clone(), now_real, overlap)?;
            // Every attempt reads its subscription, so nobody needs to be told.
            let write = Write::put(Record::Subscription(subscription.clone()), Expect::Version(version));
            if self.try_write(vec![write]).await? {
                return Ok(subscription);
            }
        }
        Err(Unavailable(format!("{id} changes too often")).into())
    }
}
