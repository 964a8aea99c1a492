//! A message that nobody can read is put aside at once, where people see it, and is logged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Cloud, logs};
use crate::scene::Scene;
use crate::waiting::until;

/// Less than the time after which a message comes back: it is put aside the first time that it is seen.
const AT_ONCE: Duration = Duration::from_secs(10);

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let urls = &cloud.queues.urls;
    let unreadable = ["is no message".to_owned(), r#"{"v":1,"kind":"unheard_of"}"#.to_owned()];
    for (queue, url) in [("first", &urls.first), ("retry", &urls.retry)] {
        for (number, text) in unreadable.iter().enumerate() {
            let text = format!("{text} {}", scene.id(&format!("{queue}-{number}")));
            put_aside(&scene, cloud, url, &text).await.with_context(|| format!("{text:?} in {queue}"))?;
        }
    }
    Ok(())
}

async fn put_aside(scene: &Scene<'_>, cloud: &Cloud, url: &str, text: &str) -> Result<()> {
    let id = cloud.queues.send(url, text).await?;
    let letter = cloud.queues.dead_letter(text, AT_ONCE).await?;
    ensure!(letter.receive_count == 1, "it was tried again and again: {letter:?}");
    until("a function logs it", scene.soon(), async || {
        Ok(logs::has_line(scene, cloud, &["message.dead_letter", &id]).await?.then_some(()))
    })
    .await?;
    ensure!(!logs::has_line(scene, cloud, &[text]).await?, "what cannot be read is in a log");
    cloud.queues.delete_dead_letter(&letter).await
}
