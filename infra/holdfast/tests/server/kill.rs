//! Every event that was answered with 202 survives a kill at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use holdfast_e2e::scene::{Scene, Subscription};
use holdfast_e2e::views::{items, text};
use holdfast_e2e::waiting::until;
use holdfast_e2e::{Host, Receiver, Reply};
use serde_json::{Value, json};

use crate::process::Server;

const ROUNDS: usize = 8;
const POSTERS: usize = 4;
const SPEED: u32 = 600;
const TYPE: &str = "order.created";
/// Short leases, so that attempts in flight during a kill are repeated soon.
pub(crate) const FLAGS: [&str; 6] =
    ["--http-timeout-ms", "2000", "--function-timeout-ms", "5000", "--log-level", "error"];
const REPLIES: [(&str, Reply); 4] = [
    ("good", Reply::Status(200)),
    ("failing", Reply::Status(500)),
    ("flaky", Reply::Flaky),
    ("slow", Reply::Slow(Duration::from_millis(80))),
];

/// Runs with a new seed every time, and prints it on failure.
pub(crate) async fn seeded(run: impl AsyncFnOnce(u64) -> Result<()>) {
    let seed = holdfast_e2e::clock::real_ms();
    if let Err(error) = run(seed).await {
        panic!("seed {seed}: {error:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_event_survives_kills() {
    seeded(run).await;
}

async fn run(seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let receiver = Receiver::start().await?;
    let mut subscriptions = BTreeMap::new();
    let mut accepted = BTreeSet::new();
    for round in 0..ROUNDS {
        let server = Server::start(folder.path(), SPEED, &FLAGS);
        let host = server.host(&receiver);
        if round == 0 {
            subscriptions = subscribe(&host).await?;
        }
        let life = Duration::from_millis(rng.u64(20..700));
        let posters =
            join_all((0..POSTERS).map(|_| post_until_killed(&host, fastrand::Rng::with_seed(rng.u64(..)))));
        let kill = async {
            // The seed decides when the server is killed.
            let _ = tokio::time::timeout(life, std::future::pending::<()>()).await;
            server.kill();
        };
        let (posted, ()) = tokio::join!(posters, kill);
        accepted.extend(posted.into_iter().flatten());
    }
    ensure!(
        accepted.len() > ROUNDS,
        "only {} events were accepted, too few to prove anything",
        accepted.len()
    );
    println!("{} events were accepted over {ROUNDS} kills", accepted.len());
    let server = Server::start(folder.path(), SPEED, &FLAGS);
    prove(&server.host(&receiver), &subscriptions, &accepted).await.with_context(|| server.process.stderr())
}

/// One subscription for each kind of receiver, all of the same event type.
async fn subscribe(host: &Host) -> Result<BTreeMap<&'static str, Subscription>> {
    let mut created = BTreeMap::new();
    for (name, reply) in REPLIES {
        let path = format!("/{name}");
        host.receiver.switch(&path, reply);
        let body = json!({ "url": host.receiver.url(&path), "event_types": [TYPE] });
        let answer = host.post("/v1/subscriptions", body.to_string()).await?.expect(201)?;
        let field = |field| Ok::<_, anyhow::Error>(text(&answer, field)?.to_owned());
        created.insert(
            name,
            Subscription { id: field("id")?, url_id: field("url_id")?, secret: field("secret")?, path },
        );
    }
    Ok(created)
}

/// Posts until the server is gone. Returns the ids of the accepted events.
async fn post_until_killed(host: &Host, mut rng: fastrand::Rng) -> Vec<String> {
    let mut accepted = Vec::new();
    loop {
        let event = |data: Value| json!({ "type": TYPE, "data": data });
        let body = match rng.u32(..20) {
            // Large enough to be stored separately from its messages.
            0 => event(Value::from("x".repeat(160_000))),
            1..=4 => (0..5).map(|number| event(json!({ "number": number }))).collect(),
            _ => event(json!({ "number": rng.u32(..) })),
        };
        let Ok(answer) = host.post("/v1/events", body.to_string()).await else { return accepted };
        let answer = answer.expect(202).expect("valid events are accepted");
        let listed = items(&answer).cloned().unwrap_or_else(|_| vec![answer]);
        accepted.extend(listed.iter().map(|item| text(item, "id").expect("an id").to_owned()));
    }
}

/// For each subscription, every event was received or is listed. A receiver that always succeeds received every event.
async fn prove(
    host: &Host,
    subscriptions: &BTreeMap<&'static str, Subscription>,
    accepted: &BTreeSet<String>,
) -> Result<()> {
    let scene = Scene::new(host, "kill");
    for (name, subscription) in subscriptions {
        let mut missing = BTreeSet::new();
        let what = format!("everything for the {name} receiver is accounted for");
        let proof = until(&what, Duration::from_secs(90), async || {
            let mut known = received(&host.receiver, &subscription.path);
            if !matches!(*name, "good" | "slow") {
                let shown = scene.deliveries(&format!("url={}", subscription.url_id)).await?;
                known.extend(shown.into_iter().map(|delivery| delivery.event_id));
            }
            missing = accepted.difference(&known).cloned().collect();
            Ok(missing.is_empty().then_some(()))
        });
        let result = proof.await;
        result.with_context(|| format!("{} of {} are lost: {missing:?}", missing.len(), accepted.len()))?;
    }
    Ok(())
}

/// The events that a path responded to with success.
fn received(receiver: &Receiver, path: &str) -> BTreeSet<String> {
    let arrivals = receiver.arrivals(path);
    let good = arrivals.iter().filter(|arrival| arrival.accepted());
    good.map(|arrival| {
        let body: Value = serde_json::from_slice(&arrival.body).expect("a whole body");
        text(&body, "id").expect("an event id").to_owned()
    })
    .collect()
}
