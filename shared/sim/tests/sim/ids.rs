//! A given id makes a post idempotent, for 24 hours.

use std::time::Duration;

use holdfast_core::engine::{AcceptError, Accepted};
use holdfast_core::ports::QueueName;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on};

use super::{HOUR, MINUTE, REDELIVERED, URL, event};

const ALMOST_A_DAY: Duration = Duration::from_millis(24 * 3_600_000 - 1);

fn accept(world: &World, id: &str, data: &str) -> Result<Accepted, AcceptError> {
    block_on(world.engine.accept(&world.tenant, vec![event(id, data)])).map(|mut all| all.remove(0))
}

#[test]
fn an_id_is_remembered_for_24_hours() {
    let mut world = World::new(1, None);
    world.subscribe(URL);
    assert!(!accept(&world, "one", "1").unwrap().duplicate);
    world.run_for(ALMOST_A_DAY);
    let again = accept(&world, "one", "1").unwrap();
    assert_eq!((again.deliveries, again.duplicate), (1, true));
    assert!(matches!(accept(&world, "one", "2"), Err(AcceptError::IdTaken { .. })));
    world.run_for(Duration::from_millis(1));
    assert!(!accept(&world, "one", "2").unwrap().duplicate, "another event by now");
    world.run_for(MINUTE);
    assert_eq!(world.receiver.requests().len(), 2);
}

#[test]
fn an_event_whose_acceptance_was_interrupted_is_finished_by_the_next_post() {
    let mut world = World::new(2, None);
    world.subscribe(URL);
    // Its delivery is queued, but the id is not marked as done.
    world.scripted.fail_next(StoreCall::PutEach);
    assert!(matches!(accept(&world, "one", "1"), Err(AcceptError::Unavailable(_))));
    assert!(matches!(accept(&world, "one", "1"), Err(AcceptError::Busy { .. })), "the lease is alive");
    world.run_for(REDELIVERED);
    assert_eq!(world.receiver.requests().len(), 1);
    assert!(!accept(&world, "one", "1").unwrap().duplicate);
    world.run_for(MINUTE);
    assert_eq!(world.receiver.requests().len(), 1, "it was delivered before");
    assert!(accept(&world, "one", "1").unwrap().duplicate);
}

/// After a crash, producers were told for half a minute that their event is being accepted.
#[test]
fn the_lease_of_a_process_that_has_ended_is_void_where_there_is_no_other() {
    for (since, is_void) in [(Timestamp::MAX, true), (Timestamp::ZERO, false)] {
        let world = World::with_settings(4, |settings| settings.only_process_since_real = Some(since));
        world.subscribe(URL);
        world.scripted.fail_next(StoreCall::PutEach);
        assert!(matches!(accept(&world, "one", "1"), Err(AcceptError::Unavailable(_))));
        let again = accept(&world, "one", "1");
        assert_eq!(again.is_ok_and(|accepted| !accepted.duplicate), is_void, "since {since}");
    }
}

#[test]
fn an_event_that_could_not_be_queued_is_not_accepted() {
    let mut world = World::new(3, None);
    world.subscribe(URL);
    world.queue.refuse_next(QueueName::First);
    assert!(matches!(accept(&world, "one", "1"), Err(AcceptError::Unavailable(_))));
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests(), []);
    assert!(!accept(&world, "one", "1").unwrap().duplicate);
    world.run_for(MINUTE);
    assert_eq!(world.receiver.requests().len(), 1);
}
