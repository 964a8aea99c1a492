//! The trace of a post goes on to receivers with every attempt: first attempts, retries, replays and large events. Other events have none.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::host::Host;
use crate::receiver::{Arrival, Reply};
use crate::scene::Scene;
use crate::waiting::until;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN_ID: &str = "00f067aa0ba902b7";
const STATE: &str = "rojo=00f067aa0ba902b7,congo = t61rcWkgMzE";
/// Too large for a queue message, so it is fanned out.
const LARGE_BYTES: usize = 160_000;
/// The first retry.
const RETRIED: Duration = Duration::from_secs(85);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let failing = scene.subscribe("one", Reply::Status(500)).await?;
    let good = scene.subscribe_with("one", "good", Reply::Status(200), json!({})).await?;
    let parent = format!("00-{TRACE_ID}-{SPAN_ID}-01");
    let traced = scene.host.clone().with_header("traceparent", &parent)?.with_header("tracestate", STATE)?;
    post(&scene, &traced, "one", "traced", "small").await?;

    let delivery = scene
        .delivery_when("it is delivered", &scene.id("traced"), scene.soon(), |d| d.is("delivered"))
        .await?;
    scene.host.post(&format!("/v1/deliveries/{}/replay", delivery.id), "").await?.expect(202)?;
    let replayed = scene.arrivals(&good.path, 2, scene.soon()).await?;
    let retried = scene.arrivals(&failing.path, 2, scene.within(RETRIED)).await?;
    let mut spans = BTreeSet::from([SPAN_ID.to_owned()]);
    for arrival in retried.iter().chain(&replayed) {
        ensure!(spans.insert(span_of(arrival)?), "two attempts have the same span: {:?}", arrival.headers);
    }

    // The failing one is retried for days, so the other events have a receiver of their own.
    let large = scene.subscribe("other", Reply::Status(200)).await?;
    post(&scene, &traced, "other", "large", &"x".repeat(LARGE_BYTES)).await?;
    span_of(&scene.arrivals(&large.path, 1, scene.soon()).await?[0])?;
    let invalid =
        scene.host.clone().with_header("traceparent", "00-nonsense")?.with_header("tracestate", STATE)?;
    post(&scene, &invalid, "other", "invalid", "small").await?;
    post(&scene, scene.host, "other", "plain", "small").await?;
    until("the others arrive without a trace", scene.soon(), async || {
        let arrivals = scene.receiver().arrivals(&large.path);
        let others = arrivals.iter().filter(|arrival| arrival.body.len() < LARGE_BYTES);
        let others: BTreeSet<(&str, bool)> = others.map(|a| (a.webhook_id(), has_trace(a))).collect();
        ensure!(
            !others.iter().any(|(_, has_trace)| *has_trace),
            "an event without a trace got one: {arrivals:?}"
        );
        Ok((others.len() == 2).then_some(()))
    })
    .await
}

async fn post(scene: &Scene<'_>, host: &Host, event: &str, id: &str, data: &str) -> Result<()> {
    let event = json!({ "id": scene.id(id), "type": scene.event_type(event), "data": data });
    host.post("/v1/events", event.to_string()).await?.expect(202).map(|_| ())
}

fn has_trace(arrival: &Arrival) -> bool {
    arrival.headers.contains_key("traceparent") || arrival.headers.contains_key("tracestate")
}

/// The span id of an attempt, which is otherwise as it was posted.
fn span_of(arrival: &Arrival) -> Result<String> {
    let parent = arrival.header("traceparent");
    let span = parent.strip_prefix(&format!("00-{TRACE_ID}-")).and_then(|rest| rest.strip_suffix("-01"));
    let span = span.with_context(|| format!("another trace: {parent:?}"))?;
    ensure!(span.len() == SPAN_ID.len(), "not a span: {span}");
    ensure!(arrival.header("tracestate") == STATE, "tracestate in {:?}", arrival.headers);
    Ok(span.to_owned())
}
