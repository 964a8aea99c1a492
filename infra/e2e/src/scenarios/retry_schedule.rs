//! Attempts follow the schedule to its end; then the delivery is dead, and is replayed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::deliver::check_signature;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::Delivery;

const STEP_MS: i64 = 84_800;
/// The first attempt and eleven retries.
const ATTEMPTS: usize = 12;
/// The last of these comes after 1,356.8 s, more than a queue holds.
const ATTEMPTS_IN_SHORT: usize = 6;
/// The schedule's 48 hours and the rest of a delivery's lifetime.
const WHOLE: Duration = Duration::from_secs(52 * 3600);
const IN_SHORT: Duration = Duration::from_secs(3600);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(500)).await?;
    let event_id = scene.post("one").await?;
    let (ended, attempts) = if scene.host.timing.whole_schedule {
        (to_the_end(&scene, &event_id).await?, ATTEMPTS)
    } else {
        (in_short(&scene, &subscription, &event_id).await?, ATTEMPTS_IN_SHORT)
    };
    check_times(&scene, &ended, attempts)?;
    check_arrivals(&scene, &subscription, &ended, attempts)?;
    replay(&scene, &subscription, &ended).await
}

async fn to_the_end(scene: &Scene<'_>, event_id: &str) -> Result<Delivery> {
    let within = scene.within(WHOLE);
    let dead = scene.delivery_when("the delivery is dead", event_id, within, |d| d.is("dead")).await?;
    ensure!(dead.reason.as_deref() == Some("exhausted"), "dead for another reason: {dead:?}");
    Ok(dead)
}

/// Where two days of the schedule take too long: stops at a retry that waited in the store, which succeeds.
async fn in_short(scene: &Scene<'_>, subscription: &Subscription, event_id: &str) -> Result<Delivery> {
    let within = scene.within(IN_SHORT);
    let failed = |d: &Delivery| d.is("waiting") && d.attempts.len() == ATTEMPTS_IN_SHORT - 1;
    scene.delivery_when("all but the last attempt failed", event_id, within, failed).await?;
    scene.receiver().switch(&subscription.path, Reply::Status(200));
    scene.delivery_when("the last attempt succeeds", event_id, within, |d| d.is("delivered")).await
}

/// Never early, and not too late.
fn check_times(scene: &Scene<'_>, delivery: &Delivery, attempts: usize) -> Result<()> {
    let numbers: Vec<u64> = delivery.attempts.iter().map(|attempt| attempt.n).collect();
    ensure!(numbers == (0..attempts as u64).collect::<Vec<_>>(), "attempts {numbers:?}");
    let first = delivery.attempts[0].at_ms;
    for pair in delivery.attempts.windows(2) {
        let (n, gap) = (pair[1].n, pair[1].at_ms - pair[0].at_ms);
        let due = STEP_MS << (n - 1);
        ensure!(gap >= due, "retry {n} came {} ms early", due - gap);
        let late = scene.host.timing.late_after(Duration::from_millis(due.unsigned_abs()));
        let latest = due + due * 15 / 100 + scene.host.timing.schedule_ms(late);
        ensure!(gap <= latest, "retry {n} came after {gap} ms and not after {due} ms");
        let offset = ((1_i64 << n) - 1) * STEP_MS;
        ensure!(pair[1].at_ms - first >= offset, "retry {n} came before {offset} ms after the first attempt");
    }
    Ok(())
}

/// The receiver got as many requests, all with the same id and the same bytes.
fn check_arrivals(
    scene: &Scene<'_>,
    subscription: &Subscription,
    delivery: &Delivery,
    attempts: usize,
) -> Result<()> {
    let arrivals = scene.receiver().arrivals(&subscription.path);
    ensure!(
        scene.is_count(arrivals.len(), attempts),
        "{} requests arrived for {attempts} attempts",
        arrivals.len()
    );
    for arrival in &arrivals {
        ensure!(
            arrival.webhook_id() == delivery.id,
            "webhook-id {} of {}",
            arrival.webhook_id(),
            delivery.id
        );
        ensure!(arrival.body == arrivals[0].body, "the body changed between attempts");
    }
    for pair in arrivals.windows(2).skip(1) {
        ensure!(pair[1].at > pair[0].at, "arrivals out of order");
    }
    Ok(())
}

async fn replay(scene: &Scene<'_>, subscription: &Subscription, ended: &Delivery) -> Result<()> {
    scene.receiver().switch(&subscription.path, Reply::Status(200));
    let answer = scene.host.post(&format!("/v1/deliveries/{}/replay", ended.id), "").await?;
    if !answer.repeated {
        let answer = answer.expect(202)?;
        ensure!(answer["matched"] == 1 && answer["id"] != Value::Null, "unexpected: {answer}");
    }
    let what = "the replayed delivery is delivered";
    // A delivery that was delivered before the replay is recognised by its new epoch.
    let again = |d: &Delivery| d.is("delivered") && d.epoch > ended.epoch;
    let shown = scene.delivery_when(what, &ended.event_id, scene.soon(), again).await?;
    ensure!(shown.epoch == 1 || answer.repeated, "epoch {} after one replay", shown.epoch);
    let last = shown.attempts.last().context("no attempts are shown")?;
    let is_first = (last.epoch, last.n, last.outcome.as_str()) == (shown.epoch, 0, "success");
    ensure!(is_first, "the last attempt is {last:?}");
    let arrivals = scene.receiver().arrivals(&subscription.path);
    ensure!(
        scene.is_count(arrivals.len(), ended.attempts.len() + 1),
        "{} requests arrived in total",
        arrivals.len()
    );
    let arrival = arrivals.last().context("nothing arrived")?;
    ensure!(
        arrival.webhook_id() == ended.id && arrival.body == arrivals[0].body,
        "the replay differs from the first request"
    );
    check_signature(arrival, subscription)
}
