//! Changes of a subscription: its live deliveries move to its new URL or die, its secret is rotated, and it is pinged.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join4;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::receiver::{Arrival, Reply};
use crate::scene::{Scene, Subscription};
use crate::views::{Delivery, text};

/// Few, so that the next retry is minutes away and not hours.
const FAILURES: usize = 2;
const LONG_ENOUGH: Duration = Duration::from_secs(3600);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    try_join4(moves(&scene), deactivates(&scene), rotates(&scene), pings(&scene)).await?;
    Ok(())
}

/// A waiting delivery and a parked one, of two subscriptions named after `part`.
async fn live(scene: &Scene<'_>, part: &str) -> Result<[(Subscription, String); 2]> {
    let (waiting, parked) = (format!("{part}-waiting"), format!("{part}-parked"));
    let waits = scene.subscribe(&waiting, Reply::Status(500)).await?;
    let is_parked = scene.subscribe(&parked, Reply::Status(200)).await?;
    scene.change_url_state(&is_parked.url_id, "freeze", "to park").await?;
    let (waiting_id, parked_id) = (scene.post(&waiting).await?, scene.post(&parked).await?);
    scene.delivery_when("one is parked", &parked_id, scene.soon(), |d| d.is("parked")).await?;
    let within = scene.within(LONG_ENOUGH);
    let failed_often = |d: &Delivery| d.is("waiting") && d.attempts.len() >= FAILURES;
    scene.delivery_when("one is waiting", &waiting_id, within, failed_often).await?;
    Ok([(waits, waiting_id), (is_parked, parked_id)])
}

async fn moves(scene: &Scene<'_>) -> Result<()> {
    let [(waits, waiting_id), (is_parked, parked_id)] = live(scene, "moved").await?;
    for (subscription, id) in [(&waits, &waiting_id), (&is_parked, &parked_id)] {
        let path = format!("{}-on", subscription.path);
        let changed = scene.change(subscription, json!({ "url": scene.receiver().url(&path) })).await?;
        let left_behind = scene.receiver().count(&subscription.path);
        let within = scene.within(LONG_ENOUGH * 4);
        let delivered = scene.delivery_when("it is delivered", id, within, |d| d.is("delivered")).await?;
        let shown = scene.host.get(&format!("/v1/deliveries/{}", delivered.id)).await?.expect(200)?;
        ensure!(shown["url_id"] == changed["url_id"], "delivered elsewhere: {shown}");
        ensure!(scene.is_count(scene.receiver().count(&path), 1), "not once at the new URL");
        // An attempt in flight when the URL changed may still arrive.
        let more = scene.receiver().count(&subscription.path) - left_behind;
        let max = if scene.host.faulty { 2 } else { 1 };
        ensure!(more <= max, "{more} more attempts at the old URL");
    }
    ensure!(scene.receiver().count(&is_parked.path) == 0, "a frozen URL was attempted");
    Ok(())
}

async fn deactivates(scene: &Scene<'_>) -> Result<()> {
    for (subscription, id) in &live(scene, "ended").await? {
        let changed = scene.change(subscription, json!({ "active": false })).await?;
        ensure!(changed["active"] == false, "still active: {changed}");
        let dead = scene.delivery_when("it is dead", id, scene.soon(), |d| d.is("dead")).await?;
        ensure!(dead.reason.as_deref() == Some("inactive"), "dead for another reason: {dead:?}");
    }
    let event = json!({ "type": scene.event_type("ended-parked"), "data": 1 }).to_string();
    let answer = scene.host.post("/v1/events", event).await?.expect(202)?;
    ensure!(answer["deliveries"] == 0, "an inactive subscription still gets events: {answer}");
    Ok(())
}

async fn rotates(scene: &Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("signed", Reply::Status(200)).await?;
    let path = format!("/v1/subscriptions/{}", subscription.id);
    let answer = scene.host.post(&format!("{path}/rotate-secret"), "").await?;
    let rotated = answer.expect(200)?;
    let fresh = text(&rotated, "secret")?;
    ensure!(fresh != subscription.secret, "the secret did not change");
    ensure!(scene.host.get(&path).await?.expect(200)?.get("secret").is_none(), "a secret is shown again");
    scene.post("signed").await?;
    let arrivals = scene.arrivals(&subscription.path, 1, scene.soon()).await?;
    let signatures = arrivals[0].header("webhook-signature").split(' ').count();
    // A rotation whose answer was lost has made another secret.
    ensure!(signatures == 2 || answer.repeated, "{signatures} signatures with two valid secrets");
    let valid = if answer.repeated { vec![fresh] } else { vec![fresh, &subscription.secret] };
    for secret in valid {
        let verified = Webhook::new(secret)?.verify(&arrivals[0].body, &arrivals[0].headers);
        ensure!(verified.is_ok(), "one of the secrets does not verify it: {verified:?}");
    }
    Ok(())
}

async fn pings(scene: &Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("pinged", Reply::Status(204)).await?;
    let path = format!("/v1/subscriptions/{}/ping", subscription.id);
    let attempt = scene.host.post(&path, "").await?.expect(200)?;
    ensure!(attempt["outcome"] == "success" && attempt["status"] == 204, "unexpected: {attempt}");
    let arrivals = scene.receiver().arrivals(&subscription.path);
    ensure!(scene.is_count(arrivals.len(), 1), "{} pings arrived", arrivals.len());
    let last = arrivals.last().map(Arrival::webhook_id);
    ensure!(attempt["webhook_id"].as_str() == last, "another id: {attempt}");
    let event: Value = serde_json::from_slice(&arrivals[0].body)?;
    ensure!(event["type"] == "holdfast.ping", "not a ping: {event}");
    let url = scene.url(&subscription.url_id).await?;
    ensure!(url["window_attempts"] == 0, "a ping was counted: {url}");
    scene.change_url_state(&subscription.url_id, "freeze", "no pings").await?;
    let refused = scene.host.post(&path, "").await?;
    ensure!(refused.status == 409 && refused.text.contains("frozen"), "unexpected: {refused:?}");
    ensure!(scene.receiver().count(&subscription.path) == arrivals.len(), "a frozen URL was pinged");
    Ok(())
}
