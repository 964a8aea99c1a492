//! A message that cannot be read goes to the dead-letter queue at once and is logged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Cloud, logs};
use crate::clock::real_ms;
use crate::scene::Scene;
use crate::waiting::until;

/// Less than the visibility timeout, so that only the first receipt can have moved it.
const BEFORE_SECOND_RECEIPT: Duration = Duration::from_secs(10);

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let urls = &cloud.queues.urls;
    let unreadable = ["not a message".to_owned(), r#"{"v":1,"kind":"unheard_of"}"#.to_owned()];
    for (queue, url) in [("first", &urls.first), ("retry", &urls.retry)] {
        for (number, text) in unreadable.iter().enumerate() {
            let text = format!("{text} {}", scene.id(&format!("{queue}-{number}")));
            is_moved(&scene, cloud, url, &text).await.with_context(|| format!("{text:?} in {queue}"))?;
        }
    }
    Ok(())
}

async fn is_moved(scene: &Scene<'_>, cloud: &Cloud, url: &str, text: &str) -> Result<()> {
    let since_ms = real_ms();
    let id = cloud.queues.send(url, text).await?;
    // Where calls fail, moving it may take more than one receipt.
    let within = if scene.host.faulty { scene.soon() } else { BEFORE_SECOND_RECEIPT };
    let letter = cloud.queues.dead_letter(text, within).await?;
    ensure!(letter.receive_count == 1 || scene.host.faulty, "it was received more than once: {letter:?}");
    until("a function logs it", scene.soon(), async || {
        let found = logs::has_line(scene, cloud, since_ms, &["message.dead_letter", &id]).await?;
        Ok((found == Some(true)).then_some(()))
    })
    .await?;
    let leaked = until("the logs can be read", scene.soon(), async || {
        logs::has_line(scene, cloud, since_ms, &[text]).await
    })
    .await?;
    ensure!(!leaked, "the text of an unreadable message is in a log");
    cloud.queues.delete_dead_letter(&letter).await
}
