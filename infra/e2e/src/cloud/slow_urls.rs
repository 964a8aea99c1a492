//! First attempts for a URL whose answers are slow are left to the function for slow URLs, and arrive from there.

use std::time::Duration;

use anyhow::Result;

use super::{Cloud, logs};
use crate::clock::real_ms;
use crate::receiver::Reply;
use crate::scene::Scene;
use crate::waiting::until;

/// More than half of the timeout that the stack is deployed with.
const ANSWERS_AFTER: Duration = Duration::from_millis(700);
/// Each answer counts an eighth in the average.
const EVENTS: usize = 14;

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let since_ms = real_ms();
    scene.subscribe("slow", Reply::Slow(ANSWERS_AFTER)).await?;
    for _ in 0..EVENTS {
        let id = scene.post("slow").await?;
        // One after the other, so that each attempt sees how long the one before it took.
        scene.delivery_when("it is delivered", &id, scene.soon(), |d| d.is("delivered")).await?;
    }
    until("a first attempt was left to the slow queue", scene.soon(), async || {
        let found = logs::has_line(&scene, cloud, since_ms, &["SentToSlowQueue"]).await?;
        Ok((found == Some(true)).then_some(()))
    })
    .await
}
