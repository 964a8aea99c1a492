//! What a tenant's quotas refuse, and what they leave alone.

use std::time::Duration;

use holdfast_core::engine::{NewEvent, NewSubscription, OverQuota, PostError, Posted, SubscribeError};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Backlog, QueueName, Waiting};
use holdfast_core::records::Record;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::quota::{QuotaPatch, Quotas};
use holdfast_sim::crash::World;
use holdfast_sim::{MemoryBacklog, block_on, me};

use crate::{URL, event};

fn set(world: &World, patch: QuotaPatch) {
    block_on(world.engine.set_quotas(&world.tenant, patch, me())).unwrap();
}

fn rate(per_second: u64) -> QuotaPatch {
    QuotaPatch { events_per_second: Some(Some(per_second)), ..QuotaPatch::default() }
}

fn waiting(bytes: u64) -> QuotaPatch {
    QuotaPatch { waiting_bytes: Some(Some(bytes)), ..QuotaPatch::default() }
}

fn post(world: &World, events: usize) -> Result<Posted, PostError> {
    let events: Vec<_> = (0..events).map(|_| NewEvent::new("order.created", "1")).collect();
    block_on(world.engine.post(&world.tenant, &events))
}

#[track_caller]
fn refused(result: Result<Posted, PostError>) -> OverQuota {
    match result {
        Err(PostError::OverQuota(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

fn warnings(posted: &Posted) -> Vec<String> {
    posted.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_post_over_the_rate_writes_nothing_and_passes_later() {
    let world = World::new(1, None);
    world.subscribe(URL);
    set(&world, rate(10));
    assert_eq!(warnings(&post(&world, 7).unwrap()), [""; 0]);
    assert_eq!(warnings(&post(&world, 3).unwrap()), ["events_per_second is at 100 % (10 of 10)"]);
    let before = (world.store.all(), world.queue.messages(QueueName::First).len());
    let over = refused(post(&world, 5));
    assert_eq!(over, OverQuota::Rate { limit: 10, retry_after: Duration::from_millis(500) });
    assert_eq!((world.store.all(), world.queue.messages(QueueName::First).len()), before);
    assert_eq!(world.engine.take_counters().posts_over_quota, 1);
    world.clock.advance(Duration::from_millis(500));
    post(&world, 5).unwrap();
}

#[test]
fn what_waits_is_measured_again_after_a_quarter_of_a_second() {
    let world = World::new(1, None);
    world.subscribe(URL);
    set(&world, waiting(150));
    let first = post(&world, 1).unwrap();
    assert_eq!(warnings(&first), [""; 0]);
    post(&world, 1).unwrap();
    // What was accepted counts at once.
    let OverQuota::Waiting { largest, .. } = refused(post(&world, 1)) else { panic!("another quota") };
    assert!(largest.is_some());
    world.handle(QueueName::First);
    refused(post(&world, 1));
    world.clock.advance(Duration::from_millis(250));
    post(&world, 1).unwrap();
}

#[test]
fn a_batch_larger_than_the_rate_passes_when_nothing_is_used() {
    let world = World::new(1, None);
    set(&world, rate(1));
    assert_eq!(warnings(&post(&world, 100).unwrap()), ["events_per_second is at 10000 % (100 of 1)"]);
    let OverQuota::Rate { retry_after, .. } = refused(post(&world, 1)) else { panic!("another quota") };
    assert_eq!(retry_after, Duration::from_secs(100));
}

#[test]
fn each_tenant_has_a_rate_of_its_own_and_off_is_off() {
    let world = World::new(1, None);
    set(&world, rate(1));
    post(&world, 1).unwrap();
    refused(post(&world, 1));
    let other = Tenant::from("other");
    for _ in 0..50 {
        let events = vec![NewEvent::new("order.created", "1")];
        assert!(block_on(world.engine.post(&other, &events)).unwrap().warnings.is_empty());
    }
    set(&world, QuotaPatch { events_per_second: Some(None), ..QuotaPatch::default() });
    for _ in 0..50 {
        assert!(post(&world, 1).unwrap().warnings.is_empty());
    }
}

#[test]
fn a_post_that_fails_uses_nothing_of_the_rate() {
    let world = World::new(1, None);
    world.subscribe(URL);
    set(&world, rate(1));
    world.queue.refuse_next(QueueName::First);
    let failed = post(&world, 1);
    assert!(matches!(failed, Err(PostError::NotAccepted(_))), "{failed:?}");
    post(&world, 1).unwrap();
}

#[test]
fn events_of_holdfast_are_never_refused() {
    let mut world = World::new(1, None);
    let shop = world.subscribe(URL);
    let own = NewSubscription::to("http://own.test/hook", "holdfast.url.frozen");
    block_on(world.engine.subscribe(&world.tenant, own, me())).unwrap();
    set(&world, QuotaPatch { waiting_bytes: Some(Some(1)), ..rate(1) });
    post(&world, 1).unwrap();
    refused(post(&world, 1));
    world.change_url_state(&shop, OperatorAction::Freeze);
    while world.work() {}
    let announced = world.receiver.requests().iter().filter(|r| r.url == "http://own.test/hook").count();
    assert_eq!(announced, 1);
}

#[test]
fn a_quota_on_subscriptions_refuses_new_ones_and_removes_none() {
    let world = World::new(1, None);
    let subscribe = |n: usize| {
        let new = NewSubscription::to(&format!("http://shop.test/{n}"), "order.created");
        block_on(world.engine.subscribe(&world.tenant, new, me()))
    };
    let limit = |limit| set(&world, QuotaPatch { subscriptions: Some(limit), ..QuotaPatch::default() });
    limit(Some(2));
    let first = subscribe(1).unwrap();
    subscribe(2).unwrap();
    assert!(matches!(subscribe(3), Err(SubscribeError::OverQuota { limit: 2 })));
    assert_eq!(warnings(&post(&world, 1).unwrap()), ["subscriptions is at 100 % (2 of 2)"]);
    limit(Some(1));
    assert_eq!(block_on(world.engine.view_tenant(&world.tenant)).unwrap().subscriptions, 2);
    assert!(matches!(subscribe(3), Err(SubscribeError::OverQuota { limit: 1 })));
    block_on(world.engine.delete_subscription(&world.tenant, &first.id, me())).unwrap();
    assert!(subscribe(3).is_err());
    limit(None);
    subscribe(3).unwrap();
}

#[test]
fn bytes_that_wait_refuse_posts_until_they_are_delivered() {
    let mut world = World::new(1, None);
    world.subscribe("http://shop.test/hook?token=secret");
    world.receiver.answer("http://shop.test/hook?token=secret", 500);
    let backlog = MemoryBacklog { store: world.store.clone(), queue: world.queue.clone() };
    let tenant = world.tenant.clone();
    let waits = || block_on(backlog.of(&tenant)).unwrap().unwrap();
    set(&world, waiting(1_000_000));
    post(&world, 1).unwrap();
    let one = waits().bytes;
    assert!(one > 50, "a message on the first-attempt queue counts");
    // One more fits, though it then exceeds the quota.
    set(&world, waiting(one + 1));
    assert_eq!(
        warnings(&post(&world, 1).unwrap()),
        [format!("waiting_bytes is at 99 % ({one} of {})", one + 1)]
    );
    let over = refused(post(&world, 1));
    let OverQuota::Waiting { limit, bytes: counted, largest } = &over else { panic!("{over}") };
    assert_eq!((*limit, *counted), (one + 1, one * 2));
    let (_, url, at_url) = largest.as_ref().unwrap();
    assert_eq!((url.as_str(), *at_url), ("http://shop.test", one * 2), "without what may be secret");
    world.handle(QueueName::First);
    assert_eq!(waits().bytes, one * 2, "they wait for a retry");
    refused(post(&world, 1));
    world.receiver.answer("http://shop.test/hook?token=secret", 200);
    world.pass(Duration::from_secs(85));
    while world.work() {}
    assert_eq!(waits(), Waiting::default());
    assert!(post(&world, 1).unwrap().warnings.is_empty());
}

#[test]
fn a_repeated_post_is_answered_though_too_much_waits() {
    let world = World::new(1, None);
    world.subscribe(URL);
    let post = |id| block_on(world.engine.post(&world.tenant, &[event(id, "1")]));
    post("known").unwrap();
    set(&world, waiting(1));
    assert!(post("known").unwrap().accepted[0].duplicate);
    refused(post("new"));
}

#[test]
fn quotas_are_kept_in_the_record_that_every_post_reads() {
    let world = World::new(1, None);
    set(&world, rate(5));
    set(&world, QuotaPatch { subscriptions: Some(Some(7)), ..QuotaPatch::default() });
    world.subscribe(URL);
    let found = world.store.all().into_iter().find_map(|record| match record {
        Record::TenantVersion(version) => Some(version),
        _ => None,
    });
    let quotas = Quotas { events_per_second: Some(5), subscriptions: Some(7), ..Quotas::default() };
    assert_eq!(found.unwrap().quotas, quotas, "a subscription leaves them as they are");
    // An id in the post is read by the same call as before.
    let posted = block_on(world.engine.post(&world.tenant, &[event("one", "1")])).unwrap();
    assert_eq!(posted.accepted[0].deliveries, 1);
}
