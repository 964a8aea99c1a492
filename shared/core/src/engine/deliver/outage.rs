//! Attempts that fail because our own network is down: they are made again, and never count on a URL.

use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use url::Url;

use super::super::{Engine, Result};
use super::attempt::Attempted;
use super::batch::{Handled, Slot};
use crate::rules::outage::{Host, MAX_SPARED, Silences};
use crate::rules::shortage::Shortage;
use crate::time::Timestamp;

/// What the attempts of this process say about its network.
#[derive(Default)]
pub(crate) struct Outage(Mutex<Silences>);

impl Outage {
    /// An attempt outside a batch, such as a probe, succeeded.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).success();
    }

    /// Marks those that failed because of our network, and not because of their receivers.
    fn judge(&self, attempted: &mut [(Slot, Attempted)], now_real: Timestamp) {
        let silent: Vec<Option<Host>> = attempted.iter().map(|(_, one)| host_if_silent(one)).collect();
        let mut silences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((_, one), host) in attempted.iter().zip(&silent) {
            if let Some(host) = host {
                silences.silence(host, one.ready.allowed_by.is_failing, now_real);
            }
        }
        if attempted.iter().any(|(_, one)| one.succeeded()) {
            silences.success();
        }
        for ((_, one), host) in attempted.iter_mut().zip(&silent) {
            one.is_ours = host.as_ref().is_some_and(|host| silences.is_ours(host));
        }
    }
}

fn host_if_silent(one: &Attempted) -> Option<Host> {
    if !one.result.response.is_silent() {
        return None;
    }
    let url = Url::parse(&one.ready.subscription.url).ok()?;
    Some(Host { tenant: one.ready.key().tenant.clone(), name: url.host_str()?.to_owned() })
}

impl Engine {
    /// Takes out the attempts that are to be made again because our network is down. Those that were spared often enough stay, and
    /// count on their deliveries only.
    pub(super) async fn spare(
        &self,
        mut attempted: Vec<(Slot, Attempted)>,
    ) -> (Handled, Vec<(Slot, Attempted)>) {
        self.outage.judge(&mut attempted, self.ports.clock.now_real());
        let (spared, counted) = attempted.into_iter().partition::<Vec<_>, _>(|(_, one)| {
            one.is_ours && one.ready.delivery.record.progress.spared < MAX_SPARED
        });
        let spared = spared.into_iter().map(async |(slot, one)| (slot, self.make_again(one).await));
        (join_all(spared).await, counted)
    }

    async fn make_again(&self, one: Attempted) -> Result<()> {
        self.log_not_attempted(&one.ready, Shortage::Network);
        if one.ready.delivery.is_stored() {
            let mut spared = one.ready.delivery.record.clone();
            spared.progress.spare();
            self.repository.replace_delivery(&one.ready.delivery, spared, Vec::new()).await?;
        }
        Err(Shortage::Network.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_outside_a_batch_ends_an_outage() {
        let outage = Outage::default();
        let host = |n: usize| Host { tenant: ["a", "b"][n % 2].into(), name: format!("{n}.example.com") };
        let is_ours = || outage.0.lock().unwrap().is_ours(&host(0));
        for n in 0..10 {
            outage.0.lock().unwrap().silence(&host(n), false, Timestamp::ZERO);
        }
        assert!(is_ours());
        outage.end();
        assert!(!is_ours());
    }
}
