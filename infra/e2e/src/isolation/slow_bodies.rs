//! Memory: one tenant sends many large posts at the same time, and never sends the end of them.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::arena::Arena;
use super::idle_connections::connect;

/// All together, their bodies are several times as large as what one tenant may hold.
const CONNECTIONS: usize = 400;
const BODY_BYTES: usize = 1_000_000;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    arena.alone().await?;
    let address = arena.server.address().to_owned();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {BODY_BYTES}\r\n\r\n",
        arena.attacker.key()
    );
    let unfinished = [head.into_bytes(), vec![b' '; BODY_BYTES - 1]].concat();
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let attack = async {
        for status in join_all((0..CONNECTIONS).map(|number| post(number, &address, &unfinished))).await {
            *answers.entry(status?).or_default() += 1;
        }
        Ok(())
    };
    arena.beside_all_of(attack).await?;
    let of = |status: &str| answers.get(status).copied().unwrap_or(0);
    let (slow, refused) = (of("408"), of("429"));
    arena.expect(slow > 0 && refused > slow && slow + refused == CONNECTIONS, || {
        format!("the attacker held more than its share: {answers:?}")
    });
    arena.count(format!("answers to {CONNECTIONS} slow posts by status: {answers:?}"));
    Ok(())
}

/// The status of the answer, which comes although the body never ends.
async fn post(number: usize, address: &str, unfinished: &[u8]) -> Result<String> {
    let mut stream = connect(number, address).await?;
    stream.write_all(unfinished).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(String::from_utf8_lossy(&head[9..]).into_owned())
}
