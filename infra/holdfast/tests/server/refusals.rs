//! A server that cannot start says why.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use holdfast_e2e::Receiver;

use crate::process::{Process, Server};

const SOON: Duration = Duration::from_secs(30);

/// Starts a server that must not start. Returns its error output.
pub(crate) async fn refused(args: &[&str]) -> String {
    let mut process = Process::spawn(args);
    let status = process.exit(SOON).await;
    assert!(!status.success(), "it ended with success: {args:?}");
    // A thread reads the pipe, and may finish after the process.
    let output = holdfast_e2e::waiting::until("it reports an error", SOON, async || {
        Ok(Some(process.stderr()).filter(|text| text.contains("holdfast: ") || text.contains("error: ")))
    });
    let output = output.await.unwrap();
    assert!(!output.contains("panicked"), "{output}");
    output
}

async fn refused_with(data: &Path) -> String {
    refused(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]).await
}

#[tokio::test]
async fn a_port_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = folder.path().join("data");
    let output = refused(&["dev", "--listen", &address, "--data", data.to_str().unwrap()]).await;
    assert!(output.contains(&address) && output.contains("--listen"), "{output}");
    assert!(!data.exists(), "the folder was created before the port was bound");
}

#[tokio::test]
async fn a_folder_that_cannot_be_created_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "a regular file").unwrap();
    let data = file.join("data");
    let output = refused_with(&data).await;
    assert!(output.contains(data.to_str().unwrap()), "{output}");
}

#[tokio::test]
async fn a_corrupt_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("holdfast.db");
    let garbage = "garbage ".repeat(1_000);
    fs::write(&file, &garbage).unwrap();
    let output = refused_with(folder.path()).await;
    assert!(output.contains("holdfast.db"), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), garbage, "the file was changed");
}

#[tokio::test]
async fn a_newer_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&Receiver::start().await.unwrap());
    assert_eq!(host.get("/healthz").await.unwrap().status, 200);
    // Stopped in order, so that everything is in the one file.
    server.terminate();
    let status = server.process.exit(SOON).await;
    assert!(status.success(), "{status}: {}", server.process.stderr());
    let path = folder.path().join("holdfast.db");
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    // SQLite stores `user_version` at this offset.
    file.seek(SeekFrom::Start(60)).unwrap();
    file.write_all(&900_u32.to_be_bytes()).unwrap();
    drop(file);
    let output = refused_with(folder.path()).await;
    assert!(output.contains("holdfast.db") && output.contains("900"), "{output}");
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_refused_and_the_first_keeps_running() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let output = refused_with(folder.path()).await;
    assert!(output.contains(folder.path().to_str().unwrap()), "{output}");
    let host = server.host(&Receiver::start().await.unwrap());
    assert_eq!(host.get("/v1/urls").await.unwrap().status, 200);
}

#[tokio::test]
async fn all_invalid_flags_are_reported_together() {
    let output = refused(&[
        "dev",
        "--listen",
        "0.0.0.0:0",
        "--speed",
        "0",
        "--http-timeout-ms",
        "40000",
        "--release-ceiling",
        "0",
    ])
    .await;
    for named in ["0.0.0.0:0", "--speed", "timeout", "release ceiling"] {
        assert!(output.contains(named), "{named} is not reported: {output}");
    }
    assert!(output.lines().count() >= 3, "{output}");
    let output = refused(&["dev", "--no-such-flag"]).await;
    assert!(output.contains("--no-such-flag"), "{output}");
}
