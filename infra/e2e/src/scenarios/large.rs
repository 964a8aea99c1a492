//! The largest event arrives intact, and one byte more is rejected.

use anyhow::{Result, ensure};

use crate::receiver::Reply;
use crate::scene::Scene;

const MAX_BYTES: usize = 1_000_000;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(200)).await?;
    let request = |bytes: usize| {
        let (head, tail) = (format!(r#"{{"type":"{}","data":""#, scene.event_type("one")), "\"}");
        // No repetition, so that a swapped or lost part is noticed.
        let text: String = (0_u32..)
            .flat_map(|n| format!("{n:x}.").into_bytes())
            .map(char::from)
            .take(bytes - head.len() - tail.len())
            .collect();
        (format!("{head}{text}{tail}"), text)
    };
    let (too_large, _) = request(MAX_BYTES + 1);
    let refused = scene.host.post("/v1/events", too_large).await?;
    ensure!(
        refused.status == 413 && refused.content_type == "application/problem+json",
        "unexpected: {refused:?}"
    );
    let (largest, text) = request(MAX_BYTES);
    ensure!(largest.len() == MAX_BYTES, "{} bytes", largest.len());
    scene.host.post("/v1/events", largest).await?.expect(202)?;
    let arrivals = scene.arrivals(&subscription.path, 1, scene.soon()).await?;
    let body = String::from_utf8(arrivals[0].body.to_vec())?;
    ensure!(body.ends_with(&format!(r#","data":"{text}"}}"#)), "{} bytes arrived, not as posted", body.len());
    super::deliver::check_signature(&arrivals[0], &subscription)?;
    ensure!(scene.is_count(arrivals.len(), 1), "it arrived {} times", arrivals.len());
    Ok(())
}
