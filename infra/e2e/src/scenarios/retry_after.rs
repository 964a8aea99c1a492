//! `retry-after` postpones the next attempt within bounds with a 503, and is ignored with a 500.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::Delivery;

const STEP_MS: i64 = 84_800;
/// When the wait is checked, and what one receiver asks for.
struct Check {
    /// After this many attempts.
    attempts: usize,
    /// Between the plain wait after these attempts and the longest, which is three times as long.
    asked_secs: u32,
}

/// The plain wait is then 2,713.6 s, which can be observed at any speed.
const CHECK: Check = Check { attempts: 6, asked_secs: 4_000 };
/// 339.2 s, and nothing has waited in the store yet.
const CHECK_IN_SHORT: Check = Check { attempts: 3, asked_secs: 600 };
/// For that many attempts, even when each is postponed as far as it can be.
const WITHIN: Duration = Duration::from_secs(4 * 3600);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let year = 365 * 86_400;
    let check = if scene.host.timing.whole_schedule { CHECK } else { CHECK_IN_SHORT };
    let asked_ms = i64::from(check.asked_secs) * 1_000;
    scene.subscribe("ignored", Reply::Later(500, year)).await?;
    scene.subscribe("bounded", Reply::Later(503, year)).await?;
    scene.subscribe("postponed", Reply::Later(503, check.asked_secs)).await?;
    let (ignored, bounded, postponed) = tokio::try_join!(
        wait_after(&scene, "ignored", check.attempts),
        wait_after(&scene, "bounded", check.attempts),
        wait_after(&scene, "postponed", check.attempts)
    )?;
    for (name, (delivery, wait)) in [("ignored", ignored), ("bounded", bounded), ("postponed", postponed)] {
        let plain = STEP_MS << (delivery.attempts.len() - 1);
        let expected = match name {
            "ignored" => plain..=plain,
            "bounded" => plain * 3..=plain * 3,
            // Plus the time that the response took.
            _ => {
                asked_ms.max(plain)
                    ..=asked_ms.max(plain) + scene.host.timing.schedule_ms(Duration::from_secs(5))
            }
        };
        ensure!(expected.contains(&wait), "{name}: waits {wait} ms and not {expected:?}: {delivery:?}");
        check_gaps(name, &delivery)?;
    }
    Ok(())
}

/// How long the delivery waits after an attempt, by its due time.
async fn wait_after(scene: &Scene<'_>, part: &str, attempts: usize) -> Result<(Delivery, i64)> {
    let event_id = scene.post(part).await?;
    let wait = |delivery: &Delivery| Some(delivery.due_at_ms? - delivery.attempts.last()?.at_ms);
    let seen = |d: &Delivery| d.is("waiting") && d.attempts.len() >= attempts && wait(d) > Some(0);
    let delivery = scene.delivery_when(part, &event_id, scene.within(WITHIN), seen).await?;
    let wait = wait(&delivery).context("nothing is due")?;
    Ok((delivery, wait))
}

/// No attempt started before it was due.
fn check_gaps(name: &str, delivery: &Delivery) -> Result<()> {
    for pair in delivery.attempts.windows(2) {
        let plain = STEP_MS << (pair[1].n - 1);
        let due = if name == "bounded" { plain * 3 } else { plain };
        let gap = pair[1].at_ms - pair[0].at_ms;
        ensure!(gap >= due, "{name}: retry {} came after {gap} ms and not after {due} ms", pair[1].n);
    }
    Ok(())
}
