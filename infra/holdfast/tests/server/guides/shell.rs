//! Runs the commands of a page, in order, against a server of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::waiting::{SOON, until};
use serde_json::Value;

use super::fences::Block;
use crate::process::{Process, Server};

/// As first-steps.md starts it.
const SPEED: u32 = 3_600;
/// Stands in the page for the address that the server of a reader has.
const SHOWN_BASE: &str = "http://127.0.0.1:8080";
/// What a page calls an id that a reader copies from an answer, the field it has there, and how it begins.
const NAMED: [(&str, &str, &str); 6] = [
    ("SUBSCRIPTION_ID", "id", "sub_"),
    ("DELIVERY_ID", "id", "dlv_"),
    ("URL_ID", "url_id", "url_"),
    ("REPLAY_ID", "id", "job_"),
    ("KEY_ID", "id", "key_"),
    ("NEW_KEY", "key", "hf_"),
];
/// Shows what was answered, and fails where the status is not the expected one: 2xx, or what the command says behind a `#`.
const PRELUDE: &str = r##"set -euo pipefail
curl() {
  local status
  status=$(command curl --silent --show-error --output answer --write-out '%{http_code}' "$@")
  cat answer
  echo
  case "$status" in ${EXPECTED:-2??}) ;; *) echo "curl $*: $status, expected ${EXPECTED:-2xx}" >&2; return 1 ;; esac
}
"##;

pub(super) struct Shell {
    /// Where a reader would be: the data of the server is in it.
    folder: PathBuf,
    server: Process,
    base: String,
    /// `export` lines so far.
    exports: String,
    answers: Vec<Value>,
}

impl Shell {
    pub(super) fn start(folder: &Path) -> Shell {
        let Server { process, base, key, .. } = develop(folder, SPEED);
        let exports = format!("export BASE={base} KEY={key}\n");
        Shell { folder: folder.to_owned(), server: process, base, exports, answers: Vec::new() }
    }

    /// Runs a block, until the answer to its last command is what is shown behind it if that can be waited for.
    pub(super) async fn run(&mut self, block: &Block, shown: Option<&Value>) -> Result<()> {
        if let Some((_, args)) = block.text.split_once(" -- ").filter(|(run, _)| run.starts_with("cargo run"))
        {
            return self.start_again(args.trim());
        }
        let script = self.script(&block.text)?;
        let Some(shown) = shown else { return self.once(&script).map(|_| ()) };
        let asks_only = !["-d ", "-X ", "--data"].iter().any(|flag| script.contains(flag));
        if !asks_only {
            let last = self.once(&script)?;
            ensure!(super::shown::agrees(shown, &last), "answered {last}, shown is {shown}");
            return Ok(());
        }
        let mut last = Value::Null;
        let agreed = until("the answer is as shown", SOON, async || {
            last = self.once(&script)?;
            Ok(super::shown::agrees(shown, &last).then_some(()))
        });
        agreed.await.with_context(|| format!("answered {last}, shown is {shown}"))
    }

    /// As the page says, in a folder of its own.
    fn start_again(&mut self, args: &str) -> Result<()> {
        self.folder = self.folder.join("again");
        fs::create_dir_all(&self.folder)?;
        match args.split(' ').collect::<Vec<_>>()[..] {
            ["--speed", speed] => {
                let Server { process, base, key, .. } = develop(&self.folder, speed.parse()?);
                self.exports = format!("export BASE={base} KEY={key}\n");
                (self.server, self.base) = (process, base);
            }
            ["serve", "--listen", _, "--data", data] => {
                let data = self.folder.join(data);
                let data = data.to_str().context("a path that is text")?;
                self.server = Process::spawn(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
                let greeting = self.server.line();
                let base = greeting.split(' ').find(|word| word.starts_with("http://"));
                self.base = base.context("no address in the greeting")?.to_owned();
                self.exports.clear();
            }
            _ => bail!("a start that no test knows: {args}"),
        }
        Ok(())
    }

    /// The block as bash gets it: with the addresses and ids that are right here.
    fn script(&mut self, text: &str) -> Result<String> {
        let mut text = text.replace(SHOWN_BASE, &self.base);
        for (name, field, prefix) in NAMED {
            if text.contains(name) {
                let id = self.answers.iter().rev().find_map(|answer| find(answer, field, prefix));
                text = text.replace(name, &id.with_context(|| format!("no answer had a {name} so far"))?);
            }
        }
        for line in text.lines().filter(|line| line.starts_with("export ")) {
            self.exports += &format!("{line}\n");
        }
        Ok(format!("{PRELUDE}{}{}", self.exports, with_expected_statuses(&text)))
    }

    /// The answer to the last command, if it is JSON.
    fn once(&mut self, script: &str) -> Result<Value> {
        let answer = self.folder.join("answer");
        let _ = fs::remove_file(&answer);
        let done = Command::new("bash").arg("-c").arg(script).current_dir(&self.folder).output()?;
        let (said, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if !done.status.success() {
            bail!("{wrong}\nit answered: {said}\nthe server says: {}", self.server.stderr());
        }
        self.answers.extend(said.lines().filter_map(|line| serde_json::from_str(line).ok()));
        let last = fs::read_to_string(&answer).unwrap_or_default();
        Ok(serde_json::from_str(&last).unwrap_or_default())
    }
}

fn develop(folder: &Path, speed: u32) -> Server {
    Server::start(&folder.join(".holdfast"), speed, &["--log-level", "warn"])
}

/// The first text of that name that begins so, or an `id` that does.
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

/// `curl … # 409` expects a 409.
fn with_expected_statuses(text: &str) -> String {
    let mut script = String::new();
    for line in text.lines() {
        let status = line.rsplit_once(" # ").and_then(|(_, comment)| comment.get(..3));
        script += &format!("{line}\n");
        if let Some(status) = status.filter(|status| status.parse::<u16>().is_ok()) {
            let at = script.rfind("curl ").expect("a status behind a call");
            script.insert_str(at, &format!("EXPECTED={status} "));
        }
    }
    script
}
