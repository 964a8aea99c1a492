//! Receivers that never come to the end of their answer: interim responses, headers or a body without end, and one byte a second.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::arena::Arena;
use super::tally::Tally;
use super::tenant::Tenant;
use crate::views::items;
use crate::waiting::until;

/// Far beyond the timeout of an attempt, 5 s. A connection that is open for longer is not ended by the server.
const MAX_OPEN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
struct Hostile {
    name: &'static str,
    /// What is written once.
    first: &'static str,
    /// What is written again and again.
    then: &'static str,
    /// The time between two writes.
    pause: Duration,
    /// Whether every attempt fails. Only the beginning of a body is read, so an attempt whose answer has a body without end
    /// succeeds, if there is time for that much of it.
    fails: bool,
}

const fn hostile(name: &'static str, first: &'static str, then: &'static str) -> Hostile {
    Hostile { name, first, then, pause: Duration::ZERO, fails: true }
}

const HOSTILE: [Hostile; 4] = [
    hostile("interim", "", "HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"),
    hostile("headers", "HTTP/1.1 200 OK\r\n", "x-header: and another one without end\r\n"),
    Hostile {
        fails: false,
        ..hostile("body", "HTTP/1.1 200 OK\r\n\r\n", "and another piece of the body without end\n")
    },
    Hostile { pause: Duration::from_secs(1), ..hostile("drip", "HTTP/1.1 200 OK\r\nx: ", "y") },
];

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let attacker = arena.attacker.clone();
    let still_open = Tally::default();
    let mut urls = Vec::new();
    for hostile in HOSTILE {
        let base = listen(hostile, arena.tally.clone(), still_open.clone()).await?;
        let body = json!({ "url": format!("{base}/{}", hostile.name), "event_types": [hostile.name] });
        urls.push((hostile, attacker.subscribe(&body).await?.url_id));
    }
    arena.alone().await?;
    let events = arena.size.pick(10, 100);
    for (hostile, _) in &urls {
        attacker.post_many(hostile.name, events).await?;
    }
    arena.started(HOSTILE.len() as u64).await?;
    arena.beside(std::future::ready(Ok(()))).await?;
    for (hostile, url) in urls {
        let what = format!("the attempts to {} end", hostile.name);
        let outcomes = until(&what, MAX_OPEN, async || {
            let outcomes = outcomes(&attacker, &url).await?;
            Ok((outcomes.len() == events).then_some(outcomes))
        });
        match outcomes.await {
            Ok(outcomes) => {
                let ok = !hostile.fails || outcomes.iter().all(|outcome| outcome == "failure");
                arena.expect(ok, || format!("{}: each attempt fails, not {outcomes:?}", hostile.name));
            }
            Err(error) => arena.faults.push(format!("{error:#}")),
        }
    }
    let too_long = still_open.mark().started;
    arena.expect(too_long == 0, || format!("{too_long} connections were open for more than {MAX_OPEN:?}"));
    arena.count(format!("{} hostile answers", arena.tally.mark().started));
    Ok(())
}

/// The outcomes of the first attempts that have ended.
async fn outcomes(attacker: &Tenant, url: &str) -> Result<Vec<String>> {
    let page = attacker.get(&format!("/v1/deliveries?url={url}&limit=100")).await?;
    let outcome = |delivery: &Value| delivery["attempts"][0]["outcome"].as_str().map(str::to_owned);
    Ok(items(&page)?.iter().filter_map(outcome).collect())
}

/// Starts a receiver and returns its base URL. `too_long` counts the connections that the server does not close in time.
async fn listen(hostile: Hostile, tally: Tally, too_long: Tally) -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let base = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tally, too_long) = (tally.clone(), too_long.clone());
            tokio::spawn(async move {
                let running = tally.start();
                if tokio::time::timeout(MAX_OPEN, answer(stream, hostile)).await.is_err() {
                    drop(too_long.start());
                }
                drop(running);
            });
        }
    });
    Ok(base)
}

/// Writes until the other end closes the connection.
async fn answer(mut stream: TcpStream, hostile: Hostile) -> std::io::Result<()> {
    // The request fits into one read, and what it says does not matter.
    let _ = stream.read(&mut [0; 4_096]).await?;
    stream.write_all(hostile.first.as_bytes()).await?;
    let many = hostile.then.repeat(if hostile.pause.is_zero() { 100 } else { 1 });
    loop {
        stream.write_all(many.as_bytes()).await?;
        if !hostile.pause.is_zero() {
            // A closed connection is noticed at once, because it becomes readable.
            if let Ok(Ok(0) | Err(_)) = tokio::time::timeout(hostile.pause, stream.read(&mut [0; 64])).await {
                return Ok(());
            }
        }
    }
}
