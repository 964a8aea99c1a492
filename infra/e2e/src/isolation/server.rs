//! A `holdfast serve` process on an empty data folder, which ends with its attack.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The receivers of the suite are on this machine and have no certificate.
const ALLOWED: [&str; 4] = ["--allow-target", "127.0.0.0/8", "--http-targets", "allow"];

/// What an attack needs of its server.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The `holdfast` binary.
    pub(super) binary: PathBuf,
    /// How many first attempts run at the same time.
    pub(super) slots: usize,
    /// Soft and hard limit on open files; `None` for those of this process.
    pub(super) files: Option<(u32, u32)>,
}

pub(super) struct Server {
    settings: Settings,
    child: Child,
    pub(super) base: String,
    pub(super) operator: String,
    folder: TempDir,
}

impl Server {
    pub(super) async fn start(settings: Settings) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let (child, base) = spawn(&settings, folder.path()).await?;
        let operator = std::fs::read_to_string(folder.path().join("data/operator-key"))?.trim().to_owned();
        Ok(Server { settings, child, base, operator, folder })
    }

    /// Kills it without warning and starts it on the same data, on a new port.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        (self.child, self.base) = spawn(&self.settings, self.folder.path()).await?;
        Ok(())
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The address of the API.
    pub(super) fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// The most memory that the process has used at a time since its start.
    pub(super) fn peak_memory_mb(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak memory")?;
        Ok(peak.trim().trim_end_matches(" kB").parse::<u64>()? / 1_024)
    }

    /// The end of the log, for messages about a failure.
    pub(super) fn log(&self) -> String {
        let log = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2_000)..]).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn spawn(settings: &Settings, folder: &Path) -> Result<(Child, String)> {
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = command(settings);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]).args(ALLOWED);
    command.arg("--data").arg(folder.join("data"));
    command.args(["--first-concurrency", &settings.slots.to_string()]);
    command.args(["--retry-concurrency", &(settings.slots / 4).max(1).to_string()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let out = child.stdout.take().context("no standard output")?;
    // The greeting has two lines: the address, and the file of the operator key. A process that ends closes its output.
    let greeting = tokio::task::spawn_blocking(move || {
        BufReader::new(out).lines().take(2).collect::<Result<Vec<_>, _>>()
    });
    let greeting = greeting.await??;
    let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    ensure!(greeting.len() == 2, "{:?} does not start: {}", settings.binary, log());
    let base = greeting[0].split(' ').find(|word| word.starts_with("http://")).context("no address")?;
    Ok((child, base.to_owned()))
}

fn command(settings: &Settings) -> Command {
    let Some((soft, hard)) = settings.files else { return Command::new(&settings.binary) };
    let mut command = Command::new("sh");
    let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(&settings.binary);
    command
}
