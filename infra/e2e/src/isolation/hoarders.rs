//! Memory: many tenants and strangers take as much of it as they may, in several ways at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::{join, join_all, try_join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::arena::Arena;
use super::idle_connections::connect;
use super::receivers;
use super::tenant::{Tenant, in_lanes};

const TENANTS: usize = 12;
/// All together, the bodies that never end are several times as large as what all tenants may hold.
const SLOW_POSTS: usize = 24;
const BODY_BYTES: usize = 1_000_000;
/// All together, these fill what the queue keeps in memory and what attempts hold.
const URLS: usize = 4;
const POSTS: usize = 3;
const EVENTS: usize = 6;
/// The largest that is kept with its messages.
const EVENT_BYTES: usize = 140_000;
/// Longer than an attempt.
const ANSWER_AFTER: Duration = Duration::from_secs(60);
const STRANGERS: usize = 400;
/// Less than the longest head.
const HEAD_BYTES: usize = 15_000;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), ANSWER_AFTER).await?;
    let tenants = arena.attackers(TENANTS).await?;
    in_lanes(4, tenants.iter().enumerate().collect(), async |(number, tenant)| {
        for url in 0..URLS {
            let url = format!("{base}/{number}/{url}");
            tenant.subscribe(&json!({ "url": url, "event_types": ["held"] })).await?;
        }
        Ok(())
    })
    .await?;
    arena.alone().await?;
    let address = arena.server.address().to_owned();
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let attack = async {
        try_join_all(tenants.iter().map(post_events)).await?;
        let strangers = join_all((0..STRANGERS).map(|number| hold_head(number, &address)));
        let slow = join_all(tenants.iter().map(|tenant| post_slowly(&address, tenant)));
        let (strangers, slow) = join(strangers, slow).await;
        strangers.into_iter().collect::<Result<()>>()?;
        for status in slow.into_iter().flatten() {
            *answers.entry(status?).or_default() += 1;
        }
        Ok(())
    };
    arena.beside_all_of(attack).await?;
    let slow = answers.get("408").copied().unwrap_or(0);
    arena.expect(slow >= TENANTS, || format!("the attackers held too little: {answers:?}"));
    arena.count(format!("answers to {} slow posts by status: {answers:?}", TENANTS * SLOW_POSTS));
    Ok(())
}

/// Events for receivers that do not answer.
async fn post_events(tenant: &Tenant) -> Result<()> {
    let event = json!({ "type": "held", "data": "x".repeat(EVENT_BYTES) });
    let events = Value::from(vec![event; EVENTS]).to_string();
    for _ in 0..POSTS {
        let answer = tenant.post("/v1/events", events.clone()).await?;
        ensure!(answer.status == 202, "events were not accepted: {answer:?}");
    }
    Ok(())
}

/// The statuses of the answers to posts that never end.
async fn post_slowly(address: &str, tenant: &Tenant) -> Vec<Result<String>> {
    let key = tenant.key();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    let unfinished = [head.into_bytes(), vec![b' '; BODY_BYTES - 1]].concat();
    let post = async |number: usize| {
        let mut stream = connect(number, address).await?;
        stream.write_all(&unfinished).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        Ok(String::from_utf8_lossy(&head[9..]).into_owned())
    };
    join_all((0..SLOW_POSTS).map(post)).await
}

/// A head that never ends, until the server closes the connection.
async fn hold_head(number: usize, address: &str) -> Result<()> {
    let mut stream = connect(number, address).await?;
    let unfinished = [&b"GET / HTTP/1.1\r\nx: "[..], &[b'x'; HEAD_BYTES]].concat();
    // A reset ends it too, as one that makes room for others gets.
    let _ = stream.write_all(&unfinished).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(())
}
