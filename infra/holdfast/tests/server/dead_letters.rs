//! Messages that cannot be read, on one machine.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Clock, QueueName};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};

use crate::process::Server;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    fn now_real(&self) -> Timestamp {
        self.now()
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_listed_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(folder.path(), Arc::new(Noon), Options::default()).unwrap();
    embedded.queue.send_raw(QueueName::Retry, b"no message".to_vec()).await.unwrap();
    embedded.close();
    drop(embedded);
    let _server = Server::start(folder.path(), 1, &[]);
    let mut list = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    list.args(["dead-letters", "list", "--data"]).arg(folder.path());
    let output = list.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 1, "{out}");
    let expected = ["due=2023-11-14T22:13:20", "from=retry", "bytes=10", "why: it cannot be decoded"];
    assert!(expected.iter().all(|part| lines[0].contains(part)), "{out}");
    assert!(!out.contains("no message"), "{out}");
}
