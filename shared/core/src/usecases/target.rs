//! Checks where a subscription would lead, before anything is written.

use super::Engine;
use crate::ports::Refused;

impl Engine {
    /// For every URL that a subscription is about to get. Whoever makes attempts checks each of them again.
    pub(super) async fn check_target(&self, url: &str) -> Result<(), Refused> {
        self.ports.sender.check(url).await
    }
}
