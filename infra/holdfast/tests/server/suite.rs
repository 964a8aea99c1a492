use holdfast_e2e::Receiver;

use crate::process::Server;

/// 48 hours of the schedule take a minute, and 11 retries may be late by almost 5 seconds together: a delivery expires after 52 hours.
const SPEED: u32 = 2_880;

#[tokio::test(flavor = "multi_thread")]
async fn the_black_box_suite_passes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), SPEED, &["--log-level", "warn"]);
    let host = server.host(&Receiver::start().await.unwrap());
    let report = holdfast_e2e::run(&host, None).await;
    assert!(report.failed.is_empty(), "{:#?}; the server's log: {}", report.failed, server.process.stderr());
    assert_eq!(report.passed.len(), holdfast_e2e::scenarios::all().len());
}
