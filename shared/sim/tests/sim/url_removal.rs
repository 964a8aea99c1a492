//! A URL ends with the deliveries of its last subscription. A frozen one stays.

use holdfast_core::engine::{NewSubscription, SubscribeError, SubscriptionPatch, UpdateError};
use holdfast_core::ports::{Expect, Store, Write};
use holdfast_core::records::{Record, Subscription, TenantVersion};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{DAY, MINUTE, NEW, URL};

fn delete(world: &World, subscription: &Subscription) {
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscription.id, me())).unwrap());
}

/// The records of URLs, their entries in the list and their history, and how many URLs the tenant has.
fn kept(world: &World) -> (usize, usize, usize, u64) {
    let mut kept = (0, 0, 0, 0);
    for record in world.store.all() {
        match record {
            Record::Url(_) => kept.0 += 1,
            Record::UrlListEntry(_) => kept.1 += 1,
            Record::History(_) => kept.2 += 1,
            Record::TenantVersion(version) => kept.3 = version.urls,
            _ => {}
        }
    }
    kept
}

#[test]
fn a_url_and_its_history_end_when_its_last_subscription_has_been_gone_for_the_time_deliveries_are_kept() {
    let mut world = World::new(1, None);
    let (one, two) = (world.subscribe_to(URL, "a"), world.subscribe_to(URL, "b"));
    // More changes than one transaction removes.
    for _ in 0..100 {
        world.change_url_state(&one, OperatorAction::Disable);
        world.change_url_state(&one, OperatorAction::Enable);
    }
    world.run_for(MINUTE);
    delete(&world, &one);
    world.run_for(30 * DAY);
    assert_eq!(kept(&world), (1, 1, 200, 1), "it still has a subscription");
    delete(&world, &two);
    world.run_for(13 * DAY);
    assert_eq!(kept(&world), (1, 1, 200, 1));
    world.run_for(2 * DAY);
    assert_eq!(kept(&world), (0, 0, 0, 0));
}

#[test]
fn a_frozen_url_cannot_be_thawed_by_deleting_and_subscribing_again() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.run_for(MINUTE);
    delete(&world, &subscription);
    world.run_for(100 * DAY);
    let again = world.subscribe(URL);
    assert_eq!(world.url(&again).health.state, UrlState::Frozen);
    assert_eq!(world.url(&again).remove_at, None);
}

#[test]
fn a_url_that_is_subscribed_again_stays() {
    let mut world = World::new(3, None);
    delete(&world, &world.subscribe(URL));
    world.run_for(13 * DAY);
    let again = world.subscribe(URL);
    world.run_for(30 * DAY);
    assert_eq!(world.url(&again).subscriptions, Some(1));
    assert_eq!(kept(&world), (1, 1, 0, 1));
}

#[test]
fn a_url_that_its_subscription_left_ends() {
    let mut world = World::new(4, None);
    let subscription = world.subscribe(URL);
    let patch = SubscriptionPatch { url: Some(NEW.to_owned()), ..SubscriptionPatch::default() };
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
    assert_eq!(kept(&world), (2, 2, 0, 2));
    world.run_for(15 * DAY);
    assert_eq!(kept(&world), (1, 1, 0, 1));
    assert_eq!(world.urls().into_values().next().unwrap().url, NEW);
}

/// One subscription that moved in a loop filled the store with URLs.
#[test]
fn a_tenant_has_a_limited_number_of_urls_with_those_that_no_subscription_has() {
    let world = World::new(5, None);
    let subscription = world.subscribe(URL);
    let mut versions = world.store.all().into_iter().filter_map(|record| match record {
        Record::TenantVersion(version) => Some(version),
        _ => None,
    });
    let full = versions.next().map(|version| TenantVersion { urls: 50_000, ..version }).unwrap();
    block_on(world.store.write(vec![Write::put(full, Expect::Any)])).unwrap();
    let move_to = |url: &str| {
        let patch = SubscriptionPatch { url: Some(url.to_owned()), ..SubscriptionPatch::default() };
        block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me()))
    };
    assert!(matches!(move_to(NEW), Err(UpdateError::TooManyUrls(_))));
    let subscribed = block_on(world.engine.subscribe(&world.tenant, NewSubscription::to(NEW, "a"), me()));
    assert!(matches!(subscribed, Err(SubscribeError::TooManyUrls(_))));
    world.subscribe_to(URL, "a");
}
