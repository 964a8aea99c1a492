//! Every replay that was answered with 202 survives a kill at any moment.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::until;
use holdfast_e2e::{Host, Receiver, Reply};

use crate::kill::{FLAGS, seeded};
use crate::process::Server;

/// 52 hours of the schedule take less than four seconds, so that all deliveries are dead soon.
const FAST: u32 = 50_000;
const SLOW: u32 = 60;
const ROUNDS: usize = 8;
const URLS: usize = 3;
/// With twelve attempts each, too few to disable a URL.
const EVENTS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_replay_survives_kills() {
    seeded(run).await;
}

async fn run(seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let receiver = Receiver::start().await?;
    let mut left: BTreeSet<String> =
        make_dead(&Server::start(folder.path(), FAST, &FLAGS), &receiver).await?;
    let mut replayed = BTreeSet::new();
    for _ in 0..ROUNDS {
        let server = Server::start(folder.path(), SLOW, &FLAGS);
        let host = server.host(&receiver);
        // Some each round, so that some are left for the next.
        let some: Vec<String> = left.iter().take(left.len().div_ceil(3)).cloned().collect();
        let life = Duration::from_millis(rng.u64(1..60));
        let kill = async {
            let _ = tokio::time::timeout(life, std::future::pending::<()>()).await;
            server.kill();
        };
        let (answered, ()) = tokio::join!(join_all(some.iter().map(|id| replay(&host, id))), kill);
        for id in answered.into_iter().flatten() {
            left.remove(&id);
            replayed.insert(id);
        }
    }
    println!("{} replays were accepted over {ROUNDS} kills", replayed.len());
    let server = Server::start(folder.path(), SLOW, &FLAGS);
    let host = server.host(&receiver);
    for id in left {
        replayed.extend(replay(&host, &id).await);
    }
    ensure!(replayed.len() == URLS * EVENTS, "only {} dead deliveries were replayed", replayed.len());
    prove(&host, &replayed).await.with_context(|| server.process.stderr())
}

/// Dead deliveries to receivers that respond 200 from then on.
async fn make_dead(server: &Server, receiver: &Receiver) -> Result<BTreeSet<String>> {
    let host = server.host(receiver);
    let scene = Scene::new(&host, "replays");
    let mut dead = BTreeSet::new();
    let names: Vec<String> = (0..URLS).map(|number| format!("url-{number}")).collect();
    let mut paths = Vec::new();
    for name in &names {
        paths
            .push(scene.subscribe_with("one", name, Reply::Status(500), serde_json::Value::Null).await?.path);
    }
    for event in scene.post_many("one", EVENTS).await? {
        let found = until("all deliveries are dead", Duration::from_secs(60), async || {
            let dead = scene.deliveries(&format!("event={event}&state=dead")).await?;
            Ok((dead.len() == URLS).then_some(dead))
        });
        dead.extend(found.await?.into_iter().map(|delivery| delivery.id));
    }
    for path in paths {
        receiver.switch(&path, Reply::Status(200));
    }
    Ok(dead)
}

/// The id, if the host accepted the replay now (202), or earlier in a request whose answer was lost (409).
async fn replay(host: &Host, id: &str) -> Option<String> {
    let answer = host.post(&format!("/v1/deliveries/{id}/replay"), "").await.ok()?;
    assert!([202, 409].contains(&answer.status.as_u16()), "unexpected: {answer:?}");
    Some(id.to_owned())
}

async fn prove(host: &Host, replayed: &BTreeSet<String>) -> Result<()> {
    let scene = Scene::new(host, "replays");
    for id in replayed {
        let what = format!("the replay of {id} is attempted");
        until(&what, Duration::from_secs(60), async || {
            let shown = scene.delivery(id).await?;
            let attempted = shown.attempts.iter().any(|attempt| attempt.epoch >= 1);
            Ok((shown.epoch >= 1 && attempted && shown.is("delivered")).then_some(()))
        })
        .await?;
    }
    Ok(())
}
