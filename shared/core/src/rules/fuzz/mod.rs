//! What must hold for any input of the rules that read text from outside. The property tests here and the targets in `infra/fuzz` call
//! the same functions.

pub mod matching;
pub mod names;
pub mod networks;
pub mod url;

#[cfg(test)]
mod tests {
    use super::*;

    holdfast_sim::test_hostile_input! {
        1_000,
        urls => url,
        networks_ports_and_proxies => networks,
        names_ids_times_and_keys => names,
        filters_and_matching => matching,
    }
}
