//! The server under test: one process after the other on the same data folder.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Attempts and leases are short, so that what a kill interrupts is repeated soon; nothing that is done is removed during the run.
const FLAGS: [&str; 8] = [
    "--http-timeout-ms",
    "2000",
    "--function-timeout-ms",
    "5000",
    "--keep-days",
    "365",
    "--log-level",
    "warn",
];
/// A write beyond a limit on the size of files fails, instead of ending the process.
const WITHOUT_SIGNAL: &str = "trap '' XFSZ && exec \"$0\" \"$@\"";

pub(super) struct Server {
    binary: PathBuf,
    speed: u32,
    folder: PathBuf,
    running: Mutex<Running>,
}

struct Running {
    child: Child,
    /// Kept open, because a process may not write to a pipe without a reader.
    _out: BufReader<ChildStdout>,
    base: String,
    key: String,
}

impl Server {
    pub(super) async fn start(binary: &Path, speed: u32, folder: PathBuf) -> Result<Server> {
        let running = Mutex::new(spawn(binary, speed, &folder).await?);
        Ok(Server { binary: binary.to_owned(), speed, folder, running })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has another port after each restart.
    pub(super) fn base(&self) -> String {
        self.running().base.clone()
    }

    pub(super) fn operator_key(&self) -> String {
        self.running().key.clone()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.running().child)
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid(), signal).with_context(|| format!("{signal:?} cannot be sent"))
    }

    /// Waits for its end, after it was killed or told to end. Returns whether it ended as it should.
    pub(super) async fn wait(&self) -> Result<bool> {
        crate::waiting::until("the server ends", crate::waiting::SOON, async || {
            Ok(self.running().child.try_wait()?)
        })
        .await
        .map(|status| status.success())
    }

    pub(super) async fn start_again(&self) -> Result<()> {
        let started = spawn(&self.binary, self.speed, &self.folder).await?;
        *self.running() = started;
        Ok(())
    }

    /// The end of the log, for messages about a failure.
    pub(super) fn log(&self) -> String {
        let log = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(4_000)..]).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut running = self.running();
        let _ = running.child.kill();
        let _ = running.child.wait();
    }
}

async fn spawn(binary: &Path, speed: u32, folder: &Path) -> Result<Running> {
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = Command::new("sh");
    command.args(["-c", WITHOUT_SIGNAL]).arg(binary);
    command.args(["dev", "--listen", "127.0.0.1:0", "--speed", &speed.to_string()]).args(FLAGS);
    command.arg("--data").arg(folder.join("data"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("no standard output")?);
    // The first two lines of the greeting: the address, and the key. A process that ends closes its output.
    let greeting = tokio::task::spawn_blocking(move || {
        let lines = out.by_ref().lines().take(2).collect::<Result<Vec<_>, _>>();
        lines.map(|lines| (lines, out))
    });
    let (greeting, out) = greeting.await??;
    ensure!(greeting.len() == 2, "the server does not start");
    let base = greeting[0].split(' ').find(|word| word.starts_with("http://")).context("no address")?;
    let key = greeting[1].strip_prefix("Key: ").context("no key")?;
    Ok(Running { child, _out: out, base: base.to_owned(), key: key.to_owned() })
}
