//! How many posts of a tenant do at the same time what takes much memory.

use crate::engine::gate::{Gate, GateLimits, Inside};
use crate::ids::Tenant;

/// Posts that match their events with a large index. While one of them holds the index, a change of a subscription copies it.
const WITH_LARGE_INDEX: GateLimits = GateLimits { in_all: 64, per_holder: 4, one_each: true };
const LARGE_INDEX_BYTES: u64 = 1 << 20;

/// Posts whose messages are many, each of them with about a kilobyte beside its body until the queue has stored it.
const WITH_MANY_MESSAGES: GateLimits = GateLimits { in_all: 16, per_holder: 2, one_each: true };
const MANY_MESSAGES: usize = 500;

pub(in crate::engine) struct Crowd {
    large_index: Gate<Tenant>,
    many_messages: Gate<Tenant>,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd { large_index: Gate::new(WITH_LARGE_INDEX), many_messages: Gate::new(WITH_MANY_MESSAGES) }
    }
}

impl Crowd {
    /// Waits for a place to match with an index of this size, if that takes one.
    pub(super) async fn to_match(&self, tenant: &Tenant, index_bytes: u64) -> Option<Inside<Tenant>> {
        match index_bytes {
            LARGE_INDEX_BYTES.. => Some(self.large_index.enter(tenant, 1).await),
            _ => None,
        }
    }

    /// The same to send so many messages.
    pub(super) async fn to_send(&self, tenant: &Tenant, messages: usize) -> Option<Inside<Tenant>> {
        match messages {
            MANY_MESSAGES.. => Some(self.many_messages.enter(tenant, 1 + messages as u64 / 100).await),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn few_posts_of_a_tenant_take_much_memory_at_the_same_time() {
        let crowd = Crowd::default();
        let tenant = Tenant::from("a");
        let to_match = |bytes| crowd.to_match(&tenant, bytes).now_or_never();
        let to_send = |messages| crowd.to_send(&tenant, messages).now_or_never();
        let inside: Vec<_> = (0..4).map(|_| to_match(LARGE_INDEX_BYTES)).collect();
        assert!(inside.iter().all(|place| place.as_ref().is_some_and(Option::is_some)));
        assert!(to_match(LARGE_INDEX_BYTES).is_none(), "the fifth waits");
        assert!(to_match(LARGE_INDEX_BYTES - 1).is_some(), "a small index takes no place");
        let sending: Vec<_> = (0..2).map(|_| to_send(10_000)).collect();
        assert!(sending.iter().all(Option::is_some) && to_send(MANY_MESSAGES).is_none());
        assert!(to_send(MANY_MESSAGES - 1).is_some());
        let others = (0..200).map(|n| Tenant::from(format!("t{n}").as_str()));
        let others: Vec<_> = others
            .map(|tenant| {
                let place = crowd.to_match(&tenant, LARGE_INDEX_BYTES).now_or_never();
                (place, crowd.to_send(&tenant, 10_000).now_or_never())
            })
            .collect();
        assert!(others.iter().all(|(one, two)| one.is_some() && two.is_some()), "each tenant gets on");
        drop((inside, sending, others));
        assert!(to_match(LARGE_INDEX_BYTES).is_some() && to_send(10_000).is_some());
    }
}
