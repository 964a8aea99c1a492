use std::future;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::Path;
use axum::routing::{get, post};
use holdfast_api::KeyUse;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;

const SOON: Duration = Duration::from_secs(30);
/// Longer than any test waits, so that only the deadline under test can end a connection.
const NEVER: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(50);
const PATIENT: Deadlines =
    Deadlines { head: NEVER, idle: NEVER, stranger_idle: NEVER, body: NEVER, write: NEVER };
const WIDE: Bounds = Bounds { connections: 1_000, per_peer: 1_000 };
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
/// More than the buffers of both sockets take.
const LARGE: usize = 64 << 20;

struct Server {
    address: SocketAddr,
    connections: Arc<Connections>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(router: Router, bounds: Bounds, deadlines: Deadlines) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Connections::new(bounds));
        let answers = serve(listener, router, Arc::clone(&connections), deadlines, stopped).unwrap();
        let task = tokio::spawn(answers);
        Server { address, connections, stop, task }
    }

    /// With routes for a response that is large, for a body that is read to its end, and for a request with a key of a holder.
    async fn plain(bounds: Bounds, deadlines: Deadlines) -> Server {
        let router = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/key/{holder}", get(use_key))
            .route("/refused", get(|| async { StatusCode::UNAUTHORIZED }))
            .route("/large", get(|| async { vec![b'x'; LARGE] }))
            .route("/body", post(|_: Bytes| async { "whole" }))
            .route("/body/{holder}", post(use_key_and_read));
        Server::start(router, bounds, deadlines).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// From the loopback address 127.0.0.`last`, which is another peer for each number.
    async fn connect_from(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn until_open(&self, count: usize) {
        let reached = async {
            while self.connections.open() != count {
                tokio::task::yield_now().await;
            }
        };
        let open = || format!("{} are open instead of {count}", self.connections.open());
        tokio::time::timeout(SOON, reached).await.unwrap_or_else(|_| panic!("{}", open()));
    }
}

async fn use_key(Path(holder): Path<NonZeroU64>, Extension(key_use): Extension<KeyUse>) -> &'static str {
    key_use.record(holder);
    "ok"
}

async fn use_key_and_read(holder: Path<NonZeroU64>, key_use: Extension<KeyUse>, request: Request) -> Bytes {
    use_key(holder, key_use).await;
    axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default()
}

/// All that arrives until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the connection too.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("it is closed");
    String::from_utf8(bytes).unwrap()
}

/// Sends a request and returns the beginning of the response.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = tokio::time::timeout(SOON, stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// A flood of connections filled the queue of the operating system, because the threads of the requests were busy.
#[tokio::test]
async fn connections_beyond_the_bounds_are_closed_while_no_request_gets_a_thread() {
    let server = Server::plain(Bounds { connections: 1_000, per_peer: 1 }, PATIENT).await;
    let _first = server.connect().await;
    server.until_open(1).await;
    // From here on, this test keeps the only thread of the runtime.
    for _ in 0..20 {
        let mut refused = std::net::TcpStream::connect(server.address).unwrap();
        refused.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = String::new();
        refused.read_to_string(&mut answer).expect("it is closed");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    assert_eq!(server.connections.refused(), 20);
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_it_stops() {
    let started = Arc::new(Notify::new());
    let finish = Arc::new(Notify::new());
    let (s, f) = (Arc::clone(&started), Arc::clone(&finish));
    let router = Router::new().route(
        "/",
        get(|| async move {
            s.notify_one();
            f.notified().await;
            "done"
        }),
    );
    let server = Server::start(router, WIDE, Deadlines::DEFAULT).await;
    let mut idle = server.connect().await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::timeout(SOON, started.notified()).await.unwrap();
    server.stop.send(true).unwrap();
    finish.notify_one();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    tokio::time::timeout(SOON, server.task).await.unwrap().unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "an unused connection is closed");
}

#[tokio::test]
async fn idle_connections_of_one_peer_do_not_keep_another_from_being_answered() {
    let server = Server::plain(Bounds { connections: 40, per_peer: 5 }, PATIENT).await;
    let mut held = Vec::new();
    for peer in 2..=8 {
        for _ in 0..20 {
            held.push(server.connect_from(peer).await);
        }
    }
    // Seven peers hold five each, and the rest were closed.
    server.until_open(35).await;
    let mut other = server.connect_from(9).await;
    let answer = ask(&mut other, REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.connections.refused(), 7 * 15);
}

#[tokio::test]
async fn beyond_the_bound_a_connection_is_closed_at_once_and_says_why() {
    let server = Server::plain(Bounds { connections: 2, per_peer: 2 }, PATIENT).await;
    let (first, _second) = (server.connect().await, server.connect().await);
    server.until_open(2).await;
    let answer = rest(&mut server.connect().await).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("Too many connections"), "{answer}");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["status"], 503);
    drop(first);
    server.until_open(1).await;
    assert!(ask(&mut server.connect().await, REQUEST).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_without_a_request_is_dropped() {
    let server = Server::plain(WIDE, Deadlines { stranger_idle: SHORT, ..PATIENT }).await;
    assert_eq!(rest(&mut server.connect().await).await, "");
    server.until_open(0).await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_dropped() {
    let server = Server::plain(WIDE, Deadlines { head: SHORT, ..PATIENT }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    rest(&mut slow).await;
    // In the second request of a connection too, which may be idle before.
    let mut slow = server.connect().await;
    assert!(ask(&mut slow, REQUEST).await.starts_with("HTTP/1.1 200"));
    slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    rest(&mut slow).await;
    server.until_open(0).await;
}

/// Bytes that arrive one by one do not prolong the deadline.
#[tokio::test]
async fn a_head_that_trickles_is_dropped() {
    let server = Server::plain(WIDE, Deadlines { head: SHORT, ..PATIENT }).await;
    let mut slow = server.connect().await;
    slow.set_nodelay(true).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let (mut reader, mut writer) = slow.split();
    let trickle = async {
        let mut ticks = tokio::time::interval(SHORT / 10);
        while writer.write_all(b"x").await.is_ok() {
            ticks.tick().await;
        }
        future::pending::<()>().await;
    };
    let mut byte = [0];
    tokio::select! {
        () = trickle => {}
        ended = tokio::time::timeout(SOON, reader.read(&mut byte)) => {
            assert_ne!(ended.expect("it is dropped").unwrap_or(0), 1);
        }
    }
    server.until_open(0).await;
}

#[tokio::test]
async fn an_idle_connection_is_dropped_after_its_own_deadline() {
    let server = Server::plain(WIDE, Deadlines { idle: SHORT, ..PATIENT }).await;
    let mut idle = server.connect().await;
    let answer = ask(&mut idle, REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    rest(&mut idle).await;
    server.until_open(0).await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_dropped() {
    let server = Server::plain(WIDE, Deadlines { body: SHORT, ..PATIENT }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nfew").await.unwrap();
    let answer = rest(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.until_open(0).await;
}

#[tokio::test]
async fn a_peer_that_never_reads_is_dropped() {
    let server = Server::plain(WIDE, Deadlines { write: SHORT, ..PATIENT }).await;
    let mut deaf = server.connect().await;
    deaf.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // It was open: part of the response has arrived.
    tokio::time::timeout(SOON, deaf.readable()).await.unwrap().unwrap();
    server.until_open(0).await;
}

#[tokio::test]
async fn a_large_response_is_sent_whole_to_a_peer_that_reads() {
    let server = Server::plain(WIDE, Deadlines { write: Duration::from_secs(5), ..PATIENT }).await;
    let mut peer = server.connect().await;
    peer.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut peer).await.len() > LARGE);
}

/// The API counts a large response until its bytes are dropped.
#[tokio::test]
async fn the_bytes_of_a_response_live_until_the_peer_has_taken_them_or_is_gone() {
    let owner = Arc::new(vec![b'x'; LARGE]);
    // The router does not keep it alive.
    let weak = Arc::downgrade(&owner);
    let answer = move || async move { Bytes::from_owner(SharedBytes(weak.upgrade().unwrap())) };
    let router = Router::new().route("/", get(answer));
    let server = Server::start(router, WIDE, PATIENT).await;
    let mut deaf = server.connect().await;
    deaf.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::timeout(SOON, deaf.readable()).await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&owner), 2, "only a part is written");
    drop(deaf);
    server.until_open(0).await;
    assert_eq!(Arc::strong_count(&owner), 1);
}

struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[tokio::test]
async fn a_bare_line_feed_in_a_head_is_a_bad_request() {
    let server = Server::plain(WIDE, PATIENT).await;
    for bad in [
        "GET /healthz HTTP/1.1\nhost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\r\na: b\nc: d\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\n",
        "GET /healthz HTTP/1.1\nhost: x\n\n",
    ] {
        let mut peer = server.connect().await;
        let answer = ask(&mut peer, bad.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
        // In the second request of a connection too.
        let mut peer = server.connect().await;
        assert!(ask(&mut peer, REQUEST).await.starts_with("HTTP/1.1 200"));
        let answer = ask(&mut peer, bad.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
    }
    let body = b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\na\n\nb";
    assert!(ask(&mut server.connect().await, body).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::plain(WIDE, PATIENT).await;
    let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(MAX_HEAD_BYTES));
    let mut peer = server.connect().await;
    let (mut reader, mut writer) = peer.split();
    let mut bytes = vec![0; 100];
    let (length, _) = tokio::join!(reader.read(&mut bytes), writer.write_all(head.as_bytes()));
    let answer = String::from_utf8_lossy(&bytes[..length.unwrap()]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn when_strangers_hold_every_place_the_one_with_most_makes_room() {
    let server = Server::plain(Bounds { connections: 8, per_peer: 5 }, PATIENT).await;
    let mut held = Vec::new();
    for peer in [2, 2, 2, 2, 2, 3, 3, 3] {
        held.push(server.connect_from(peer).await);
    }
    server.until_open(8).await;
    let mut other = server.connect_from(4).await;
    let answer = ask(&mut other, REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(rest(&mut held[0]).await, "", "the first was idle longest");
    assert_eq!((server.connections.open(), server.connections.displaced()), (8, 1));
    // The others are as they were.
    for held in &mut held[1..] {
        assert!(ask(held, REQUEST).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn connections_with_a_key_stay_when_strangers_come() {
    let server = Server::plain(Bounds { connections: 8, per_peer: 8 }, PATIENT).await;
    let mut keyed = Vec::new();
    for holder in 1..=8 {
        let mut stream = server.connect_from(2).await;
        let answer =
            ask(&mut stream, format!("GET /key/{holder} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        keyed.push(stream);
    }
    assert!(rest(&mut server.connect_from(3).await).await.starts_with("HTTP/1.1 503"));
    for keyed in &mut keyed {
        assert!(ask(keyed, REQUEST).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn a_connection_without_a_valid_key_may_be_idle_for_less_time() {
    let server = Server::plain(WIDE, Deadlines { stranger_idle: SHORT, ..PATIENT }).await;
    let mut keyed = server.connect().await;
    assert!(ask(&mut keyed, b"GET /key/7 HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    let mut stranger = server.connect().await;
    assert!(ask(&mut stranger, REQUEST).await.starts_with("HTTP/1.1 200"));
    rest(&mut stranger).await;
    server.until_open(1).await;
    assert!(ask(&mut keyed, REQUEST).await.starts_with("HTTP/1.1 200"), "also after a request without one");
}

#[tokio::test]
async fn a_request_that_arrives_while_its_connection_makes_room_is_answered() {
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (s, f) = (Arc::clone(&started), Arc::clone(&finish));
    let wait = || async move {
        s.notify_one();
        f.notified().await;
        "done"
    };
    let server = Server::start(Router::new().route("/", get(wait)), WIDE, PATIENT).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::timeout(SOON, started.notified()).await.unwrap();
    server.connections.displace_all();
    finish.notify_one();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_holder_whose_bodies_do_not_arrive_makes_room() {
    let server = Server::plain(Bounds { connections: 8, per_peer: 8 }, PATIENT).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = server.connect_from(2).await;
        // The answer to the first request says that the next one is of this holder.
        assert!(
            ask(&mut stream, b"GET /key/7 HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 200")
        );
        stream.write_all(b"POST /body/7 HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nfew").await.unwrap();
        slow.push(stream);
    }
    tokio::time::timeout(SOON, async {
        while server.connections.receiving() != 8 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("all wait for their bodies");
    let mut other = server.connect_from(3).await;
    assert!(ask(&mut other, REQUEST).await.starts_with("HTTP/1.1 200"));
    assert_eq!((server.connections.open(), server.connections.displaced()), (8, 1));
    let ended = slow.iter_mut().map(|stream| {
        Box::pin(async move {
            rest(stream).await;
        })
    });
    // One is closed at once, without an answer; the others go on.
    futures_util::future::select_all(ended).await;
    let mut whole = 0;
    for stream in &mut slow {
        whole += usize::from(
            stream.write_all(b"7 bytes").await.is_ok()
                && stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0),
        );
    }
    assert_eq!(whole, 7);
}

#[tokio::test]
async fn a_connection_without_a_valid_key_is_closed_after_a_few_requests() {
    let server = Server::plain(WIDE, PATIENT).await;
    let mut stranger = server.connect().await;
    stranger.write_all(&REQUEST.repeat(20)).await.unwrap();
    let answers = rest(&mut stranger).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");

    let mut refused = server.connect().await;
    let request = b"GET /refused HTTP/1.1\r\nhost: x\r\n\r\n";
    refused.write_all(&request.repeat(2)).await.unwrap();
    let answers = rest(&mut refused).await;
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 1, "{answers}");

    let mut customer = server.connect().await;
    for request in 0..20 {
        let answer = ask(&mut customer, b"GET /key/7 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("close"), "{request}: {answer}");
    }
}

/// Connections that always had the next request ready delayed the requests of others, each by all of theirs.
#[tokio::test]
async fn a_request_does_not_wait_for_what_other_tenants_have_sent_ahead() {
    const TENANTS: usize = 8;
    const CONNECTIONS: usize = 400;
    let answered = Arc::new(AtomicUsize::new(0));
    let (counted, shown) = (Arc::clone(&answered), answered);
    let router = Router::new()
        .route("/key/{holder}", get(use_key))
        .route("/ahead", get(|| async move { counted.fetch_add(1, Ordering::Relaxed).to_string() }))
        .route("/before", get(|| async move { shown.load(Ordering::Relaxed).to_string() }));
    let server = Server::start(router, WIDE, PATIENT).await;
    let mut connections = Vec::new();
    for n in 0..=CONNECTIONS {
        let mut stream = server.connect().await;
        let holder = if n < CONNECTIONS { 1 + n % TENANTS } else { 1 + TENANTS };
        let request = format!("GET /key/{holder} HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(ask(&mut stream, request.as_bytes()).await.starts_with("HTTP/1.1 200"));
        connections.push(stream);
    }
    let mut last = connections.pop().unwrap();
    // Until the last request is sent, this test keeps the only thread of the runtime.
    let mut ahead: Vec<_> = connections.into_iter().map(|stream| stream.into_std().unwrap()).collect();
    for stream in &mut ahead {
        stream.write_all(&b"GET /ahead HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20)).unwrap();
    }
    let answer = ask(&mut last, b"GET /before HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let before: usize = answer.rsplit("\r\n").next().unwrap().parse().unwrap();
    assert!(before < CONNECTIONS / 4, "{before} requests that were sent ahead were answered before");
}
