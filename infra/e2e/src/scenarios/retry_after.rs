//! A receiver may ask for more time with 503, within bounds, and not with 500.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::Delivery;

const STEP_MS: i64 = 84_800;
/// Looked at after so many attempts: the wait that follows is long enough to be seen however fast the schedule runs.
const ATTEMPTS: usize = 6;
/// For that many attempts, even when each is postponed as far as it can be.
const WITHIN: Duration = Duration::from_secs(4 * 3600);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let year = 365 * 86_400;
    // Between the plain wait after these attempts (2,713.6 s) and the longest (8,140.8 s).
    let (some, some_ms) = (4_000, 4_000_000);
    scene.subscribe("ignored", Reply::Later(500, year)).await?;
    scene.subscribe("bounded", Reply::Later(503, year)).await?;
    scene.subscribe("postponed", Reply::Later(503, some)).await?;
    let (ignored, bounded, postponed) = tokio::try_join!(
        wait_after(&scene, "ignored"),
        wait_after(&scene, "bounded"),
        wait_after(&scene, "postponed")
    )?;
    for (name, (delivery, wait)) in [("ignored", ignored), ("bounded", bounded), ("postponed", postponed)] {
        let plain = STEP_MS << (delivery.attempts.len() - 1);
        let expected = match name {
            "ignored" => plain..=plain,
            "bounded" => plain * 3..=plain * 3,
            // The time that the answer took comes on top.
            _ => some_ms.max(plain)..=some_ms.max(plain) + scene.host.schedule_ms(Duration::from_secs(5)),
        };
        ensure!(expected.contains(&wait), "{name}: waits {wait} ms and not {expected:?}: {delivery:?}");
        check_gaps(name, &delivery)?;
    }
    Ok(())
}

/// How long the delivery waits after an attempt, by its due time.
async fn wait_after(scene: &Scene<'_>, part: &str) -> Result<(Delivery, i64)> {
    let event_id = scene.post(part).await?;
    let wait = |delivery: &Delivery| Some(delivery.due_at_ms? - delivery.attempts.last()?.at_ms);
    let seen = |d: &Delivery| d.is("waiting") && d.attempts.len() >= ATTEMPTS && wait(d) > Some(0);
    let delivery = scene.delivery_when(part, &event_id, scene.within(WITHIN), seen).await?;
    let wait = wait(&delivery).context("nothing is due")?;
    Ok((delivery, wait))
}

/// Nothing came before it was due, as postponed.
fn check_gaps(name: &str, delivery: &Delivery) -> Result<()> {
    for pair in delivery.attempts.windows(2) {
        let plain = STEP_MS << (pair[1].n - 1);
        let due = if name == "bounded" { plain * 3 } else { plain };
        let gap = pair[1].at_ms - pair[0].at_ms;
        ensure!(gap >= due, "{name}: retry {} came after {gap} ms and not after {due} ms", pair[1].n);
    }
    Ok(())
}
