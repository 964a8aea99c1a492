//! Requests that are answered without waiting for anything: one large event, read again and again on many connections.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::arena::Arena;
use super::idle_connections::connect;
use super::receivers;

/// Most of the largest event that is accepted.
const DATA_BYTES: usize = 960_000;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), Duration::ZERO).await?;
    let attacker = arena.attacker.clone();
    attacker.subscribe(&json!({ "url": format!("{base}/large"), "event_types": ["large"] })).await?;
    attacker.post_event(&json!({ "id": "large", "type": "large", "data": "x".repeat(DATA_BYTES) })).await?;
    arena.started(1).await?;
    arena.alone().await?;
    let (address, tally) = (arena.server.address().to_owned(), arena.tally.clone());
    // The event is read and its answer is made, but not sent: the attacker needs no bandwidth.
    let key = attacker.key();
    let request = format!("HEAD /v1/events/large HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n");
    let lanes = (0..arena.size.pick(100, 400)).map(|lane| {
        let (address, request, tally) = (&address, request.as_bytes(), &tally);
        async move {
            let mut stream = connect(lane, address).await?;
            loop {
                stream.write_all(request).await?;
                let status = read_head(&mut stream).await?;
                ensure!(status == "200" || status == "429", "a large event was answered with {status}");
                drop(tally.start());
            }
        }
    });
    let before = arena.tally.mark().started;
    arena.beside(async { join_all(lanes).await.into_iter().collect() }).await?;
    let answers = arena.tally.mark().started - before;
    arena.expect(answers > 100, || format!("only {answers} requests of the attacker were answered"));
    arena.count(format!("{answers} large events read"));
    Ok(())
}

/// Reads an answer without a body, and returns its status.
async fn read_head(stream: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read_buf(&mut head).await?;
        ensure!(read > 0, "the server closed the connection");
    }
    Ok(String::from_utf8_lossy(head.get(9..12).unwrap_or_default()).into_owned())
}
