//! An event arrives once, exactly as posted and signed, and is shown as delivered.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use standardwebhooks::Webhook;

use crate::receiver::{Arrival, Reply};
use crate::scene::{Scene, Subscription};
use crate::views::{Delivery, text};

/// Odd spacing, a repeated key, a 40-digit number, and U+FFFF both escaped and raw.
const DATA: &str = "{ \"b\" :1,\t\"a\":[ 1,2 ], \"b\":  2,\
    \"n\":1234567890123456789012345678901234567890,\"e\":\"\\uFFFF\", \"r\":\"\u{FFFF}\" }";
/// How far the signed time may be from the arrival, on a busy machine.
const MAX_DRIFT_MS: u64 = 15_000;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let token = "tok-4711";
    let subscription =
        scene.subscribe_with("one", "one", Reply::Status(200), json!({ "auth_token": token })).await?;
    let (id, event_type) = (scene.id("one"), scene.event_type("one"));
    let body = format!(r#"{{"data":{DATA},"subject":"order/42","type":"{event_type}","id":"{id}"}}"#);
    let answer = scene.host.post("/v1/events", body).await?.expect(202)?;
    // A repeated post is a duplicate.
    let duplicate = if scene.host.faulty { answer["duplicate"].clone() } else { json!(false) };
    let expected = json!({ "id": id, "deliveries": 1, "duplicate": duplicate });
    ensure!(answer == expected, "unexpected: {answer}");

    let arrival = scene.arrivals(&subscription.path, 1, scene.soon()).await?.remove(0);
    check_headers(&arrival, token)?;
    check_signature(&arrival, &subscription)?;

    let shown =
        scene.delivery_when("the delivery is delivered", &id, scene.soon(), |d| d.is("delivered")).await?;
    ensure!(arrival.webhook_id() == shown.id, "webhook-id {} of delivery {}", arrival.webhook_id(), shown.id);
    let one = scene.delivery(&shown.id).await?;
    ensure!(one.is("delivered") && scene.is_count(one.attempts.len(), 1), "unexpected: {one:?}");
    let event = scene.host.get(&format!("/v1/events/{id}")).await?.expect(200)?;
    let listed =
        event["deliveries"].as_array().into_iter().flatten().map(Delivery::of).collect::<Result<Vec<_>>>()?;
    ensure!(listed.len() == 1 && listed[0].is("delivered") && listed[0].id == one.id, "unexpected: {event}");

    let timestamp = text(&event, "timestamp")?;
    let expected = format!(
        r#"{{"id":"{id}","type":"{event_type}","timestamp":"{timestamp}","subject":"order/42","data":{DATA}}}"#
    );
    let arrived = String::from_utf8_lossy(&arrival.body);
    ensure!(arrived == expected, "the body is {arrived} and not {expected}");
    without_subject(&scene, &subscription).await?;
    let arrived = scene.receiver().count(&subscription.path);
    ensure!(scene.is_count(arrived, 2), "something arrived more than once");
    Ok(())
}

fn check_headers(arrival: &Arrival, token: &str) -> Result<()> {
    let headers = &arrival.headers;
    ensure!(arrival.header("content-type") == "application/json", "content-type in {headers:?}");
    ensure!(arrival.header("user-agent").starts_with("Holdfast"), "user-agent in {headers:?}");
    ensure!(arrival.header("authorization") == format!("Bearer {token}"), "authorization in {headers:?}");
    let signed_ms = arrival.header("webhook-timestamp").parse::<u64>()? * 1000;
    ensure!(
        signed_ms.abs_diff(arrival.real_ms) < MAX_DRIFT_MS,
        "signed {signed_ms}, arrived {}",
        arrival.real_ms
    );
    Ok(())
}

/// With the official library, not our own code.
pub(super) fn check_signature(arrival: &Arrival, subscription: &Subscription) -> Result<()> {
    let webhook = Webhook::new(&subscription.secret)?;
    Ok(webhook.verify(&arrival.body, &arrival.headers)?)
}

/// An event without a subject has no such field.
async fn without_subject(scene: &Scene<'_>, subscription: &Subscription) -> Result<()> {
    let id = scene.post("one").await?;
    let arrivals = scene.arrivals_of(&subscription.path, 2, scene.soon()).await?;
    let bodies: Vec<_> = arrivals.iter().map(|arrival| String::from_utf8_lossy(&arrival.body)).collect();
    let body = bodies.iter().find(|body| body.contains(&id)).context("another event arrived")?;
    ensure!(!body.contains("subject"), "there should be no subject: {body}");
    Ok(())
}
