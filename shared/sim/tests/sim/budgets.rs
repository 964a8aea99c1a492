//! What one tenant subscribes takes no more memory than its budget, and what it costs to match is not paid by others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use holdfast_core::engine::{
    AcceptError, Engine, NewEvent, NewSubscription, Ports, Settings, SubscribeError, SubscriptionPatch,
    Unavailable, UpdateError,
};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Inbox, QueueName};
use holdfast_core::rules::filter::{Filter, Op};
use holdfast_core::time::Timestamp;
use holdfast_sim::{Memory, ScriptedStore, StoreCall, block_on, me};

const BUDGET: u64 = 100_000;

fn engine(memory: &Memory, max_index_bytes: u64) -> Engine {
    Engine::new(memory.ports(), Settings { http_allowed: true, max_index_bytes, ..Settings::default() })
}

/// Takes about a tenth of the budget.
fn large(n: usize) -> NewSubscription {
    let event_types = (0..10).map(|p| format!("a.b.c.d{n}.e{p}")).collect();
    NewSubscription { event_types, ..NewSubscription::to("http://shop.test/hook", "order.created") }
}

fn subscribe_until_refused(engine: &Engine, tenant: &Tenant) -> usize {
    (0..)
        .find(|n| match block_on(engine.subscribe(tenant, large(*n), me())) {
            Ok(_) => false,
            Err(SubscribeError::TooLarge(_)) => true,
            Err(error) => panic!("{error}"),
        })
        .unwrap()
}

fn accept(engine: &Engine, tenant: &Tenant) -> Result<u64, AcceptError> {
    let event = NewEvent::new("a.b.c.d0.e0", "{}");
    block_on(engine.accept(tenant, vec![event])).map(|accepted| accepted[0].deliveries)
}

#[test]
fn a_tenant_subscribes_as_much_as_its_budget_holds_and_no_more() {
    let memory = Memory::new();
    let (engine, tenant, other) = (engine(&memory, BUDGET), Tenant::from("a"), Tenant::from("b"));
    let count = subscribe_until_refused(&engine, &tenant);
    assert!((5..=20).contains(&count), "{count} subscriptions");
    assert_eq!(subscribe_until_refused(&engine, &other), count, "each tenant has its own");
    let subscriptions = block_on(engine.list_subscriptions(&tenant, None, 100)).unwrap().items;
    // One that grows is refused, one that shrinks or leaves makes room.
    let patch =
        SubscriptionPatch { event_types: Some(vec!["x.y".repeat(20)]), ..SubscriptionPatch::default() };
    block_on(engine.update_subscription(&tenant, &subscriptions[0].id, patch, me())).unwrap();
    let grown =
        SubscriptionPatch { event_types: Some(large(99).event_types), ..SubscriptionPatch::default() };
    block_on(engine.subscribe(&tenant, large(500), me())).unwrap();
    let refused = block_on(engine.update_subscription(&tenant, &subscriptions[0].id, grown, me()));
    assert!(matches!(refused, Err(UpdateError::TooLarge(_))), "{refused:?}");
    assert!(block_on(engine.delete_subscription(&tenant, &subscriptions[1].id, me())).unwrap());
    block_on(engine.subscribe(&tenant, large(501), me())).unwrap();
    assert!(matches!(
        block_on(engine.subscribe(&tenant, large(502), me())),
        Err(SubscribeError::TooLarge(_))
    ));
    assert_eq!(accept(&engine, &other).unwrap(), 1);
}

#[test]
fn a_store_that_holds_more_than_the_budget_serves_everyone_else() {
    let memory = Memory::new();
    let (tenant, other) = (Tenant::from("a"), Tenant::from("b"));
    let roomy = engine(&memory, 10 * BUDGET);
    let count = subscribe_until_refused(&roomy, &tenant);
    block_on(roomy.subscribe(&other, large(0), me())).unwrap();
    assert_eq!(accept(&roomy, &tenant).unwrap(), 1);
    // The same store, and less memory.
    let tight = engine(&memory, BUDGET);
    for _ in 0..2 {
        let refused = accept(&tight, &tenant);
        let too_large = Unavailable::SubscriptionsTooLarge { max_bytes: BUDGET };
        assert!(
            matches!(&refused, Err(AcceptError::Unavailable(error)) if error.to_string() == too_large.to_string())
        );
        assert_eq!(accept(&tight, &other).unwrap(), 1);
    }
    // What was accepted before is delivered.
    let batch = block_on(memory.queue.receive(QueueName::First, 100)).unwrap();
    block_on(tight.handle(batch, Timestamp::MAX));
    assert_eq!(memory.receiver.requests().len(), 3);
    // The way back is to delete some.
    for subscription in block_on(tight.list_subscriptions(&tenant, None, 100)).unwrap().items.iter().skip(1) {
        block_on(tight.delete_subscription(&tenant, &subscription.id, me())).unwrap();
    }
    assert!(count > 20 && accept(&tight, &tenant).is_ok());
}

#[test]
fn a_search_that_takes_long_finds_the_same() {
    let memory = Memory::new();
    let (engine, tenant) = (engine(&memory, u64::MAX), Tenant::from("a"));
    for n in 0..200 {
        let asks = |f| Filter { field: format!("s{f}"), op: Op::Changed, value: None };
        let new = NewSubscription {
            filters: (0..50).map(asks).collect(),
            ..NewSubscription::to(&format!("http://shop.test/{n}"), "*")
        };
        block_on(engine.subscribe(&tenant, new, me())).unwrap();
    }
    let state = |value: &str| (0..50).map(|f| format!(r#""s{f}":"{value}""#)).collect::<Vec<_>>().join(",");
    let (long, other) = ("x".repeat(8_000), "y".repeat(8_000));
    let data = format!(r#"{{"oldState":{{{}}},"newState":{{{}}}}}"#, state(&long), state(&other));
    let event = NewEvent::new("order.created", &data);
    assert_eq!(block_on(engine.accept(&tenant, vec![event])).unwrap()[0].deliveries, 200);
}

/// Whether it ends by itself, without anything else happening. A long search lets others have their turn in between.
fn ends<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    (0..10_000).any(|_| future.as_mut().poll(&mut context).is_ready())
}

/// 280 posts of 100 events for 8,000 subscriptions took 1.9 GB: all of them held their recipients until they were queued.
#[test]
fn posts_with_many_recipients_wait_until_those_before_them_are_queued() {
    let memory = Memory::new();
    let store = Arc::new(ScriptedStore::new(Arc::clone(&memory.store) as _));
    let ports = Ports { store: Arc::clone(&store) as _, ..memory.ports() };
    let engine = Engine::new(ports, Settings { http_allowed: true, ..Settings::default() });
    let tenant = Tenant::from("a");
    for n in 0..1_000 {
        let new = NewSubscription::to(&format!("http://shop.test/{n}"), "order.created");
        block_on(engine.subscribe(&tenant, new, me())).unwrap();
    }
    let post = |count| Box::pin(engine.accept(&tenant, vec![NewEvent::new("order.created", "{}"); count]));
    // The first post also stores a snapshot of the subscriptions.
    block_on(post(1)).unwrap();
    let (mut first, mut second, mut third) = (post(100), post(100), post(100));
    for held in [&mut first, &mut second] {
        store.hold_next(StoreCall::PutBodies);
        assert!(!ends(held), "its recipients are being stored");
    }
    assert!(!ends(&mut third), "two have their recipients in memory");
    assert!(ends(&mut post(99)), "smaller posts do not wait");
    store.release();
    assert!(ends(&mut first) && ends(&mut third));
}
