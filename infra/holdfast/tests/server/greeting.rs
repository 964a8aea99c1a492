//! The commands that are printed at the start work.

use std::io::{Read, Write};
use std::net::TcpStream;

use holdfast_e2e::waiting::{SOON, until};
use serde_json::Value;

use crate::process::Server;

/// Does what `curl -s URL [-H '…'] [-d '…']` would do. Returns the body.
fn run_curl(line: &str) -> String {
    let quoted = |flag: &str| {
        let (_, rest) = line.split_once(&format!("{flag} '"))?;
        Some(rest.split_once('\'').expect("a closing quote").0)
    };
    let url = line.strip_prefix("curl -s ").and_then(|rest| rest.split(' ').next()).expect("a URL");
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a path");
    let data = quoted("-d");
    let method = if data.is_some() { "POST" } else { "GET" };
    let mut request = format!("{method} /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(header) = quoted("-H") {
        request += &format!("{header}\r\n");
    }
    if let Some(data) = data {
        let length = data.len();
        request += &format!(
            "content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{data}"
        );
    } else {
        request += "\r\n";
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a complete answer");
    assert!(head.starts_with("HTTP/1.1 2"), "{line}: {answer}");
    body.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_lines_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let mut lines =
        std::iter::from_fn(|| Some(server.process.line())).filter(|line| line.starts_with("curl -s http"));
    let [subscribe, post, look] = [(); 3].map(|()| lines.next().unwrap());
    run_curl(&subscribe);
    run_curl(&post);
    let seen = until("the built-in receiver shows the event", SOON, async || {
        let seen: Value = serde_json::from_str(&run_curl(&look))?;
        Ok((seen["received"] == 1).then_some(seen))
    });
    let seen = seen.await.unwrap();
    assert!(seen["requests"][0]["body"].as_str().unwrap().contains("order.created"), "{seen}");
}
