//! What must hold for any request. The property tests here and the targets in `infra/fuzz` call the same functions.

pub mod events;
pub mod query;
mod refusal;
pub mod small_bodies;
pub mod subscriptions;

#[cfg(test)]
mod tests {
    use holdfast_sim::mutate::{Edit, mutate};
    use proptest::prelude::*;

    use super::*;

    /// Nearly valid input, and now and then any bytes at all.
    fn hostile(seeds: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<u8>> {
        let mutated = (any::<usize>(), prop::collection::vec(any::<Edit>(), 0..8));
        prop_oneof![
            9 => mutated.prop_map(move |(pick, edits)| mutate(&seeds, pick, &edits)),
            1 => prop::collection::vec(any::<u8>(), 0..200),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn posts_and_batches(input in hostile(events::seeds())) {
            events::check(&input);
        }

        #[test]
        fn new_and_changed_subscriptions(input in hostile(subscriptions::seeds())) {
            subscriptions::check(&input);
        }

        #[test]
        fn keys_quotas_replays_and_reasons(input in hostile(small_bodies::seeds())) {
            small_bodies::check(&input);
        }

        #[test]
        fn parameters_cursors_and_authorization(input in hostile(query::seeds())) {
            query::check(&input);
        }
    }
}
