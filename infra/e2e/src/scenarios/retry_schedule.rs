//! Twelve attempts by the schedule, then dead, then replayed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::deliver::check_signature;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::Delivery;
use crate::waiting::SOON;

const STEP_MS: i64 = 84_800;
const ATTEMPTS: usize = 12;
/// The schedule's 48 hours and what its lifetime leaves beyond them.
const WHOLE: Duration = Duration::from_secs(52 * 3600);
/// What a busy machine may be late by, in real time, for one attempt.
const LATE: Duration = Duration::from_secs(2);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(500)).await?;
    let event_id = scene.post("one").await?;
    let dead =
        scene.delivery_when("the delivery is dead", &event_id, scene.within(WHOLE), |d| d.is("dead")).await?;
    ensure!(dead.reason.as_deref() == Some("exhausted"), "dead for another reason: {dead:?}");
    check_times(&scene, &dead)?;
    check_arrivals(&scene, &subscription, &dead)?;
    replay(&scene, &subscription, &dead).await
}

/// Never early, and not absurdly late.
fn check_times(scene: &Scene<'_>, delivery: &Delivery) -> Result<()> {
    let numbers: Vec<u64> = delivery.attempts.iter().map(|attempt| attempt.n).collect();
    ensure!(numbers == (0..ATTEMPTS as u64).collect::<Vec<_>>(), "attempts {numbers:?}");
    let first = delivery.attempts[0].at_ms;
    for pair in delivery.attempts.windows(2) {
        let (n, gap) = (pair[1].n, pair[1].at_ms - pair[0].at_ms);
        let due = STEP_MS << (n - 1);
        ensure!(gap >= due, "retry {n} came {} ms early", due - gap);
        let latest = due + due * 15 / 100 + scene.host.schedule_ms(LATE);
        ensure!(gap <= latest, "retry {n} came after {gap} ms and not after {due} ms");
        let offset = ((1_i64 << n) - 1) * STEP_MS;
        ensure!(pair[1].at_ms - first >= offset, "retry {n} came before {offset} ms after the first attempt");
    }
    Ok(())
}

/// The receiver saw the same: as many requests, all with the same id and the same bytes.
fn check_arrivals(scene: &Scene<'_>, subscription: &Subscription, delivery: &Delivery) -> Result<()> {
    let arrivals = scene.receiver().arrivals(&subscription.path);
    ensure!(arrivals.len() == ATTEMPTS, "{} requests arrived for {ATTEMPTS} attempts", arrivals.len());
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

async fn replay(scene: &Scene<'_>, subscription: &Subscription, dead: &Delivery) -> Result<()> {
    scene.receiver().switch(&subscription.path, Reply::Status(200));
    let answer = scene.host.post(&format!("/v1/deliveries/{}/replay", dead.id), "").await?.expect(202)?;
    ensure!(answer["matched"] == 1 && answer["id"] != Value::Null, "unexpected: {answer}");
    let what = "the replayed delivery is delivered";
    let shown = scene.delivery_when(what, &dead.event_id, SOON, |d| d.is("delivered")).await?;
    ensure!(shown.epoch == 1, "epoch {} after one replay", shown.epoch);
    let last = shown.attempts.last().context("no attempts are shown")?;
    ensure!((last.epoch, last.n, last.outcome.as_str()) == (1, 0, "success"), "the last attempt is {last:?}");
    let arrivals = scene.receiver().arrivals(&subscription.path);
    ensure!(arrivals.len() == ATTEMPTS + 1, "{} requests arrived in the end", arrivals.len());
    let arrival = &arrivals[ATTEMPTS];
    ensure!(
        arrival.webhook_id() == dead.id && arrival.body == arrivals[0].body,
        "a replay is another request"
    );
    check_signature(arrival, subscription)
}
