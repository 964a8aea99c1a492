//! A stranger: requests without a key, garbage, large bodies and two keys, as fast as the server answers.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::arena::Arena;
use super::idle_connections::connect;

/// How many connections are busy at a time.
const LANES: usize = 32;
const LARGE_BYTES: usize = 4 << 20;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    arena.alone().await?;
    let address = arena.server.address().to_owned();
    let requests = requests();
    let answers: RefCell<BTreeMap<String, usize>> = RefCell::default();
    let lanes = (0..LANES).map(|lane| {
        let (address, request, answers) = (&address, &requests[lane % requests.len()], &answers);
        async move {
            loop {
                // A connection that is refused or reset is an answer too.
                let status = ask(lane, address, request).await.unwrap_or_else(|_| "reset".to_owned());
                *answers.borrow_mut().entry(status).or_default() += 1;
            }
        }
    });
    arena.beside(async { join_all(lanes).await.into_iter().collect() }).await?;
    let answers = answers.into_inner();
    let bad =
        answers.keys().any(|status| status.starts_with('2') || status.starts_with('5') && status != "503");
    arena.expect(!answers.is_empty() && !bad, || format!("answers to the stranger: {answers:?}"));
    arena.count(format!("answers to the stranger by status: {answers:?}"));
    Ok(())
}

fn requests() -> Vec<Vec<u8>> {
    let post = |headers: &str, length: usize| {
        format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n")
            .into_bytes()
    };
    let large = |headers: &str| [post(headers, LARGE_BYTES), vec![b'x'; LARGE_BYTES]].concat();
    vec![
        post("", 0),
        b"\x00\xff\x16\x03 not a request at all\r\n\r\n".to_vec(),
        large(""),
        large("authorization: Bearer hf_nobody\r\n"),
        post("authorization: Bearer hf_nobody\r\nauthorization: Bearer hf_other\r\n", 0),
    ]
}

/// The status of the answer.
async fn ask(lane: usize, address: &str, request: &[u8]) -> Result<String> {
    let mut stream = connect(lane, address).await?;
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(request).await;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(String::from_utf8_lossy(&head[9..]).into_owned())
}
