//! A healthy URL beside a failing one: its events always arrive at once.

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

    /// Posts one event and checks that it arrives in time.
    pub(super) async fn check(&mut self, scene: &Scene<'_>) -> Result<()> {
        let within = scene.host.timing.first_attempt_late;
        scene.post(TYPE).await?;
        let answered = Instant::now();
        self.posted += 1;
        let arrivals = scene.arrivals(&self.subscription.path, self.posted, within).await;
        let arrivals = arrivals.with_context(|| format!("event {} of the neighbour", self.posted))?;
        let took = arrivals[self.posted - 1].at.saturating_duration_since(answered);
        ensure!(took < within, "event {} of the neighbour took {took:?}", self.posted);
        Ok(())
    }

    /// Does `work`, and checks all the while that events of the neighbour arrive.
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
                    // The event in flight counts too.
                    check.await?;
                    return done;
                }
                checked = &mut check => checked?,
            }
        }
    }
}
