//! Messages that make functions send further messages come to an end: once nothing is left to deliver, the queues are empty and stay so.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt};

use super::Cloud;
use crate::scene::Scene;
use crate::views::text;
use crate::waiting::until;

const CONCURRENCY: usize = 8;
/// For the last jobs, and for messages that are hidden until their visibility timeout.
const WITHIN: Duration = Duration::from_secs(300);
/// Longer than a queue hides or delays any message here.
const QUIET: Duration = Duration::from_secs(20);

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    // Without subscriptions there is nothing to retry, to probe or to release.
    let subscriptions = scene.list("/v1/subscriptions", "", 100).await?;
    let deleted = subscriptions.iter().map(async |subscription| {
        let path = format!("/v1/subscriptions/{}", text(subscription, "id")?);
        // Another scenario's clean-up may have been first.
        let answer = scene.host.delete(&path).await?;
        ensure!(answer.status == 204 || answer.status == 404, "{path}: {answer:?}");
        Ok(())
    });
    let deleted: Result<Vec<()>> =
        futures_util::stream::iter(deleted).buffer_unordered(CONCURRENCY).try_collect().await;
    deleted.context("deleting")?;

    let mut quiet_since = None;
    let mut left = 0;
    let ended = until("the queues are empty and stay empty", WITHIN + QUIET, async || {
        left = cloud.queues.count(&cloud.queues.urls.first).await?;
        left += cloud.queues.count(&cloud.queues.urls.slow).await?;
        left += cloud.queues.count(&cloud.queues.urls.retry).await?;
        if left > 0 {
            quiet_since = None;
            return Ok(None);
        }
        let since = *quiet_since.get_or_insert_with(tokio::time::Instant::now);
        Ok((since.elapsed() >= QUIET).then_some(()))
    });
    ended.await.with_context(|| format!("{left} messages are left in the queues"))
}
