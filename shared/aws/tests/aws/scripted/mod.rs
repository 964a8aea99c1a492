//! An endpoint with scripted responses: an emulator does not fail on request.

use std::sync::{Arc, Mutex};

use aws_sdk_sqs::Client;
use holdfast_aws::connect::{self, Timeouts};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A status and a body.
pub(crate) type Response = (u16, Value);
type Script = dyn Fn(usize, &Request) -> Response + Send + Sync;

#[derive(Clone)]
pub(crate) struct Request {
    /// `SendMessageBatch` and so on.
    pub(crate) action: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn entries(&self) -> &[Value] {
        self.body["Entries"].as_array().map_or(&[], Vec::as_slice)
    }
}

#[derive(Clone)]
pub(crate) struct Endpoint {
    requests: Arc<Mutex<Vec<Request>>>,
    script: Arc<Script>,
}

/// Responds by the script, which gets the number of earlier requests.
pub(crate) async fn scripted(
    timeouts: Timeouts,
    script: impl Fn(usize, &Request) -> Response + Send + Sync + 'static,
) -> (Client, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = Endpoint { requests: Arc::default(), script: Arc::new(script) };
    let serving = endpoint.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serving.clone().respond(stream));
        }
    });
    (Client::new(&connect::to_emulator(&url, timeouts).await), endpoint)
}

impl Endpoint {
    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    async fn respond(self, mut stream: TcpStream) {
        let request = read(&mut stream).await;
        let before = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let (status, body) = (self.script)(before, &request);
        let body = body.to_string();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

async fn read(stream: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    let head_end = loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the client went away");
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let header = |name: &str| {
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
            .unwrap_or_default()
    };
    let length: usize = header("content-length").parse().unwrap();
    let mut body = bytes.split_off(head_end);
    while body.len() < length {
        assert!(stream.read_buf(&mut body).await.unwrap() > 0, "the client went away");
    }
    let action = header("x-amz-target").rsplit('.').next().unwrap_or_default().to_owned();
    Request { action, body: serde_json::from_slice(&body).unwrap() }
}

/// Takes every entry except those with a `fault`: a code, and whether it is the sender's fault.
pub(crate) fn taken_except(
    request: &Request,
    fault: impl Fn(&Value) -> Option<(&'static str, bool)>,
) -> Response {
    let (mut taken, mut failed) = (Vec::new(), Vec::new());
    for entry in request.entries() {
        let id = &entry["Id"];
        match fault(entry) {
            None => taken.push(json!({ "Id": id, "MessageId": "m", "MD5OfMessageBody": "-" })),
            Some((code, sender)) => failed.push(json!({ "Id": id, "Code": code, "SenderFault": sender })),
        }
    }
    (200, json!({ "Successful": taken, "Failed": failed }))
}

/// A whole request that fails.
pub(crate) fn failed(status: u16, code: &str) -> Response {
    (status, json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "as scripted" }))
}
