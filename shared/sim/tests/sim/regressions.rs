//! Named for what broke.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::engine::{DeliveryFilter, Scope};
use holdfast_core::ports::{Clock, QueueName};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

const URL: &str = "http://shop.test/hook";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_first_attempt_that_waited_too_long_is_not_made() {
    let mut world = World::new(1, None);
    world.subscribe(URL);
    world.post("late");
    world.clock.advance(HOUR * 53);
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests(), []);
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 1);
    assert_eq!(
        (deliveries[0].progress.state, deliveries[0].progress.reason),
        (DeliveryState::Dead, Some(Reason::Expired))
    );
    world.check();
}

#[test]
fn a_subscription_deleted_before_its_turn_in_a_fan_out_has_a_dead_delivery() {
    let mut world = World::new(2, None);
    let subscriptions: Vec<_> = (0..130).map(|n| world.subscribe(&format!("http://many.test/{n}"))).collect();
    world.post("big");
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscriptions[7].id, me())).unwrap());
    world.run_for(HOUR);
    world.check();
    assert_eq!(world.receiver.requests().len(), 129);
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 1);
    assert_eq!(deliveries[0].key.subscription_id, subscriptions[7].id);
    assert_eq!(deliveries[0].progress.reason, Some(Reason::Unsubscribed));
}

#[test]
fn a_replayed_delivery_is_listed_once_even_when_a_page_ends_inside_it() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    for id in ["one", "two", "three"] {
        world.post(id);
    }
    world.run_for(HOUR);
    for id in ["one", "two", "three"] {
        block_on(world.engine.replay(&world.delivery(id, &subscription), me())).unwrap();
    }
    world.run_for(HOUR);
    let filter = DeliveryFilter {
        scope: Scope::Tenant,
        url: None,
        subscription: None,
        state: None,
        since: None,
        until: None,
    };
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = block_on(world.engine.list_deliveries(&world.tenant, &filter, after, 1)).unwrap();
        listed.extend(page.items.into_iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<_> = listed.iter().collect();
    assert_eq!((listed.len(), distinct.len()), (3, 3), "{listed:?}");
}

#[test]
fn an_unreadable_message_does_not_hold_up_the_others() {
    let mut world = World::new(4, None);
    world.subscribe(URL);
    world.queue.send_raw(QueueName::First, b"not a message".to_vec());
    world.queue.send_raw(QueueName::Retry, br#"{"v":99,"kind":"from the future"}"#.to_vec());
    world.post("one");
    while world.work() {}
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(
        (world.queue.len(QueueName::First), world.queue.len(QueueName::Retry)),
        (1, 1),
        "they are kept"
    );
}

#[test]
fn a_first_attempt_received_a_fourth_time_has_a_record_and_is_claimed() {
    let mut world = World::new(5, None);
    let subscription = world.subscribe(URL);
    world.post("killer");
    // Three hosts receive it, say nothing, and die. From then on its attempts are claimed.
    for _ in 0..3 {
        let received =
            block_on(holdfast_core::ports::Inbox::receive(&*world.queue, QueueName::First, 1)).unwrap();
        assert_eq!(received.len(), 1);
        world.clock.advance(Duration::from_secs(181));
    }
    world.run_for(HOUR);
    let key = world.delivery("killer", &subscription);
    let view = block_on(world.engine.view_delivery(&key)).unwrap().unwrap();
    assert_eq!(view.state, DeliveryState::Delivered);
    assert_eq!(view.attempts.len(), 1);
    world.check();
    assert!(world.clock.now() > view.accepted_at);
}
