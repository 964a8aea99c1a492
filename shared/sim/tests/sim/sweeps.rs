//! The sweep says what it found, and sends tickets for what waits only.

use std::time::Duration;

use holdfast_core::engine::SweepReport;
use holdfast_core::ports::{Clock, QueueName};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;

use super::{MINUTE, subscription_with_a_retry_due};

/// Lets time pass until the delivery "one" was to be looked at `late` ago, and sweeps.
fn sweep_after(world: &mut World, late: Duration) -> SweepReport {
    let look_at = world.deliveries()[0].progress.look_at.unwrap();
    world.pass(look_at.since(world.clock.now()) + late);
    block_on(world.engine.sweep()).unwrap()
}

#[test]
fn a_sweep_reports_what_it_looked_at() {
    let mut world = World::new(1, None);
    subscription_with_a_retry_due(&mut world);
    world.queue.lose_all(QueueName::Retry);
    let report = sweep_after(&mut world, MINUTE);
    assert_eq!(report, SweepReport { looked_at: 1, oldest_overdue: MINUTE, more: false, failed: 0 });
    assert_eq!(world.queue.len(QueueName::Retry), 1, "its ticket is sent again");
}

#[test]
fn a_parked_delivery_is_looked_at_without_a_ticket() {
    let mut world = World::new(2, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.run_for(MINUTE);
    assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Parked);
    world.queue.lose_all(QueueName::Retry);
    assert_eq!(sweep_after(&mut world, Duration::ZERO).looked_at, 1);
    let tickets = world.queue.messages(QueueName::Retry);
    assert!(tickets.is_empty(), "{tickets:?}");
}
