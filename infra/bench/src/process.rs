//! The processes that are measured: Holdfast on an empty data folder, and the relay.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::measure::{self, Memory};

/// Subscriptions that are created at the same time.
const AT_ONCE: usize = 16;

pub(crate) struct Process {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Process {
    /// The first line that it prints names its address.
    fn start(command: &mut Command) -> Result<Process> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let address = line.split_whitespace().map(|word| word.trim_start_matches("http://"));
        let address = address.filter(|word| word.starts_with("127.0.0.1:")).map(ToOwned::to_owned).next();
        Ok(Process { address: address.with_context(|| format!("{command:?} does not start"))?, child })
    }

    pub(crate) fn relay(target: &str) -> Result<Process> {
        Process::start(Command::new(std::env::current_exe()?).args(["relay", target]))
    }

    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        measure::cpu_time(self.child.id())
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        measure::memory(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `holdfast serve` on a folder of its own.
pub(crate) struct Holdfast {
    binary: PathBuf,
    arguments: Vec<&'static str>,
    pub(crate) process: Process,
    folder: TempDir,
    /// An admin key of the tenant `bench`.
    pub(crate) key: String,
    client: reqwest::Client,
}

impl Holdfast {
    pub(crate) async fn start(binary: &Path, arguments: &[&'static str]) -> Result<Holdfast> {
        let folder = tempfile::tempdir()?;
        let process = spawn(binary, arguments, folder.path())?;
        let operator = fs::read_to_string(folder.path().join("data/operator-key"))?.trim().to_owned();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let (binary, arguments) = (binary.to_owned(), arguments.to_vec());
        let mut holdfast = Holdfast { binary, arguments, process, folder, key: operator, client };
        let key = json!({ "tenant": "bench", "role": "admin" });
        holdfast.key = text(&holdfast.call("POST", "/v1/keys", Some(key)).await?, "key")?;
        Ok(holdfast)
    }

    /// Kills it without warning and starts it again. Returns how long it took until it listened.
    pub(crate) fn restart(&mut self) -> Result<Duration> {
        self.process.child.kill()?;
        self.process.child.wait()?;
        let started = measure::now();
        self.process = spawn(&self.binary, &self.arguments, self.folder.path())?;
        Ok(started.elapsed())
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        self.call_with(&self.key, method, path, body).await
    }

    async fn call_with(&self, key: &str, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let url = format!("http://{}{path}", self.process.address);
        let request = self.client.request(method.parse()?, url).bearer_auth(key);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// An admin key of another tenant.
    pub(crate) async fn new_key(&self, tenant: &str) -> Result<String> {
        let operator = fs::read_to_string(self.data().join("operator-key"))?;
        let body = json!({ "tenant": tenant, "role": "admin" });
        text(&self.call_with(operator.trim(), "POST", "/v1/keys", Some(body)).await?, "key")
    }

    /// So many subscriptions of the tenant with this key.
    pub(crate) async fn subscribe_all(
        &self,
        key: &str,
        count: u64,
        body: impl Fn(u64) -> Value,
    ) -> Result<()> {
        let calls = (0..count).map(|n| self.call_with(key, "POST", "/v1/subscriptions", Some(body(n))));
        stream::iter(calls).buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await
    }

    /// How many are in the queue.
    pub(crate) async fn first_attempts(&self) -> Result<u64> {
        let url = format!("http://{}/metrics", self.process.address);
        let page = self.client.get(url).send().await?.text().await?;
        let line = page.lines().find_map(|line| line.strip_prefix("holdfast_messages{queue=\"first\"} "));
        Ok(line.context("no number of messages")?.parse()?)
    }

    /// Returns the id of the URL.
    pub(crate) async fn subscribe(&self, url: &str, event_type: &str) -> Result<String> {
        let body = json!({ "url": url, "event_types": [event_type] });
        text(&self.call("POST", "/v1/subscriptions", Some(body)).await?, "url_id")
    }
}

fn spawn(binary: &Path, arguments: &[&str], folder: &Path) -> Result<Process> {
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]).args(arguments);
    // The receivers are on this machine and have no certificate.
    command.args(["--allow-target", "127.0.0.0/8", "--http-targets", "allow"]);
    command.arg("--data").arg(folder.join("data")).stderr(log);
    Process::start(&mut command)
}

fn text(value: &Value, name: &str) -> Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
