//! Nothing is attempted later than 52 hours after the first attempt of its epoch, and everything before that is.

use std::time::Duration;

use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{DAY, HOUR, MINUTE, URL, subscription_with_a_retry_due};

const LIFETIME: Duration = Duration::from_secs(52 * 3600);
const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_first_attempt_is_made_up_to_the_last_moment() {
    for (waited, made) in [(LIFETIME, true), (LIFETIME + MILLISECOND, false)] {
        let mut world = World::new(1, None);
        world.subscribe(URL);
        world.post("one");
        world.pass(waited);
        assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
        assert_eq!(!world.receiver.requests().is_empty(), made, "after {waited:?}");
        let dead: Vec<_> =
            world.deliveries().into_iter().map(|record| (record.progress.reason, record.url)).collect();
        assert_eq!(dead, if made { vec![] } else { vec![(Some(Reason::Expired), URL.to_owned())] });
        world.check();
    }
}

#[test]
fn a_retry_is_made_up_to_the_last_moment() {
    for (after_the_end, made) in [(Duration::ZERO, true), (MILLISECOND, false)] {
        let mut world = World::new(2, None);
        let subscription = subscription_with_a_retry_due(&mut world);
        let expires_at = world.record("one", &subscription).unwrap().progress.expires_at;
        world.pass(expires_at.since(world.clock.now()) + after_the_end);
        world.receiver.answer(URL, 200);
        world.handle(QueueName::Retry);
        let record = world.record("one", &subscription).unwrap();
        let expected = if made {
            (DeliveryState::Delivered, None, 2)
        } else {
            (DeliveryState::Dead, Some(Reason::Expired), 1)
        };
        assert_eq!(
            (record.progress.state, record.progress.reason, world.receiver.requests().len()),
            expected
        );
        world.check();
    }
}

#[test]
fn the_52_hours_begin_with_the_first_attempt() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.pass(10 * HOUR);
    world.run_for(3 * DAY);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.progress.reason, world.receiver.requests().len()), (Some(Reason::Exhausted), 12));
}

#[test]
fn a_replay_has_52_hours_of_its_own() {
    let mut world = World::new(4, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.run_for(10 * DAY);
    block_on(world.engine.replay(&world.delivery("one", &subscription), me())).unwrap();
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.progress.expires_at, record.progress.remove_at), (world.clock.now() + LIFETIME, None));
    world.run_for(3 * DAY);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.progress.reason, record.progress.epoch), (Some(Reason::Exhausted), 1));
    assert_eq!(world.receiver.requests().len(), 24);
    world.check();
}

/// The retry of a delivery that was frozen until its last minute is under way.
fn world_with_a_last_attempt_due(function_timeout: Duration) -> World {
    let mut world = World::with_settings(5, |settings| settings.function_timeout = function_timeout);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    let expires_at = world.record("one", &subscription).unwrap().progress.expires_at;
    world.pass((expires_at - MINUTE).since(world.clock.now()));
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    world
}

#[test]
fn the_sweep_does_not_expire_an_attempt_that_is_in_flight() {
    // Longer than the sweep waits before it looks at a claimed delivery.
    let world = world_with_a_last_attempt_due(15 * MINUTE);
    world.receiver.hold_next(URL);
    world.receiver.answer(URL, 200);
    let in_flight = world.begin(QueueName::Retry);
    world.pass(6 * MINUTE);
    assert_eq!(block_on(world.engine.sweep()).unwrap().failed, 0);
    let record = world.deliveries().remove(0);
    assert!(record.progress.is_expired(world.clock.now()));
    assert_eq!((record.progress.state, record.progress.reason), (DeliveryState::Waiting, None));
    world.receiver.release();
    assert_eq!(in_flight.finish(), [Settlement::Delete]);
    assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Delivered);
}

#[test]
fn a_ticket_does_not_expire_an_attempt_that_is_in_flight() {
    let world = world_with_a_last_attempt_due(15 * MINUTE);
    world.receiver.hold_next(URL);
    let in_flight = world.begin(QueueName::Retry);
    world.pass(6 * MINUTE);
    world.send_ticket(super::ticket_of(&world.deliveries()[0]));
    world.handle(QueueName::Retry);
    assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Waiting);
    drop(in_flight);
}

#[test]
fn a_release_makes_dead_what_expired_while_it_was_parked() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.post("old");
    world.handle(QueueName::First);
    world.pass(LIFETIME);
    world.post("young");
    world.handle(QueueName::First);
    world.pass(MILLISECOND);
    let changed = world.engine.change_url_state(
        &world.tenant,
        &subscription.url_id,
        OperatorAction::Enable,
        None,
        false,
        me(),
    );
    let changed = block_on(changed).unwrap();
    assert_eq!((changed.released, changed.expired), (1, 1));
    world.handle(QueueName::Retry);
    let old = world.record("old", &subscription).unwrap();
    assert_eq!(old.progress.reason, Some(Reason::Expired), "by the first step");
    for _ in 0..10 {
        while world.work() {}
        world.pass(Duration::from_secs(1));
    }
    let of = |id| {
        world.record(id, &subscription).map(|record| (record.progress.state, record.progress.reason)).unwrap()
    };
    assert_eq!(of("old"), (DeliveryState::Dead, Some(Reason::Expired)));
    assert_eq!(of("young"), (DeliveryState::Delivered, None));
    assert_eq!(world.receiver.requests().len(), 1);
    world.check();
}
