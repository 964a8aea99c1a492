//! The limit on open files, and connections that do nothing.

use std::process::Command;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Receiver, Reply};
use rustix::process::{Resource, Rlimit, prlimit};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::process::{Process, Server, get_on};
use crate::serve::{THIS_MACHINE, tenant_of};

const SMALL: [&str; 4] = ["--first-concurrency", "16", "--retry-concurrency", "16"];

/// A command that runs Holdfast with these limits on open files.
fn limited(soft: u32, hard: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_holdfast")]);
    command
}

async fn connect_from(last: u8, server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("127.0.0.{last}:0").parse().unwrap()).unwrap();
    socket.connect(server.base.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_limit_that_is_too_small_for_the_attempts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut process =
        Process::run(limited(1_024, 1_024).args(["serve", "--listen", "127.0.0.1:0", "--data", data]));
    assert!(!process.exit(SOON).await.success());
    let output = until("it reports an error", SOON, async || {
        Ok(Some(process.stderr()).filter(|text| text.contains("holdfast: ")))
    });
    let output = output.await.unwrap();
    for named in ["may open 1024 files", "1280 concurrent attempts", "need 2852", "--first-concurrency"] {
        assert!(output.contains(named), "{named} is not reported: {output}");
    }
}

/// More idle connections than the soft limit allows, without a key: neither the API nor the attempts of others run out of files.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_take_no_files_from_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut command = limited(200, 600);
    let server = Server::serve_as(&mut command, folder.path(), &[&THIS_MACHINE[..], &SMALL].concat());
    let host = tenant_of(&server, &receiver).await;
    let scene = Scene::new(&host, "files");
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    let mut idle = Vec::new();
    for peer in [2, 3, 4, 5] {
        for _ in 0..100 {
            idle.push(connect_from(peer, &server).await);
        }
    }
    assert_eq!(host.get("/healthz").await.unwrap().status, 200);
    scene.post_many("good", 20).await.unwrap();
    scene.arrivals(&good.path, 20, SOON).await.unwrap();
    let url = scene.url(&good.url_id).await.unwrap();
    assert_eq!((&url["state"], &url["window_failures"]), (&"enabled".into(), &0.into()), "{url}");
}

/// Without files, the server waits between two tries to accept, and goes on when there are some.
#[tokio::test(flavor = "multi_thread")]
async fn accepting_pauses_without_files_and_goes_on_with_them() {
    const FAILED: &str = "could not be accepted";
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(folder.path(), &[]);
    let before =
        prlimit(Some(server.pid()), Resource::Nofile, Rlimit { current: Some(1), ..limit() }).unwrap();
    let started = Instant::now();
    let waiting = connect_from(2, &server).await;
    let log = || Ok(Some(server.process.stderr()).filter(|log| log.matches(FAILED).count() >= 3));
    until("accepting fails", SOON, async || log()).await.unwrap();
    let tries = server.process.stderr().matches(FAILED).count();
    let most = started.elapsed().as_millis() / 100 + 1;
    assert!(tries as u128 <= most, "{tries} tries, and not more than {most}");
    prlimit(Some(server.pid()), Resource::Nofile, before).unwrap();
    let (answer, _) = get_on(waiting, "/healthz").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn limit() -> Rlimit {
    rustix::process::getrlimit(Resource::Nofile)
}
