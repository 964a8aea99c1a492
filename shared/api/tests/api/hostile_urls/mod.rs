//! URLs that must not be subscribed, through the API with the guard that makes attempts. Only the lookup of names is not real.

mod table;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::StatusCode;
use holdfast_core::engine::DeliveryLog;
use holdfast_core::rules::guard::{Cidr, Guard, Ports};
use holdfast_egress::{EgressConfig, HttpSender, Lookup};
use serde_json::json;

use crate::world::{Told, World};

struct NamesOfTheTable;

#[async_trait]
impl Lookup for NamesOfTheTable {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let found = table::NAMES.iter().find(|(known, _)| *known == name);
        let (_, addresses) = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }
}

fn world(guard: Guard) -> World {
    let world = World::with(guard.http_allowed, DeliveryLog::All);
    let config = EgressConfig { guard, ..EgressConfig::default() };
    let sender = HttpSender::with_lookup(config, world.clock.clone(), Arc::new(NamesOfTheTable)).unwrap();
    assert!(world.receiver.guard.set(Arc::new(sender)).is_ok());
    world
}

async fn subscribe(world: &World, url: &str) -> Told {
    let body = json!({"url": url, "event_types": ["*"]}).to_string();
    world.post("/v1/subscriptions", body).await
}

#[tokio::test]
async fn hostile_urls_are_refused_with_the_rule() {
    let world = world(Guard::default());
    let mut forms = 0;
    for (rule, urls) in table::HOSTILE {
        for url in *urls {
            let told = subscribe(&world, url).await;
            assert_eq!(told.status, 400, "{url:?} is taken: {told:?}");
            assert_eq!(told.problem(400), ["url"], "{url:?}");
            assert!(told.detail().contains(rule), "{url:?}: {}", told.detail());
            assert!(!told.detail().contains("--"), "a flag is named to strangers: {}", told.detail());
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
    for (rule, urls) in table::HOSTILE {
        for url in *urls {
            let told = world.call("PATCH", &path, json!({ "url": url }).to_string()).await;
            assert_eq!(told.problem(400), ["url"], "{url:?}");
            assert!(told.detail().contains(rule), "{url:?}: {}", told.detail());
        }
    }
    let shown = world.get(&path).await.expect(StatusCode::OK);
    assert_eq!(shown["url"], "https://receiver.example/");
}

#[tokio::test]
async fn good_urls_are_taken_as_the_url_standard_writes_them() {
    let world = world(Guard::default());
    for (url, written) in table::GOOD {
        let told = subscribe(&world, url).await;
        assert_eq!(told.expect(StatusCode::CREATED)["url"], *written, "{url:?}");
    }
}

#[tokio::test]
async fn in_development_the_flag_is_named_that_allows_it() {
    let guard = |allow: &str| Guard {
        allow: Cidr::list(allow).unwrap(),
        ports: Ports::any(),
        http_allowed: true,
        flag: Some("--allow-target".to_owned()),
    };
    let told = subscribe(&world(guard("127.0.0.0/8")), "http://10.0.0.1/").await;
    assert_eq!(told.problem(400), ["url"]);
    assert_eq!(
        told.detail(),
        "`url` leads to a private address, which is not allowed (10.0.0.0/8); start Holdfast with --allow-target 10.0.0.0/8 to allow it"
    );
    let allowed = world(guard("127.0.0.0/8,10.0.0.0/8"));
    for url in ["http://10.0.0.1/", "http://127.0.0.1:1/", "http://private.test/"] {
        subscribe(&allowed, url).await.expect(StatusCode::CREATED);
    }
}

#[tokio::test]
async fn which_address_a_name_has_is_not_told() {
    let told = subscribe(&world(Guard::default()), "https://private.test/").await;
    told.problem(400);
    assert!(!told.detail().contains("10.1.2.3"), "{}", told.detail());
}
