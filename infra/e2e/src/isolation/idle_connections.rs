//! Files and sockets: more idle connections than the soft limit on open files, slow readers and slow writers, all without a key.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::arena::Arena;

/// Of the server. The hard limit is enough for all of its slots, but for few connections more than the attacker opens.
pub(super) const FILES: (u32, u32) = (1_024, 4_096);
const IDLE: usize = 1_100;
const SLOW: usize = 50;
/// Each address may open an eighth of all connections.
const PEERS: usize = 4;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    // This process opens as many connections as the server.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    arena.alone().await?;
    let address = arena.server.address().to_owned();
    let mut idle = Vec::new();
    for number in 0..IDLE {
        idle.push(connect(number, &address).await?);
    }
    let slow = (0..SLOW).map(|number| slow_writer(number, &address)).collect::<Vec<_>>();
    let readers = (0..SLOW).map(|number| slow_reader(number, &address)).collect::<Vec<_>>();
    let healthy = arena.victim.tenant.clone();
    let probes = std::cell::Cell::new(0_usize);
    let attack = async {
        let ask = async {
            loop {
                healthy.get("/healthz").await?;
                probes.set(probes.get() + 1);
            }
        };
        let (_, _, asked): (_, _, Result<()>) = tokio::join!(join_all(slow), join_all(readers), ask);
        asked
    };
    arena.beside(attack).await?;
    drop(idle);
    let probes = probes.get();
    arena.expect(probes > 0, || "/healthz was never answered".to_owned());
    arena.count(format!(
        "{IDLE} idle connections, {SLOW} slow writers and readers, {probes} answers of /healthz"
    ));
    Ok(())
}

/// Connects from one of a few addresses of this machine other than the victim's.
pub(super) async fn connect(number: usize, address: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("127.0.0.{}:0", 2 + number % PEERS).parse()?)?;
    socket.connect(address.parse()?).await.with_context(|| format!("connection {number}"))
}

/// Sends a head byte by byte, until the server closes the connection; then again.
async fn slow_writer(number: usize, address: &str) -> Result<()> {
    loop {
        let mut stream = connect(number, address).await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        while stream.write_all(b"G").await.is_ok() {
            ticks.tick().await;
        }
    }
}

/// Asks for large answers and reads none of them, until the server closes the connection; then again.
async fn slow_reader(number: usize, address: &str) -> Result<()> {
    loop {
        let mut stream = connect(number, address).await?;
        let request = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20);
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        while stream.write_all(request.as_bytes()).await.is_ok() {
            ticks.tick().await;
        }
    }
}
