//! URLs that must not be subscribed, through the API with the real guard. Only the DNS lookup is replaced.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use holdfast_core::engine::DeliveryLog;
use holdfast_core::rules::guard::{Cidr, Guard, Ports};
use holdfast_egress::{Answer as LookupAnswer, EgressConfig, HttpSender, Lookup, LookupError};
use serde::Deserialize;
use serde_json::json;

use crate::world::{Answer, World};

#[derive(Deserialize)]
struct Table {
    /// Other names do not resolve.
    addresses_by_name: BTreeMap<String, Vec<IpAddr>>,
    /// The answer contains the words of the rule.
    refused_by_rule: BTreeMap<String, Vec<String>>,
    /// With the form in which they are stored.
    accepted_as: BTreeMap<String, String>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(include_str!("hostile_urls.json")).unwrap());

struct TableLookup;

#[async_trait]
impl Lookup for TableLookup {
    async fn addresses(&self, name: &str) -> Result<LookupAnswer, LookupError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let found = TABLE.addresses_by_name.get(name);
        let addresses = found.cloned().ok_or_else(|| LookupError::NoAddress("no records".to_owned()))?;
        Ok(LookupAnswer { addresses, ttl: Duration::from_secs(60) })
    }
}

fn world(guard: Guard) -> World {
    let world = World::with(guard.http_allowed, DeliveryLog::All);
    let config = EgressConfig { guard, ..EgressConfig::default() };
    let sender = HttpSender::with_lookup(config, world.clock.clone(), Arc::new(TableLookup)).unwrap();
    assert!(world.receiver.guard.set(Arc::new(sender)).is_ok());
    world
}

async fn subscribe(world: &World, url: &str) -> Answer {
    let body = json!({"url": url, "event_types": ["*"]}).to_string();
    world.post("/v1/subscriptions", body).await
}

#[tokio::test]
async fn hostile_urls_are_refused_with_the_rule() {
    let world = world(Guard::default());
    let mut forms = 0;
    for (rule, urls) in &TABLE.refused_by_rule {
        for url in urls {
            let answer = subscribe(&world, url).await;
            assert_eq!(answer.status, 400, "{url:?} is accepted: {answer:?}");
            assert_eq!(answer.problem(400), ["url"], "{url:?}");
            assert!(answer.detail().contains(rule), "{url:?}: {}", answer.detail());
            assert!(!answer.detail().contains("--allow"), "names a flag of the server: {}", answer.detail());
            forms += 1;
        }
    }
    assert!(forms >= 200, "there are only {forms} forms");
    let listed = world.get("/v1/subscriptions").await.expect(StatusCode::OK);
    assert_eq!(listed["items"], json!([]), "something was written");
}

#[tokio::test]
async fn a_subscription_cannot_be_moved_to_a_hostile_url() {
    let world = world(Guard::default());
    let made = subscribe(&world, "https://receiver.example/").await.expect(StatusCode::CREATED);
    let path = format!("/v1/subscriptions/{}", made["id"].as_str().unwrap());
    for (rule, urls) in &TABLE.refused_by_rule {
        for url in urls {
            let answer = world.call("PATCH", &path, json!({ "url": url }).to_string()).await;
            assert_eq!(answer.problem(400), ["url"], "{url:?}");
            assert!(answer.detail().contains(rule), "{url:?}: {}", answer.detail());
        }
    }
    let shown = world.get(&path).await.expect(StatusCode::OK);
    assert_eq!(shown["url"], "https://receiver.example/");
}

#[tokio::test]
async fn other_urls_are_accepted_in_normal_form() {
    let world = world(Guard::default());
    for (url, written) in &TABLE.accepted_as {
        let answer = subscribe(&world, url).await;
        assert_eq!(answer.expect(StatusCode::CREATED)["url"], *written, "{url:?}");
    }
}

#[tokio::test]
async fn in_development_the_answer_names_the_flag_that_allows_a_url() {
    let guard = |allow: &str| Guard {
        allow: Cidr::list(allow).unwrap(),
        deny: Vec::new(),
        ports: Ports::any(),
        http_allowed: true,
        flag: Some("--allow-target".to_owned()),
    };
    let answer = subscribe(&world(guard("127.0.0.0/8")), "http://10.0.0.1/").await;
    assert_eq!(answer.problem(400), ["url"]);
    assert_eq!(
        answer.detail(),
        "`url`: leads to a private address, which is not allowed (10.0.0.0/8); start Holdfast with --allow-target 10.0.0.0/8 to allow it"
    );
    let allowed = world(guard("127.0.0.0/8,10.0.0.0/8"));
    for url in ["http://10.0.0.1/", "http://127.0.0.1:1/", "http://private.test/"] {
        subscribe(&allowed, url).await.expect(StatusCode::CREATED);
    }
}

#[tokio::test]
async fn the_address_of_a_name_is_not_revealed() {
    let answer = subscribe(&world(Guard::default()), "https://private.test/").await;
    answer.problem(400);
    assert!(!answer.detail().contains("10.1.2.3"), "{}", answer.detail());
}
