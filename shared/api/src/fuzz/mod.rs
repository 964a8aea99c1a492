//! What must hold for any request. The property tests here and the targets in `infra/fuzz` call the same functions.

pub mod events;
pub mod query;
mod refusal;
pub mod small_bodies;
pub mod subscriptions;

#[cfg(test)]
mod tests {
    use super::*;

    holdfast_sim::test_hostile_input! {
        1_000,
        posts_and_batches => events,
        new_and_changed_subscriptions => subscriptions,
        keys_quotas_replays_and_reasons => small_bodies,
        parameters_cursors_and_authorization => query,
    }
}
