//! First attempts are counted on their URL apart from retries: they say what share of the deliveries a receiver refuses.

use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{DAY, MINUTE, URL};

/// Attempts and failures in the window, then the same of first attempts.
fn window(world: &World, subscription: &Subscription) -> [u64; 4] {
    let health = world.url(subscription).health;
    assert_eq!(health.state, UrlState::Enabled);
    [
        health.window_attempts,
        health.window_failures,
        health.window_first_attempts,
        health.window_first_failures,
    ]
}

fn post_all(world: &mut World, name: &str, count: usize) {
    for n in 0..count {
        world.post(&format!("{name}-{n}"));
    }
    while world.work() {}
}

/// The example of the guide about operating URLs.
#[test]
fn a_receiver_that_refuses_16_of_100_events_for_good_shows_both_shares() {
    let mut world = World::new(1, None);
    let subscription = world.subscribe(URL);
    post_all(&mut world, "accepted", 84);
    world.receiver.answer(URL, 500);
    post_all(&mut world, "refused", 16);
    assert_eq!(window(&world, &subscription), [100, 16, 100, 16]);
    world.run_for_with_a_sweep_each_minute(3 * DAY);
    assert_eq!(window(&world, &subscription), [276, 192, 100, 16]);

    // A replay begins a new epoch: its first attempt is not the delivery's.
    let key = world.record("refused-0", &subscription).unwrap().key;
    block_on(world.engine.replay(&key, me())).unwrap();
    while world.work() {}
    assert_eq!(window(&world, &subscription), [277, 193, 100, 16]);
    world.check();
}

#[test]
fn a_first_attempt_that_was_parked_before_counts_when_it_is_made() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    post_all(&mut world, "parked", 3);
    world.receiver.answer(URL, 500);
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.run_for_with_a_sweep_each_minute(DAY * 3);
    let record = world.record("parked-0", &subscription).unwrap();
    assert_eq!(
        (record.progress.state, record.progress.reason),
        (DeliveryState::Dead, Some(Reason::Exhausted))
    );
    assert_eq!(window(&world, &subscription), [36, 36, 3, 3]);
    world.receiver.answer(URL, 200);
    world.run_for_with_a_sweep_each_minute(MINUTE);
    world.check();
}
