use std::time::Duration;

use holdfast_e2e::clock::real_ms;
use holdfast_e2e::scene::Scene;
use holdfast_e2e::views::Delivery;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Receiver, Reply};

use crate::process::Server;

const SPEED: u32 = 3_600;

/// The schedule clock continues while the server is down, and deliveries that became due meanwhile are attempted afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_clock_continues_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), SPEED, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "clock");
    let failing = scene.subscribe("failing", Reply::Status(500)).await.unwrap();
    let id = scene.post("failing").await.unwrap();
    // After six attempts, the wait is at least three quarters of a real second. An attempt is logged a moment before the next due
    // time is set.
    let waits = |d: &Delivery| d.is("waiting") && d.due_at_ms > d.attempts.last().map(|a| a.at_ms);
    let before =
        scene.delivery_when("it waits", &id, SOON, |d| d.attempts.len() >= 6 && waits(d)).await.unwrap();
    let last = before.attempts.last().unwrap().at_ms;
    let wait_ms = u64::try_from(before.due_at_ms.unwrap() - last).unwrap() / u64::from(SPEED);
    server.kill();
    receiver.switch(&failing.path, Reply::Status(200));
    let arrived = receiver.count(&failing.path);
    let due = real_ms() + wait_ms;
    until("it is due", SOON, async || Ok((real_ms() > due).then_some(()))).await.unwrap();

    let server = Server::start(folder.path(), SPEED, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "clock");
    let within = scene.within(Duration::from_secs(3600)) + SOON;
    let after = scene.delivery_when("it is delivered", &id, within, |d| d.is("delivered")).await.unwrap();
    assert_eq!(receiver.count(&failing.path), arrived + 1, "{after:?}");
    let times: Vec<i64> = after.attempts.iter().map(|attempt| attempt.at_ms).collect();
    assert!(times.is_sorted() && times.last() > before.due_at_ms.as_ref(), "the clock went back: {times:?}");
    let later = scene.post("failing").await.unwrap();
    let event = host.get(&format!("/v1/events/{later}")).await.unwrap().expect(200).unwrap();
    let accepted = holdfast_e2e::views::time_ms(&event, "timestamp").unwrap();
    assert!(accepted >= times.last().copied(), "the clock went back: {event}");
}
