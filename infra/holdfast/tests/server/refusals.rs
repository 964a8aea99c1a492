//! A start that cannot work says why, and ends.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use holdfast_e2e::Receiver;

use crate::process::{Process, Server};

const SOON: Duration = Duration::from_secs(30);

/// Starts what must not start, and answers what it said.
pub(crate) async fn refused(args: &[&str]) -> String {
    let mut process = Process::spawn(args);
    let status = process.exit(SOON).await;
    assert!(!status.success(), "it started and ended well: {args:?}");
    // The pipe is read by a thread, which may need a moment longer than the process.
    let said = holdfast_e2e::waiting::until("it says why", SOON, async || {
        Ok(Some(process.stderr()).filter(|text| text.contains("holdfast: ") || text.contains("error: ")))
    });
    let said = said.await.unwrap();
    assert!(!said.contains("panicked"), "{said}");
    said
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
    let said = refused(&["dev", "--listen", &address, "--data", data.to_str().unwrap()]).await;
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
    assert!(!data.exists(), "something was written before the port was known to be free");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "a regular file").unwrap();
    let data = file.join("data");
    let said = refused_with(&data).await;
    assert!(said.contains(data.to_str().unwrap()), "{said}");
}

#[tokio::test]
async fn a_corrupt_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("holdfast.db");
    let garbage = "garbage ".repeat(1_000);
    fs::write(&file, &garbage).unwrap();
    let said = refused_with(folder.path()).await;
    assert!(said.contains("holdfast.db"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), garbage, "the file was changed");
}

#[tokio::test]
async fn a_newer_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&Receiver::start().await.unwrap());
    assert_eq!(host.get("/healthz").await.unwrap().status, 200);
    // Ended in order, so that everything is in the one file.
    server.terminate();
    let status = server.process.exit(SOON).await;
    assert!(status.success(), "{status}: {}", server.process.stderr());
    let path = folder.path().join("holdfast.db");
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    // Where a database of this kind keeps the version of its schema.
    file.seek(SeekFrom::Start(60)).unwrap();
    file.write_all(&900_u32.to_be_bytes()).unwrap();
    drop(file);
    let said = refused_with(folder.path()).await;
    assert!(said.contains("holdfast.db") && said.contains("900"), "{said}");
}

#[tokio::test]
async fn a_second_start_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let said = refused_with(folder.path()).await;
    assert!(said.contains(folder.path().to_str().unwrap()), "{said}");
    let host = server.host(&Receiver::start().await.unwrap());
    assert_eq!(host.get("/v1/urls").await.unwrap().status, 200);
}

#[tokio::test]
async fn all_bad_flags_are_named_together() {
    let said = refused(&["dev", "--listen", "0.0.0.0:0", "--speed", "0", "--http-timeout-ms", "40000"]).await;
    for named in ["0.0.0.0:0", "--speed", "timeout"] {
        assert!(said.contains(named), "{named} is not named: {said}");
    }
    assert!(said.lines().count() >= 3, "{said}");
    let said = refused(&["dev", "--no-such-flag"]).await;
    assert!(said.contains("--no-such-flag"), "{said}");
}
