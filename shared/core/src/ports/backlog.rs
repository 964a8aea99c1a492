use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::{Tenant, UrlId};

/// The bytes of bodies that wait for a tenant's receivers: of deliveries that are waiting or parked, and of messages on the
/// first-attempt queue. Each delivery counts the body that it shares with the other deliveries of its event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub bytes: u64,
    /// The URL with most of them, and how many it has. `None` if nothing waits.
    pub largest: Option<(UrlId, u64)>,
}

impl Waiting {
    /// Adds up what waits for each URL. A URL may be named more than once.
    #[must_use]
    pub fn sum(by_url: impl IntoIterator<Item = (UrlId, u64)>) -> Waiting {
        let mut sums = std::collections::BTreeMap::new();
        for (url_id, bytes) in by_url {
            let sum = sums.entry(url_id).or_insert(0_u64);
            *sum = sum.saturating_add(bytes);
        }
        let bytes = sums.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let largest = sums.into_iter().filter(|(_, bytes)| *bytes > 0).max_by_key(|(_, bytes)| *bytes);
        Waiting { bytes, largest }
    }
}

/// How much waits, by a counter for each URL, kept in the transactions that change what waits. `None`: this host does not count.
#[async_trait]
pub trait Backlog: Send + Sync {
    async fn of(&self, tenant: &Tenant) -> Result<Option<Waiting>, StoreError>;

    /// Only the sum. Asked before every post of a tenant with a quota on it, so it must not take longer than a small read.
    async fn bytes(&self, tenant: &Tenant) -> Result<Option<u64>, StoreError> {
        Ok(self.of(tenant).await?.map(|waiting| waiting.bytes))
    }

    /// The bytes of the tenant's bodies in the store, whether they wait or were delivered, and of the records that count
    /// ([`crate::records::Record::counted_bytes`]). Asked as often as [`Backlog::bytes`].
    async fn stored_bytes(&self, tenant: &Tenant) -> Result<Option<u64>, StoreError>;
}

/// For hosts that do not count: on AWS a counter for each tenant would take a write for each delivery, all on one key.
pub struct NotCounted;

#[async_trait]
impl Backlog for NotCounted {
    async fn of(&self, _: &Tenant) -> Result<Option<Waiting>, StoreError> {
        Ok(None)
    }

    async fn stored_bytes(&self, _: &Tenant) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_after_adding_up() {
        let url = |name: &str| UrlId(name.to_owned());
        let waiting = Waiting::sum([(url("a"), 3), (url("b"), 4), (url("a"), 2)]);
        assert_eq!(waiting, Waiting { bytes: 9, largest: Some((url("a"), 5)) });
        assert_eq!(Waiting::sum([(url("a"), 0)]), Waiting::default());
        assert_eq!(Waiting::sum([]), Waiting::default());
    }
}
