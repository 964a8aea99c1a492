//! A stranger: requests without a key, garbage, large bodies, two keys, and many requests ahead, as fast as the server answers.

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
/// How many requests are sent before the first answer is read.
const AHEAD: usize = 200;

/// A kind of request, and the statuses that may answer it.
struct Kind {
    request: Vec<u8>,
    expected: &'static [&'static str],
}

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    arena.alone().await?;
    let address = arena.server.address().to_owned();
    let kinds = kinds();
    let answers: RefCell<BTreeMap<String, usize>> = RefCell::default();
    let unexpected: RefCell<Vec<String>> = RefCell::default();
    let lanes = (0..LANES).map(|lane| {
        let (address, kinds, answers, unexpected) = (&address, &kinds, &answers, &unexpected);
        async move {
            let number = lane % kinds.len();
            loop {
                // The server may also close the connection before everything is written.
                let status =
                    ask(lane, address, &kinds[number].request).await.unwrap_or_else(|_| "closed".to_owned());
                if status != "closed" && !kinds[number].expected.contains(&status.as_str()) {
                    unexpected.borrow_mut().push(format!("request {number} was answered with {status}"));
                }
                *answers.borrow_mut().entry(status).or_default() += 1;
            }
        }
    });
    arena.beside(async { join_all(lanes).await.into_iter().collect() }).await?;
    let answers = answers.into_inner();
    arena.expect(answers.contains_key("401"), || format!("the stranger was not answered: {answers:?}"));
    arena.faults.extend(unexpected.into_inner().into_iter().take(5));
    arena.count(format!("answers to the stranger by status: {answers:?}"));
    Ok(())
}

fn kinds() -> Vec<Kind> {
    let post = |headers: &str, length: usize| {
        format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n")
            .into_bytes()
    };
    let large = |headers: &str| [post(headers, LARGE_BYTES), vec![b'x'; LARGE_BYTES]].concat();
    let ahead = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(AHEAD).into_bytes();
    let two = post("authorization: Bearer hf_one\r\nauthorization: Bearer hf_two\r\n", 0);
    let garbage = b"\x00\xff\x16\x03 not a request at all\r\n\r\n".to_vec();
    vec![
        Kind { request: post("", 0), expected: &["401"] },
        Kind { request: garbage, expected: &["400"] },
        Kind { request: large(""), expected: &["401", "413"] },
        Kind { request: large("authorization: Bearer hf_wrong\r\n"), expected: &["401", "413"] },
        Kind { request: two, expected: &["400"] },
        Kind { request: ahead, expected: &["200"] },
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
