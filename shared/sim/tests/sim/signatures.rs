//! Every request is signed with the secrets that its subscription has when it is sent.

use std::time::Duration;

use holdfast_core::ports::QueueName;
use holdfast_core::records::Subscription;
use holdfast_core::rules::signing::Signer;
use holdfast_core::time::Timestamp;
use holdfast_sim::block_on;
use holdfast_sim::crash::{Request, World};
use holdfast_sim::{StoreCall, me};

use super::{URL, event, subscription_with_a_retry_due};

fn header<'r>(request: &'r Request, name: &str) -> &'r str {
    &request.headers.iter().find(|(found, _)| *found == name).unwrap().1
}

/// What the receiver expects of a request, with the secrets that it knows.
fn expected(subscription: &Subscription, request: &Request) -> String {
    let at_secs: i64 = header(request, "webhook-timestamp").parse().unwrap();
    let at = Timestamp::from_millis(at_secs * 1_000);
    let mut signer = Signer::new(&subscription.secrets, &request.delivery, at, request.body.clone());
    assert!(signer.step(usize::MAX));
    signer.finish()
}

#[test]
fn a_body_of_any_size_is_signed() {
    let mut world = World::new(1, None);
    let subscription = world.subscribe(URL);
    for (id, size) in [("small", 10), ("medium", 40_000), ("large", 900_000)] {
        let data = format!("\"{}\"", "x".repeat(size));
        block_on(world.engine.accept(&world.tenant, vec![event(id, &data)])).unwrap();
        while world.work() {}
        let request = world.receiver.requests().pop().unwrap();
        assert!(request.body.len() >= size, "{id}: {} bytes", request.body.len());
        let signature = header(&request, "webhook-signature");
        assert_eq!(signature, expected(&subscription, &request), "{id}");
        assert!(signature.starts_with("v1,"), "{signature}");
    }
}

#[test]
fn a_request_is_signed_with_secrets_that_changed_before_it_was_sent() {
    let mut world = World::new(2, None);
    let before = subscription_with_a_retry_due(&mut world);
    world.scripted.hold_next(StoreCall::Write);
    let in_flight = world.begin(QueueName::Retry);
    let after = block_on(world.engine.rotate_secret(&world.tenant, &before.id, me())).unwrap();
    // Health has to be read again, and the subscription with it.
    world.pass(Duration::from_millis(1_001));
    world.scripted.release();
    in_flight.finish();
    let request = world.receiver.requests().pop().unwrap();
    let signature = header(&request, "webhook-signature");
    assert_eq!(signature, expected(&after, &request));
    assert_ne!(signature, expected(&before, &request));
}
