//! During a deploy, and after a rollback, an older release meets records that a newer one wrote.

use std::time::Duration;

use holdfast_core::engine::{DeliveryFilter, NewKey, NewSubscription, Scope, SubscriptionPatch};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Inbox, QueueName, Settlement};
use holdfast_core::records::{DeliveryRecord, Key, Record, Subscription, UrlReplay};
use holdfast_core::rules::access::Role;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::event;

const HOUR: Duration = Duration::from_secs(3600);
const HEALTHY: &str = "http://healthy.test/";
const FAILING: &str = "http://failing.test/";
const PARKED: &str = "http://parked.test/";

struct Lived {
    world: World,
    subscriptions: [Subscription; 3],
    key: holdfast_core::ids::KeyId,
}

/// A world with a record of every kind, and a message of every kind in its queues.
fn lived_in_world() -> Lived {
    let mut world = World::new(7, None);
    let key = NewKey {
        tenant: Some(world.tenant.clone()),
        role: Role::Admin,
        description: None,
        expires_at_real: None,
    };
    let key = block_on(world.engine.create_key(key, me())).unwrap().record.id;
    let operator = NewKey { tenant: None, role: Role::Operator, description: None, expires_at_real: None };
    block_on(world.engine.create_key(operator, me())).unwrap();
    let subscriptions = [HEALTHY, FAILING, PARKED].map(|url| world.subscribe(url));
    world.receiver.answer(FAILING, 500);
    world.post("before");
    while world.work() {}
    // A disabled URL with a parked delivery, whose probe becomes due.
    world.change_url_state(&subscriptions[2], OperatorAction::Disable);
    world.post("parked");
    while world.work() {}
    world.pass(Duration::from_secs(601));
    // An enabled URL with a release and an announcement under way, a reassignment, a replay, a fan-out.
    world.change_url_state(&subscriptions[1], OperatorAction::Freeze);
    world.change_url_state(&subscriptions[1], OperatorAction::Enable);
    let moved =
        SubscriptionPatch { url: Some("http://moved.test/".to_owned()), ..SubscriptionPatch::default() };
    world.change(&subscriptions[0].id, &moved);
    block_on(world.engine.replay_url(&world.tenant, replay_of(&subscriptions[0]), me())).unwrap();
    for number in 0..101 {
        world.subscribe_to(&format!("http://many.test/{number}"), "order.created");
    }
    world.post("large");
    block_on(world.engine.accept(&world.tenant, vec![event("held", "{}")])).unwrap();
    block_on(world.engine.flush_activity(true));
    Lived { world, subscriptions, key }
}

fn replay_of(subscription: &Subscription) -> UrlReplay {
    UrlReplay {
        url_id: subscription.url_id.clone(),
        since: None,
        until: None,
        states: vec![DeliveryState::Delivered],
        expired_since: None,
    }
}

/// Everything that a producer, a customer and an operator can ask for. Whether it succeeds does not matter here.
fn ask_for_everything(lived: &Lived) {
    let Lived { world, subscriptions, key } = lived;
    let (engine, tenant) = (&world.engine, &world.tenant);
    let deliveries = subscriptions.iter().map(|subscription| world.delivery("before", subscription));
    for (subscription, delivery) in subscriptions.iter().zip(deliveries) {
        let _ = block_on(engine.replay(&delivery, me()));
        let _ = block_on(engine.replay_url(tenant, replay_of(subscription), me()));
        let _ = block_on(engine.rotate_secret(tenant, &subscription.id, me()));
        let _ = block_on(engine.ping(tenant, &subscription.id, false));
        for action in [OperatorAction::Disable, OperatorAction::Freeze, OperatorAction::Enable] {
            let _ = block_on(engine.change_url_state(tenant, &subscription.url_id, action, None, true, me()));
        }
        let patch = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
        let _ = block_on(engine.update_subscription(tenant, &subscription.id, patch, me()));
        let _ = block_on(engine.delete_subscription(tenant, &subscription.id, me()));
        let _ = block_on(engine.subscribe(tenant, NewSubscription::to(&subscription.url, "*"), me()));
    }
    let _ = block_on(engine.accept(tenant, vec![event("before", r#"{"n": 1}"#), event("new", "{}")]));
    let _ = block_on(engine.delete_key(key, None, false, me()));
    let _ = block_on(engine.sweep());
}

fn of_kind(world: &World, is: impl Fn(&Record) -> bool) -> usize {
    world.store.all().iter().filter(|record| is(record)).count()
}

#[test]
fn no_use_case_changes_a_record_of_a_newer_release() {
    let lived = lived_in_world();
    let world = &lived.world;
    for (kind, count) in [
        ("event", of_kind(world, |r| matches!(r, Record::Event(_)))),
        ("delivery", of_kind(world, |r| matches!(r, Record::Delivery(_)))),
        ("log", of_kind(world, |r| matches!(r, Record::Logged(_)))),
        ("attempt", of_kind(world, |r| matches!(r, Record::Attempt(_)))),
        ("parked pointer", of_kind(world, |r| matches!(r, Record::Parked(_)))),
        ("url", of_kind(world, |r| matches!(r, Record::Url(_)))),
        ("history", of_kind(world, |r| matches!(r, Record::History(_)))),
        ("job", of_kind(world, |r| matches!(r, Record::Job(_)))),
        ("replay", of_kind(world, |r| matches!(r, Record::Replay(_)))),
        ("key", of_kind(world, |r| matches!(r, Record::Key(_)))),
        ("subscription", of_kind(world, |r| matches!(r, Record::Subscription(_)))),
        ("minute", of_kind(world, |r| matches!(r, Record::Minute(_)))),
    ] {
        assert!(count > 0, "the world has a record of the kind {kind}");
    }
    world.store.make_newer();
    let before = world.store.newer();
    assert!(before.values().all(|bytes| String::from_utf8_lossy(bytes).contains("from_the_next_release")));
    let queued = [QueueName::First, QueueName::Retry].map(|queue| world.queue.len(queue));
    for queue in [QueueName::First, QueueName::Retry] {
        loop {
            let batch = block_on(world.queue.receive(queue, 10)).unwrap();
            if batch.is_empty() {
                break;
            }
            for settlement in block_on(world.engine.handle(batch, Timestamp::MAX)) {
                assert!(matches!(settlement, Settlement::RetryAfter(_)), "{settlement:?}");
            }
        }
    }
    ask_for_everything(&lived);
    let after = world.store.newer();
    let changed: Vec<&Key> = before.keys().filter(|key| before.get(key) != after.get(key)).collect();
    assert!(changed.is_empty(), "these newer records were changed: {changed:?}");
    assert!(
        world.receiver.requests().iter().all(|request| request.status != 0),
        "nothing was left in flight"
    );
    assert_eq!([QueueName::First, QueueName::Retry].map(|queue| world.queue.len(queue)), queued);
}

#[test]
fn what_waited_for_the_newer_release_is_delivered_by_it() {
    let mut lived = lived_in_world();
    let world = &mut lived.world;
    world.store.make_newer();
    for _ in 0..3 {
        while world.work() {}
        world.sweep();
        world.pass(Duration::from_secs(60));
    }
    world.store.make_current();
    world.receiver.answer(FAILING, 200);
    world.run_for(HOUR * 60);
    let tenant: Tenant = world.tenant.clone();
    let alive: Vec<DeliveryRecord> =
        world.deliveries().into_iter().filter(|d| d.progress.state.is_live()).collect();
    assert!(alive.is_empty(), "{alive:?}");
    let filter = DeliveryFilter {
        scope: Scope::Event("large".to_owned()),
        url: None,
        subscription: None,
        state: Some(DeliveryState::Delivered),
        since: None,
        until: None,
    };
    let delivered = block_on(world.engine.list_deliveries(&tenant, &filter, None, 200)).unwrap();
    assert_eq!(delivered.items.len(), 104, "every recipient of the fan-out got it");
}
