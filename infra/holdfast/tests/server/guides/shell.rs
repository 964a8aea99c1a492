//! Runs the commands of a guide in order, on the server that the guide starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::waiting::{SOON, until};
use serde_json::Value;

use super::fences::Block;
use crate::process::Process;

/// The data folder in the guides. Each guide empties it before it starts Holdfast.
const GUIDE_DATA: &str = "/tmp/holdfast-guide";
/// The address of the server in the guides. The test uses a free port instead.
const GUIDE_BASE: &str = "http://127.0.0.1:8080";
/// A placeholder that the reader replaces with a value from an answer, the field of that value, and its prefix.
const PLACEHOLDERS: [(&str, &str, &str); 6] = [
    ("SUBSCRIPTION_ID", "id", "sub_"),
    ("DELIVERY_ID", "id", "dlv_"),
    ("URL_ID", "url_id", "url_"),
    ("REPLAY_ID", "id", "job_"),
    ("KEY_ID", "id", "key_"),
    ("NEW_KEY", "key", "hf_"),
];
/// Prints the answer, and fails if the status is neither 2xx nor the one in the comment after the command.
const PRELUDE: &str = r##"set -euo pipefail
curl() {
  local status
  status=$(command curl --silent --show-error --output answer --write-out '%{http_code}' "$@")
  cat answer
  echo
  case "$status" in ${EXPECTED:-2??}) ;; *) echo "curl $*: $status, expected ${EXPECTED:-2xx}" >&2; return 1 ;; esac
}
holdfast() { "$HOLDFAST_PROGRAM" "$@" | tee answer; }
"##;
/// Parts of commands that change something.
const WRITES: [&str; 8] =
    ["-d ", "-X ", "--data", "holdfast send", "holdfast trigger", " create ", "holdfast replay", " freeze "];

pub(super) struct Shell {
    /// The working folder of the commands.
    folder: PathBuf,
    /// Stands in for `GUIDE_DATA`.
    data: String,
    server: Option<RunningServer>,
    /// All `export` lines of the page so far.
    exports: String,
    /// All answers of the page so far, for the placeholders.
    answers: Vec<Value>,
}

struct RunningServer {
    process: Process,
    base: String,
}

impl Shell {
    pub(super) fn new(folder: &Path) -> Shell {
        let data = folder.join("data").to_str().expect("a UTF-8 path").to_owned();
        Shell { folder: folder.to_owned(), data, server: None, exports: String::new(), answers: Vec::new() }
    }

    /// Stops the server, as every guide asks the reader to, and forgets the variables. The data folder stays as it is.
    pub(super) fn begin_page(&mut self) {
        self.server = None;
        self.exports.clear();
        self.answers.clear();
    }

    /// Runs a block. If it only reads, repeats it until the answer to its last command is the one shown.
    pub(super) async fn run(&mut self, block: &Block, shown: Option<&Value>) -> Result<()> {
        if let Some((before, start)) = split_start(&block.text) {
            return self.start_server(before, start);
        }
        let script = self.script(&block.text)?;
        let Some(shown) = shown else { return self.run_once(&script).map(|_| ()) };
        let commands = &block.text;
        let only_reads = !WRITES.iter().any(|part| commands.contains(part));
        if !only_reads {
            let last = self.run_once(&script)?;
            ensure!(super::shown::agrees(shown, &last), "the answer is {last}, but the page shows {shown}");
            return Ok(());
        }
        let mut last = Value::Null;
        let agreed = until("the answer is as shown", SOON, async || {
            last = self.run_once(&script)?;
            Ok(super::shown::agrees(shown, &last).then_some(()))
        });
        agreed.await.with_context(|| format!("the answer is {last}, but the page shows {shown}"))
    }

    /// Runs the lines before `cargo run … -- ARGS`, then starts Holdfast with these arguments on a free port.
    fn start_server(&mut self, before: &str, start: &str) -> Result<()> {
        let before = before.replace(GUIDE_DATA, &self.data);
        self.run_once(&format!("set -euo pipefail\n{before}"))?;
        ensure!(!Path::new(&self.data).exists(), "the page does not start from an empty data folder");
        let (_, args) = start.split_once(" -- ").context("`cargo run` without arguments for Holdfast")?;
        let args = args.trim().replace(GUIDE_DATA, &self.data);
        ensure!(args.contains(&self.data), "the page does not start Holdfast with --data {GUIDE_DATA}");
        let mut args: Vec<&str> = args.split(' ').collect();
        match args.iter().position(|arg| *arg == "--listen") {
            Some(listen) => *args.get_mut(listen + 1).context("--listen without a value")? = "127.0.0.1:0",
            None => args.extend(["--listen", "127.0.0.1:0"]),
        }
        args.extend(["--log-level", "warn"]);
        let process = Process::spawn(&args);
        let greeting = process.line();
        let base = greeting.split(' ').find(|word| word.starts_with("http://"));
        let base = base.with_context(|| format!("no address in {greeting:?}"))?.to_owned();
        self.server = Some(RunningServer { process, base });
        Ok(())
    }

    /// Returns the block as bash runs it, with the real address, folder and ids.
    fn script(&mut self, text: &str) -> Result<String> {
        let server = self.server.as_ref().context("the page does not start Holdfast before this command")?;
        let mut text = text.replace(GUIDE_BASE, &server.base).replace(GUIDE_DATA, &self.data);
        for (name, field, prefix) in PLACEHOLDERS {
            if text.contains(name) {
                let value = self.answers.iter().rev().find_map(|answer| find(answer, field, prefix));
                text = text
                    .replace(name, &value.with_context(|| format!("no answer so far contains a {name}"))?);
            }
        }
        for line in text.lines().filter(|line| line.starts_with("export ")) {
            self.exports += &format!("{line}\n");
        }
        Ok(format!("{PRELUDE}{}{}", self.exports, with_expected_statuses(&text)))
    }

    /// Returns the answer to the last command, or null if it is not JSON.
    fn run_once(&mut self, script: &str) -> Result<Value> {
        let answer = self.folder.join("answer");
        let _ = fs::remove_file(&answer);
        let output = Command::new("bash")
            .args(["-c", script])
            .env("HOLDFAST_PROGRAM", env!("CARGO_BIN_EXE_holdfast"))
            .current_dir(&self.folder)
            .output()?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            let server_log = self.server.as_ref().map(|server| server.process.stderr()).unwrap_or_default();
            bail!("{stderr}\nthe answers: {stdout}\nthe log of the server: {server_log}");
        }
        self.answers.extend(stdout.lines().filter_map(|line| serde_json::from_str(line).ok()));
        let last = fs::read_to_string(&answer).unwrap_or_default();
        Ok(serde_json::from_str(&last).unwrap_or_default())
    }
}

/// Splits a block that starts Holdfast into the lines before `cargo run`, and that line.
fn split_start(text: &str) -> Option<(&str, &str)> {
    let start = text.lines().find(|line| line.starts_with("cargo run"))?;
    Some((text.split_once(start)?.0, start))
}

/// Returns the first string with this prefix in the given field or in `id`, at any depth.
fn find(answer: &Value, field: &str, prefix: &str) -> Option<String> {
    match answer {
        Value::Object(fields) => {
            let named = |name: &str| fields.get(name)?.as_str().filter(|text| text.starts_with(prefix));
            let direct = named(field).or_else(|| named("id")).map(str::to_owned);
            direct.or_else(|| fields.values().find_map(|value| find(value, field, prefix)))
        }
        Value::Array(items) => items.iter().find_map(|value| find(value, field, prefix)),
        _ => None,
    }
}

/// Makes `curl … # 409` expect a 409.
fn with_expected_statuses(text: &str) -> String {
    let mut script = String::new();
    for line in text.lines() {
        let status = line.rsplit_once(" # ").and_then(|(_, comment)| comment.get(..3));
        script += &format!("{line}\n");
        if let Some(status) = status.filter(|status| status.parse::<u16>().is_ok()) {
            let at = script.rfind("curl ").expect("a status follows a curl command");
            script.insert_str(at, &format!("EXPECTED={status} "));
        }
    }
    script
}
