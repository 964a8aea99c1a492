//! `holdfast dead-letters` finds a dead letter and sends it back to its queue.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use holdfast_aws::queue::to_text;
use holdfast_core::ids::{DeliveryKey, EventKey};
use holdfast_core::records::{FirstAttempt, Message};
use holdfast_core::time::Timestamp;
use serde_json::json;
use tokio::process::Command;

use super::Cloud;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::time_ms;

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let urls = &cloud.queues.urls;
    let subscription = scene.subscribe("one", Reply::Status(200)).await?;
    let (message, body) = first_attempt(&scene, &subscription).await?;
    let id = cloud.queues.send(&urls.dead_letters, &to_text(message.encode())).await?;
    let arrived = scene.receiver().count(&subscription.path);

    let listed = dead_letters(cloud, &["list"]).await?;
    ensure!(listed.contains(&id), "{id} is not listed: {listed}");
    let shown = dead_letters(cloud, &["show", &id]).await?;
    ensure!(shown.contains(&id) && shown.contains(&subscription.id), "unexpected: {shown}");
    let to = ["--first-queue-url", &urls.first, "--retry-queue-url", &urls.retry];
    dead_letters(cloud, &["requeue", &id, to[0], to[1], to[2], to[3]]).await?;

    let arrivals = scene.arrivals(&subscription.path, arrived + 1, scene.soon()).await?;
    ensure!(arrivals.iter().any(|arrival| arrival.body == body), "something else arrived: {arrivals:?}");
    let listed = dead_letters(cloud, &["list"]).await?;
    ensure!(!listed.contains(&id), "{id} is still listed: {listed}");
    Ok(())
}

/// A valid message, such as one that died because of an outage.
async fn first_attempt(scene: &Scene<'_>, subscription: &Subscription) -> Result<(Message, Bytes)> {
    // The schedule time comes from an event that is accepted now.
    let posted = scene.post("one").await?;
    scene.arrivals(&subscription.path, 1, scene.soon()).await?;
    let event = scene.host.get(&format!("/v1/events/{posted}")).await?.expect(200)?;
    let accepted_at = Timestamp::from_millis(time_ms(&event, "timestamp")?.context("no time")?);
    let event_id = scene.id("dead");
    let body = json!({ "id": event_id, "type": scene.event_type("one"), "data": "back" }).to_string();
    let message = Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: scene.host.tenant.as_str().into(),
            event_key: EventKey::of(&event_id, accepted_at),
            subscription_id: subscription.id.as_str().into(),
        },
        event_id,
        event_type: scene.event_type("one"),
        accepted_at,
        url_id: subscription.url_id.as_str().into(),
        body: Some(Bytes::from(body.clone())),
        again: false,
        trace: None,
    });
    Ok((message, Bytes::from(body)))
}

/// What `holdfast dead-letters` prints.
async fn dead_letters(cloud: &Cloud, args: &[&str]) -> Result<String> {
    let output = Command::new(&cloud.command)
        .arg("dead-letters")
        .args(args)
        .args(["--queue-url", &cloud.queues.urls.dead_letters])
        .env_clear()
        .envs([("AWS_ENDPOINT_URL", cloud.endpoint.as_str()), ("AWS_REGION", "us-east-1")])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
        .kill_on_drop(true)
        .output()
        .await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "holdfast dead-letters {args:?}: {} {stderr}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
