//! How many posts of a tenant do at the same time what takes much memory.

use crate::engine::gate::{Gate, GateLimits, Inside};
use crate::ids::Tenant;
use crate::rules::matching::SubscriptionIndex;

/// Posts that match their events with a large index. Each brings the index up to date first, which copies it if another post holds it: so
/// one post of a tenant at a time, and one index in memory.
const WITH_LARGE_INDEX: GateLimits = GateLimits { in_all: 64, per_holder: 1, one_each: true };
const LARGE_INDEX_BYTES: u64 = 1 << 20;

/// Posts whose messages are many, each of them with about a kilobyte beside its body until the queue has stored it, or whose messages hold
/// many bytes: each has a copy of its body.
const WITH_MANY_MESSAGES: GateLimits = GateLimits { in_all: 8, per_holder: 2, one_each: true };
const MANY_MESSAGES: usize = 500;
const MANY_BYTES: usize = 512_000;
/// Posts with fewer bytes than that, and more than most have.
const WITH_SOME_BYTES: GateLimits = GateLimits { in_all: 32, per_holder: 8, one_each: true };
const SOME_BYTES: usize = 64_000;

/// Posts whose events may have many recipients in all: those stay in memory from the search until they are queued.
const WITH_MANY_RECIPIENTS: GateLimits = GateLimits { in_all: 16, per_holder: 2, one_each: true };
const MANY_RECIPIENTS: u64 = 100_000;

/// Whether matching with this index takes a place.
pub(super) fn is_large(index: &SubscriptionIndex) -> bool {
    index.bytes() >= LARGE_INDEX_BYTES
}

pub(in crate::engine) struct Crowd {
    many_recipients: Gate<Tenant>,
    large_index: Gate<Tenant>,
    many_messages: Gate<Tenant>,
    some_bytes: Gate<Tenant>,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd {
            many_recipients: Gate::new(WITH_MANY_RECIPIENTS),
            large_index: Gate::new(WITH_LARGE_INDEX),
            many_messages: Gate::new(WITH_MANY_MESSAGES),
            some_bytes: Gate::new(WITH_SOME_BYTES),
        }
    }
}

impl Crowd {
    /// Waits for a place to hold so many recipients until they are queued, if that takes one.
    pub(super) async fn to_hold(&self, tenant: &Tenant, recipients: u64) -> Option<Inside<Tenant>> {
        match recipients {
            MANY_RECIPIENTS.. => Some(self.many_recipients.enter(tenant, recipients / MANY_RECIPIENTS).await),
            _ => None,
        }
    }

    /// Waits for a place to match with an index of this size, if that takes one.
    pub(super) async fn to_match(&self, tenant: &Tenant, index_bytes: u64) -> Option<Inside<Tenant>> {
        match index_bytes {
            LARGE_INDEX_BYTES.. => Some(self.large_index.enter(tenant, 1).await),
            _ => None,
        }
    }

    /// The same to send so many messages with so many bytes of bodies.
    pub(super) async fn to_send(
        &self,
        tenant: &Tenant,
        messages: usize,
        bytes: usize,
    ) -> Option<Inside<Tenant>> {
        let cost = 1 + messages as u64 / 100 + bytes as u64 / 100_000;
        match (messages, bytes) {
            (MANY_MESSAGES.., _) | (_, MANY_BYTES..) => Some(self.many_messages.enter(tenant, cost).await),
            (_, SOME_BYTES..) => Some(self.some_bytes.enter(tenant, cost).await),
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
        let to_send = |messages| crowd.to_send(&tenant, messages, 1_000).now_or_never();
        let inside = to_match(LARGE_INDEX_BYTES);
        assert!(inside.as_ref().is_some_and(Option::is_some));
        assert!(to_match(LARGE_INDEX_BYTES).is_none(), "the second waits");
        assert!(to_match(LARGE_INDEX_BYTES - 1).is_some(), "a small index takes no place");
        let sending: Vec<_> = (0..2).map(|_| to_send(10_000)).collect();
        assert!(sending.iter().all(Option::is_some) && to_send(MANY_MESSAGES).is_none());
        assert!(to_send(MANY_MESSAGES - 1).is_some());
        let others = (0..200).map(|n| Tenant::from(format!("t{n}").as_str()));
        let others: Vec<_> = others
            .map(|tenant| {
                let place = crowd.to_match(&tenant, LARGE_INDEX_BYTES).now_or_never();
                (place, crowd.to_send(&tenant, 10_000, 1_000).now_or_never())
            })
            .collect();
        assert!(others.iter().all(|(one, two)| one.is_some() && two.is_some()), "each tenant gets on");
        drop((inside, sending, others));
        assert!(to_match(LARGE_INDEX_BYTES).is_some() && to_send(10_000).is_some());
    }

    /// 280 posts of a tenant, each with 100 events for 8,000 recipients, took 1.9 GB.
    #[test]
    fn few_posts_of_a_tenant_hold_many_recipients_at_the_same_time() {
        let crowd = Crowd::default();
        let tenant = Tenant::from("a");
        let to_hold = |recipients| crowd.to_hold(&tenant, recipients).now_or_never();
        let holding: Vec<_> = (0..2).map(|_| to_hold(800_000)).collect();
        assert!(holding.iter().all(|place| place.as_ref().is_some_and(Option::is_some)));
        assert!(to_hold(MANY_RECIPIENTS).is_none(), "the third waits");
        assert!(to_hold(MANY_RECIPIENTS - 1).is_some(), "most posts take no place");
        assert!(crowd.to_hold(&"b".into(), 800_000).now_or_never().is_some());
        drop(holding);
        assert!(to_hold(800_000).is_some());
    }

    /// 256 posts of a tenant, each with a body for 26 recipients, took 1.5 GB.
    #[test]
    fn few_posts_of_a_tenant_send_many_bytes_at_the_same_time() {
        let crowd = Crowd::default();
        let tenant = Tenant::from("a");
        let to_send = |bytes| crowd.to_send(&tenant, 26, bytes).now_or_never();
        let sending: Vec<_> = (0..2).map(|_| to_send(26 * 148_000)).collect();
        assert!(sending.iter().all(Option::is_some) && to_send(MANY_BYTES).is_none());
        let sending_some: Vec<_> = (0..8).map(|_| to_send(MANY_BYTES - 1)).collect();
        assert!(sending_some.iter().all(Option::is_some) && to_send(SOME_BYTES).is_none());
        assert!(to_send(SOME_BYTES - 1).is_some(), "most posts take no place");
        assert!(crowd.to_send(&"b".into(), 26, 26 * 148_000).now_or_never().is_some());
        drop((sending, sending_some));
        assert!(to_send(26 * 148_000).is_some() && to_send(SOME_BYTES).is_some());
    }
}
