//! What must hold for any input of the rules that read text from outside. The property tests here and the targets in `infra/fuzz` call
//! the same functions.

pub mod matching;
pub mod names;
pub mod networks;
pub mod url;

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
        fn urls(input in hostile(url::seeds())) {
            url::check(&input);
        }

        #[test]
        fn networks_ports_and_proxies(input in hostile(networks::seeds())) {
            networks::check(&input);
        }

        #[test]
        fn names_ids_times_and_keys(input in hostile(names::seeds())) {
            names::check(&input);
        }

        #[test]
        fn filters_and_matching(input in hostile(matching::seeds())) {
            matching::check(&input);
        }
    }
}
