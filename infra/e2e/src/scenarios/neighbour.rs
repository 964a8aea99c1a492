//! A healthy URL beside one in trouble: whatever happens there, its events arrive at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};

const TYPE: &str = "neighbour";

pub(super) struct Neighbour {
    subscription: Subscription,
    posted: usize,
}

impl Neighbour {
    pub(super) async fn new(scene: &Scene<'_>) -> Result<Neighbour> {
        Ok(Neighbour { subscription: scene.subscribe(TYPE, Reply::Status(200)).await?, posted: 0 })
    }

    /// Posts one event and sees it arrive.
    pub(super) async fn check(&mut self, scene: &Scene<'_>) -> Result<()> {
        let at_once = scene.host.timing.first_attempt_late;
        scene.post(TYPE).await?;
        let answered = Instant::now();
        self.posted += 1;
        let arrivals = scene.arrivals(&self.subscription.path, self.posted, at_once).await;
        let arrivals = arrivals.with_context(|| format!("event {} of the neighbour", self.posted))?;
        let took = arrivals[self.posted - 1].at.saturating_duration_since(answered);
        ensure!(took < at_once, "event {} of the neighbour took {took:?}", self.posted);
        Ok(())
    }

    /// Does `work`, and sees events of the neighbour arrive all along.
    pub(super) async fn beside<T>(
        &mut self,
        scene: &Scene<'_>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::pin!(work);
        let mut ticks = tokio::time::interval(Duration::from_millis(250));
        loop {
            let check = async {
                ticks.tick().await;
                self.check(scene).await
            };
            tokio::pin!(check);
            tokio::select! {
                done = &mut work => {
                    // The event that is on its way counts too.
                    check.await?;
                    return done;
                }
                checked = &mut check => checked?,
            }
        }
    }
}
