//! A URL that never responds, with many events, does not delay another one.

use anyhow::Result;

use super::neighbour::Neighbour;
use crate::receiver::Reply;
use crate::scene::Scene;

const EVENTS: usize = 200;
const CHECKS: usize = 20;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let mut neighbour = Neighbour::new(&scene).await?;
    let hanging = scene.subscribe("hanging", Reply::Hang).await?;
    scene.post_many("hanging", EVENTS).await?;
    // From here on, attempts hang.
    scene.arrivals(&hanging.path, 1, scene.soon()).await?;
    for _ in 0..CHECKS {
        neighbour.check(&scene).await?;
    }
    // So that the host does not attempt the rest of them during other scenarios.
    scene.unsubscribe(&hanging).await
}
