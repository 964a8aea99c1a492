//! People who freeze, enable, disable, replay and move. Half of what they ask for happens while the server is in trouble.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cast::KEPT_FROZEN;
use super::world::{World, pass};
use crate::host::{Answer, Host};
use crate::views::items;
use crate::waiting::{SOON, until};

pub(super) async fn run(world: &World, until: Instant) -> Result<()> {
    let mut rng = world.rng();
    let open: Vec<usize> =
        (0..world.cast.len()).filter(|number| world.cast[*number].is_open_to_people).collect();
    let freeze_at = world.started + world.plan.trouble / 2;
    let mut is_kept_frozen = false;
    while Instant::now() < until {
        pass(Duration::from_millis(rng.u64(50..500))).await;
        if Instant::now() >= freeze_at && !is_kept_frozen {
            is_kept_frozen = true;
            freeze_for_good(world).await?;
        }
        let subscription = open[rng.usize(..open.len())];
        let (what, path, body) = choose(world, subscription, &mut rng).await;
        let Some(path) = path else { continue };
        let host = world.host(world.cast[subscription].tenant);
        let answer =
            if what == "moves" { host.patch(&path, body).await } else { host.post(&path, body).await };
        judge(world, what, &path, &answer);
        if let Ok(Answer { status, text, .. }) = answer
            && status == 202
            && let Ok(replay) = serde_json::from_str::<Value>(&text)
            && let Some(id) = replay["id"].as_str()
        {
            world.replay_started(world.cast[subscription].tenant, id.to_owned());
        }
    }
    Ok(())
}

/// What is asked for next. Without a path there is nothing to ask for.
async fn choose(
    world: &World,
    number: usize,
    rng: &mut fastrand::Rng,
) -> (&'static str, Option<String>, String) {
    let host = world.host(world.cast[number].tenant);
    let url = current_url(world, number, &host).await;
    let on_url = |action: &str| url.as_ref().map(|url| format!("/v1/urls/{url}/{action}"));
    let none = String::new();
    match rng.u8(..12) {
        0..=1 => ("freezes", on_url("freeze"), none),
        2..=5 => ("enables", on_url("enable"), none),
        6 => ("disables", on_url("disable"), none),
        7..=8 => {
            let to = world.receivers.url(number, rng.bool());
            let path = format!("/v1/subscriptions/{}", world.subscribed[number].id);
            ("moves", Some(path), json!({ "url": to }).to_string())
        }
        9 => {
            let states = if rng.u8(..4) == 0 { json!(["dead", "delivered"]) } else { json!(["dead"]) };
            ("replays of a URL", on_url("replay"), json!({ "states": states }).to_string())
        }
        _ => {
            let subscription = &world.subscribed[number].id;
            let path = format!("/v1/deliveries?state=dead&limit=20&subscription={subscription}");
            let listed = host.get(&path).await.and_then(|answer| answer.json()).unwrap_or_default();
            let dead = items(&listed).ok().and_then(|items| items.get(rng.usize(..20))).cloned();
            let id = dead.and_then(|delivery| delivery["id"].as_str().map(str::to_owned));
            ("replays of a delivery", id.map(|id| format!("/v1/deliveries/{id}/replay")), none)
        }
    }
}

/// The URL that the subscription has now, if the server answers.
async fn current_url(world: &World, number: usize, host: &Host) -> Option<String> {
    let path = format!("/v1/subscriptions/{}", world.subscribed[number].id);
    let shown: Value = host.get(&path).await.ok()?.json().ok()?;
    shown["url_id"].as_str().map(str::to_owned)
}

/// 409: frozen URLs are not disabled, what is waiting is not replayed.
fn judge(world: &World, what: &'static str, path: &str, answer: &Result<Answer>) {
    match answer.as_ref().map(|answer| answer.status.as_u16()) {
        Ok(200 | 202) => world.count(what),
        Ok(409 | 429 | 500..) | Err(_) => world.count("requests of people that were refused or not answered"),
        Ok(status) => world.fault(format!("{path} is answered {status}: {answer:?}")),
    }
}

/// The one URL that stays frozen to the end.
async fn freeze_for_good(world: &World) -> Result<()> {
    let tenant = world.cast[KEPT_FROZEN].tenant;
    let path = format!("/v1/urls/{}/freeze", world.subscribed[KEPT_FROZEN].url_id);
    until("the URL that stays frozen is frozen", SOON, async || {
        let answer = world.host(tenant).post(&path, "").await;
        Ok(answer.is_ok_and(|answer| answer.status == 200).then_some(()))
    })
    .await
}
