//! The command line as a client of a running server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use holdfast_e2e::waiting::{SOON, until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use crate::process::{Process, Server};

/// What a command printed.
struct Printed {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Printed {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

struct Client {
    server: Server,
    folder: tempfile::TempDir,
}

impl Client {
    fn start(speed: u32) -> Client {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&folder.path().join("data"), speed, &[]);
        Client { server, folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(args).env_clear().env("HOME", self.folder.path()).current_dir(self.folder.path());
        command.env("HOLDFAST_URL", &self.server.base).env("HOLDFAST_KEY", &self.server.key);
        command
    }

    /// Runs a command that succeeds.
    async fn run(&self, args: &[&str]) -> Printed {
        let printed = run(&mut self.command(args)).await;
        assert_eq!(printed.code, Some(0), "{args:?}: {}", printed.err);
        printed
    }

    async fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).await.json()
    }

    /// Subscribes a built-in receiver.
    async fn subscribe(&self, receiver: &str) -> Value {
        let url = format!("{}/dev/receiver/{receiver}", self.server.base);
        self.json(&["subscriptions", "create", &url]).await
    }

    /// Repeats a command until what it prints is as wanted.
    async fn until(&self, args: &[&str], is_wanted: impl Fn(&Value) -> bool) -> Value {
        let found = until("the command shows it", SOON, async || {
            Ok(Some(self.json(args).await).filter(|printed| is_wanted(printed)))
        });
        found.await.unwrap()
    }
}

async fn run(command: &mut Command) -> Printed {
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Printed { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().unwrap()
}

#[tokio::test]
async fn an_event_is_sent_and_found_again() {
    let client = Client::start(1);
    let subscription = client.subscribe("200").await;
    assert!(subscription["secret"].as_str().unwrap().starts_with("whsec_"));
    let sent = client.json(&["send", "order.created", r#"{"number": 1}"#, "--id", "order-1"]).await;
    assert_eq!((&sent["id"], &sent["deliveries"]), (&"order-1".into(), &1.into()));
    let again = client.run(&["send", "order.created", r#"{"number": 1}"#, "--id", "order-1"]).await;
    assert!(again.out.contains("was accepted before"), "{}", again.out);
    let listed = ["deliveries", "--event", "order-1"];
    let list = client.until(&listed, |list| items(list).len() == 1).await;
    assert_eq!(items(&list)[0]["state"], "delivered");
    let table = client.run(&listed).await.out;
    assert!(table.starts_with("STATE") && table.contains("\ndelivered "), "{table}");
    let delivery = client.run(&["deliveries", "get", items(&list)[0]["id"].as_str().unwrap()]).await.out;
    assert!(delivery.contains("outcome  success"), "{delivery}");
}

#[tokio::test]
async fn a_url_is_frozen_and_enabled_by_its_address() {
    let client = Client::start(1);
    let url = client.subscribe("200").await["url"].as_str().unwrap().to_owned();
    let frozen = client.run(&["urls", "freeze", &url, "--reason", "maintenance"]).await;
    assert_eq!(frozen.out, format!("{url} is frozen.\n"));
    let list = client.json(&["urls", "--state", "frozen"]).await;
    assert_eq!(
        (&items(&list)[0]["url"], &items(&list)[0]["reason"]),
        (&url.as_str().into(), &"maintenance".into())
    );
    client.run(&["trigger", "order.created", "--count", "3"]).await;
    client.until(&["deliveries", "--url", &url, "--state", "parked"], |list| items(list).len() == 3).await;
    let enabled = client.run(&["urls", "enable", &url]).await;
    assert!(enabled.out.contains("is enabled; 3 parked deliveries are released"), "{}", enabled.out);
    client.until(&["deliveries", "--url", &url, "--state", "delivered"], |list| items(list).len() == 3).await;
}

#[tokio::test]
async fn dead_deliveries_of_a_url_are_counted_and_replayed() {
    let client = Client::start(100_000);
    let name = format!("{}/dev/receiver/shop", client.server.base);
    let http = holdfast_e2e::host::client().unwrap();
    let answer = async |status: u16| {
        let set = http.put(&name).body(format!(r#"{{"answer": {status}}}"#)).send().await.unwrap();
        assert!(set.status().is_success());
    };
    answer(500).await;
    let url = client.subscribe("shop").await["url"].as_str().unwrap().to_owned();
    client.run(&["trigger", "order.created", "--count", "2"]).await;
    client.until(&["deliveries", "--url", &url, "--state", "dead"], |list| items(list).len() == 2).await;
    answer(200).await;
    let counted = client.run(&["replay", &url, "--dry-run"]).await;
    assert_eq!(counted.out, "2 deliveries would be replayed.\n");
    let replayed = client.run(&["replay", &url]).await;
    assert_eq!(replayed.out, "2 replayed, 0 skipped.\n");
    client.until(&["deliveries", "--url", &url, "--state", "delivered"], |list| items(list).len() == 2).await;
}

#[tokio::test]
async fn events_and_changes_are_listed() {
    let client = Client::start(1);
    let subscription = client.subscribe("200").await;
    client.run(&["send", "order.created", "--id", "one", "--subject", "orders/1"]).await;
    client.run(&["send", "order.paid", "--id", "two", "--subject", "orders/1"]).await;
    client.run(&["send", "unwanted", "--id", "three"]).await;
    let ids = async |args: &[&str]| -> Vec<String> {
        let list = client.json(&[&["events"], args].concat()).await;
        items(&list).iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]).await, ["three", "two", "one"]);
    assert_eq!(ids(&["--subject", "orders/1", "--since", "1h"]).await, ["two", "one"]);
    assert_eq!(ids(&["--type", "order.paid"]).await, ["two"]);
    let table = client.run(&["events", "--type", "order.paid"]).await.out;
    assert!(table.contains("SUBJECT") && table.contains("orders/1") && table.contains("two"), "{table}");
    let one = client.json(&["events", "get", "one"]).await;
    assert_eq!((&one["id"], &one["subject"]), (&"one".into(), &"orders/1".into()));
    assert_eq!(client.run(&["events", "--type", "nothing"]).await.out, "There are no such events.\n");

    let url_id = subscription["url_id"].as_str().unwrap();
    client.run(&["urls", "freeze", url_id, "--reason", "maintenance"]).await;
    let list = client.json(&["audit"]).await;
    let actions: Vec<_> = items(&list).iter().map(|item| item["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["url.frozen", "subscription.created"]);
    let oldest = client.json(&["audit", "--oldest-first", "--limit", "1"]).await;
    assert_eq!(items(&oldest)[0], items(&list)[1]);
    let table = client.run(&["audit"]).await.out;
    for part in ["url.frozen", url_id, "development", "operator", "maintenance"] {
        assert!(table.contains(part), "{part} is missing: {table}");
    }
}

#[tokio::test]
async fn tail_prints_attempts_and_filters_them() {
    let client = Client::start(1);
    client.subscribe("200").await;
    client.subscribe("500").await;
    client.run(&["send", "order.created"]).await;
    let follow = |more: &[&str]| {
        let args = [&["tail", "--no-follow", "--json"], more].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let client = &client;
        until("the attempts are shown", SOON, async move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let printed = client.run(&args).await.out;
            Ok(Some(printed).filter(|text| !text.is_empty()))
        })
    };
    let failed = follow(&["--outcome", "failure"]).await.unwrap();
    let failed: Vec<Value> = failed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((failed.len(), &failed[0]["status"]), (1, &500.into()));
    assert!(follow(&["--outcome", "success"]).await.unwrap().contains("\"status\":200"));
}

/// Starts `holdfast listen`. Returns it once it is subscribed.
async fn listening(client: &Client, more: &[&str]) -> Process {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args([&["listen", "--json"], more].concat()).env_clear().env("HOME", client.folder.path());
    command.env("HOLDFAST_URL", &client.server.base).env("HOLDFAST_KEY", &client.server.key);
    let process = Process::run(&mut command);
    client.until(&["subscriptions"], |list| !items(list).is_empty()).await;
    process
}

#[tokio::test]
async fn listen_verifies_what_arrives_and_unsubscribes_at_its_end() {
    let client = Client::start(1);
    let mut process = listening(&client, &["--event-type", "order.*"]).await;
    client.run(&["send", "order.created", r#"{"number": 7}"#]).await;
    let line: Value = serde_json::from_str(&process.line()).unwrap();
    assert_eq!((&line["outcome"], &line["event"]["data"]["number"]), (&"success".into(), &7.into()));
    let url = items(&client.json(&["subscriptions"]).await)[0]["url"].as_str().unwrap().to_owned();
    let forged = holdfast_e2e::host::client().unwrap().post(&url).body("{}").send().await.unwrap();
    assert_eq!(forged.status(), 401);
    assert!(process.line().contains("the signature is not valid"));
    kill_process(process.pid(), Signal::INT).unwrap();
    assert!(process.exit(Duration::from_secs(30)).await.success());
    assert!(items(&client.json(&["subscriptions"]).await).is_empty());

    // A script ends it by another signal.
    let mut process = listening(&client, &[]).await;
    kill_process(process.pid(), Signal::TERM).unwrap();
    assert!(process.exit(Duration::from_secs(30)).await.success());
    assert!(items(&client.json(&["subscriptions"]).await).is_empty());
}

#[tokio::test]
async fn listen_passes_on_what_arrives_with_its_answer() {
    let client = Client::start(1);
    let target = format!("{}/dev/receiver/418", client.server.base);
    let process = listening(&client, &["--forward-to", &target]).await;
    client.run(&["send", "order.created"]).await;
    let line: Value = serde_json::from_str(&process.line()).unwrap();
    assert_eq!(line["outcome"], "failure");
    assert!(line["detail"].as_str().unwrap().contains("418"), "{line}");
    client
        .until(&["deliveries", "--state", "waiting"], |list| items(list)[0]["attempts"][0]["status"] == 418)
        .await;
}

#[tokio::test]
async fn it_is_explained_why_an_event_did_not_arrive() {
    let client = Client::start(1);
    let url = format!("{}/dev/receiver/500", client.server.base);
    let filter = r#"{"field": "data.total", "op": "gte", "value": 100}"#;
    let create = ["subscriptions", "create", &url, "--event-type", "order.*", "--filter", filter];
    let subscription = client.json(&create).await["id"].as_str().unwrap().to_owned();
    let tried = client.run(&["subscriptions", "test", "order.created", r#"{"total": 5}"#]).await.out;
    assert!(tried.contains("data.total gte 100: found 5"), "{tried}");
    let matching = client.json(&["subscriptions", "test", "order.created", r#"{"total": 100}"#]).await;
    assert_eq!(items(&matching)[0]["matches"], true, "{matching}");
    // No subscription takes this one, and a second one takes all others.
    client.run(&["send", "order.created", r#"{"total": 4}"#, "--id", "unwanted"]).await;
    let unwanted = client.json(&["explain", "unwanted", &subscription]).await;
    assert_eq!(unwanted["refused_by"]["found"], 4, "{unwanted}");
    client.subscribe("200").await;
    client.run(&["send", "order.created", r#"{"total": 5}"#, "--id", "small"]).await;
    client.run(&["send", "order.created", r#"{"total": 500}"#, "--id", "large"]).await;
    let is_refused = |answer: &Value| answer["verdict"] == "refused_by_filter";
    let refused = client.until(&["explain", "small", &subscription], is_refused).await;
    assert_eq!(refused["refused_by"]["found"], 5, "{refused}");
    client.until(&["explain", "large", &subscription], |answer| answer["verdict"] == "waiting").await;
    let told = client.run(&["explain", "large", &subscription]).await.out;
    assert!(told.contains("500") && !told.contains("summary"), "{told}");
}

#[tokio::test]
async fn urls_that_keep_failing_are_listed_with_their_last_error() {
    let client = Client::start(1);
    let subscription = client.subscribe("503").await;
    assert_eq!(client.run(&["urls", "--failing"]).await.out, "No URL is failing.\n");
    client.run(&["trigger", "payment.failed", "--count", "10"]).await;
    let list = client.until(&["urls", "--failing"], |list| items(list).len() == 1).await;
    assert_eq!(items(&list)[0]["last_error"]["status"], 503, "{list}");
    let table = client.run(&["urls", "--failing"]).await.out;
    assert!(table.contains("status 503"), "{table}");
    let id = subscription["id"].as_str().unwrap();
    client.run(&["urls", "disable", subscription["url"].as_str().unwrap()]).await;
    let refused = run(&mut client.command(&["subscriptions", "ping", id])).await;
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    let pinged = client.json(&["subscriptions", "ping", id, "--force"]).await;
    assert_eq!(pinged["status"], 503, "{pinged}");
}

#[tokio::test]
async fn keys_are_created_and_deleted() {
    let client = Client::start(1);
    let key = client.json(&["keys", "create", "--role", "ingest", "--tenant", "shop-1"]).await;
    assert_eq!((&key["role"], &key["tenant"]), (&"ingest".into(), &"shop-1".into()));
    let mut command = client.command(&["send", "order.created"]);
    let sent = run(command.env("HOLDFAST_KEY", key["key"].as_str().unwrap())).await;
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    client.run(&["keys", "delete", key["id"].as_str().unwrap()]).await;
    let listed = client.json(&["keys", "--tenant", "shop-1"]).await;
    assert!(items(&listed).iter().all(|item| item["id"] != key["id"]), "{listed}");
}

#[tokio::test]
async fn failures_say_what_to_do_and_have_exit_codes() {
    let client = Client::start(1);
    let failed = async |command: &mut Command, code: i32, named: &str| {
        let printed = run(command).await;
        assert_eq!(printed.code, Some(code), "{}", printed.err);
        assert!(printed.err.contains(named), "{named} is not in: {}", printed.err);
        assert!(printed.out.is_empty(), "{}", printed.out);
    };
    failed(&mut client.command(&["send", "not a type"]), 1, "type").await;
    failed(&mut client.command(&["send", "a.b", "{"]), 1, "not JSON").await;
    failed(&mut client.command(&["urls", "get", "url_none"]), 1, "404").await;
    failed(&mut client.command(&["urls", "--state", "broken"]), 2, "frozen").await;
    failed(client.command(&["urls"]).env("HOLDFAST_KEY", "hf_wrong"), 1, "HOLDFAST_KEY").await;
    failed(client.command(&["urls"]).env("HOLDFAST_URL", "http://127.0.0.1:1"), 1, "does not answer").await;
    failed(client.command(&["urls"]).env_remove("HOLDFAST_KEY"), 1, "--key-file").await;
}

#[tokio::test]
async fn a_profile_names_the_server_and_its_key() {
    use std::os::unix::fs::PermissionsExt;
    let client = Client::start(1);
    let folder = client.folder.path().join(".config/holdfast");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    let Server { base, key, .. } = &client.server;
    std::fs::write(&file, format!("[profiles.here]\nurl = \"{base}\"\nkey = \"{key}\"\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let bare = |args: &[&str], folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(args).env_clear().env("HOME", folder).current_dir(folder);
        command
    };
    let listed = run(&mut bare(&["urls", "--profile", "here"], client.folder.path())).await;
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    let other = run(&mut bare(&["urls", "--profile", "there"], client.folder.path())).await;
    assert!(other.err.contains("it has here"), "{}", other.err);
}

#[tokio::test]
async fn the_schedule_and_completions_need_no_server() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let schedule = run(command.args(["schedule"])).await;
    assert!(schedule.out.contains("48 h 13 min 5.6 s"), "{}", schedule.out);
    for shell in ["bash", "zsh", "fish"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let script = run(command.args(["completions", shell])).await;
        assert!(script.out.contains("dead-letters") && script.out.contains("explain"), "{shell}");
    }
}
