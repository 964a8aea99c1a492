//! Pings are attempts outside of the queues, and bounded on their own.

use std::pin::Pin;

use futures_util::FutureExt;
use holdfast_core::engine::PingError;
use holdfast_core::records::Attempt;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;

type Ping<'a> = Pin<Box<dyn Future<Output = Result<Attempt, PingError>> + 'a>>;

/// More often than a ping waits for anything but its receiver.
const POLLS: usize = 100;

fn is_waiting(ping: &mut Ping<'_>) -> bool {
    (0..POLLS).all(|_| ping.now_or_never().is_none())
}

/// Pings of receivers that hang took as many files as a tenant liked.
#[test]
fn a_tenant_has_few_pings_under_way_and_the_others_wait() {
    let world = World::new(1, None);
    let urls: Vec<String> = (0..6).map(|n| format!("http://hangs.test/{n}")).collect();
    let subscriptions: Vec<_> = urls.iter().map(|url| world.subscribe(url)).collect();
    urls.iter().for_each(|url| world.receiver.hold_next(url));
    let ping = |n: usize| Box::pin(world.engine.ping(&world.tenant, &subscriptions[n].id, false)) as Ping<'_>;
    let mut pings: Vec<Ping<'_>> = (0..urls.len()).map(ping).collect();
    assert!(pings.iter_mut().all(is_waiting));
    assert_eq!(world.receiver.requests().len(), 4);
    // One that is given up leaves its place to the next.
    drop(pings.remove(0));
    assert!(pings.iter_mut().all(is_waiting));
    assert_eq!(world.receiver.requests().len(), 5);
    world.receiver.release();
    for ping in pings.drain(..4) {
        assert!(block_on(ping).is_ok());
    }
}
