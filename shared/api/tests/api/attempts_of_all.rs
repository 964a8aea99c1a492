//! The feed of the latest attempts of all tenants.

use std::time::Duration;

use holdfast_api::{BuiltIn, Keys};
use serde_json::{Value, json};

use crate::world::{KEY, World};

const SETTLED: Duration = Duration::from_secs(3);

struct Scene {
    world: World,
    keys: Vec<(&'static str, String)>,
}

impl Scene {
    async fn new() -> Scene {
        let keys = Keys::new(vec![BuiltIn::operator("secret", KEY, "The first key", "Change the secret.")]);
        let world = World::with_keys(keys);
        let mut keys = Vec::new();
        for tenant in ["beta", "alpha", "gamma"] {
            let key = world.key(tenant, "admin").await;
            let body = json!({"url": format!("https://receiver.example/{tenant}"), "event_types": ["*"]});
            world.call_as(&key, "POST", "/v1/subscriptions", body.to_string()).await.json(201);
            keys.push((tenant, key));
        }
        Scene { world, keys }
    }

    /// Delivers events with these ids for a tenant, at once, and lets some time pass.
    async fn deliver(&self, tenant: &str, ids: &[&str]) {
        let (_, key) = self.keys.iter().find(|(name, _)| *name == tenant).unwrap();
        let events: Vec<Value> = ids.iter().map(|id| json!({"id": id, "type": "a", "data": 1})).collect();
        self.world.call_as(key, "POST", "/v1/events", json!(events).to_string()).await.json(202);
        self.world.work().await;
        self.world.engine.flush_activity(true).await;
        self.world.clock.advance(Duration::from_millis(100));
    }

    async fn feed(&self, after: &str, query: &str) -> Value {
        let after = if after.is_empty() { String::new() } else { format!("after={after}&") };
        self.world.get(&format!("/v1/attempts?{after}{query}")).await.json(200)
    }
}

fn shown(feed: &Value) -> Vec<String> {
    let items = feed["items"].as_array().unwrap();
    items.iter().map(|item| format!("{} {}", item["tenant"], item["event_id"]).replace('"', "")).collect()
}

fn next(feed: &Value) -> &str {
    feed["next"].as_str().unwrap()
}

#[tokio::test]
async fn attempts_of_all_tenants_are_shown_in_the_order_of_their_time() {
    let scene = Scene::new().await;
    let empty = scene.feed("", "").await;
    assert_eq!((shown(&empty).len(), &empty["tenants"]), (0, &json!({"count": 3, "more": false})));
    scene.deliver("beta", &["1"]).await;
    scene.deliver("alpha", &["2"]).await;
    scene.deliver("gamma", &["3"]).await;
    scene.deliver("alpha", &["4"]).await;
    scene.world.clock.advance(SETTLED);
    let all = ["beta 1", "alpha 2", "gamma 3", "alpha 4"];
    for after in ["", next(&empty)] {
        assert_eq!(shown(&scene.feed(after, "").await), all);
    }
    assert_eq!(shown(&scene.feed("", "limit=2").await), all[2..]);
    let latest = scene.feed("", "").await;
    assert_eq!(shown(&scene.feed(next(&latest), "").await), [""; 0]);
    scene.deliver("beta", &["5"]).await;
    scene.world.clock.advance(SETTLED);
    assert_eq!(shown(&scene.feed(next(&latest), "").await), ["beta 5"]);
    assert_eq!(shown(&scene.feed("", "outcome=failure").await), [""; 0]);
}

#[tokio::test]
async fn following_one_at_a_time_shows_each_attempt_once() {
    let scene = Scene::new().await;
    let start = scene.feed("", "").await;
    let mut expected = Vec::new();
    // More records of one tenant than one answer reads, beside those of the others.
    for n in 0..25 {
        let (one, two) = (format!("{n}-1"), format!("{n}-2"));
        scene.deliver("alpha", &[&one, &two]).await;
        expected.extend([format!("alpha {one}"), format!("alpha {two}")]);
        if n % 10 == 0 {
            scene.deliver("beta", &[&one]).await;
            expected.push(format!("beta {one}"));
        }
    }
    scene.deliver("gamma", &["last"]).await;
    expected.push("gamma last".to_owned());
    scene.world.clock.advance(SETTLED);
    for limit in [1, 3, 100] {
        let mut found = Vec::new();
        let mut feed = start.clone();
        for _ in 0..200 {
            feed = scene.feed(next(&feed), &format!("limit={limit}")).await;
            found.extend(shown(&feed));
        }
        found.sort();
        let mut all = expected.clone();
        all.sort();
        assert_eq!(found, all, "{limit} at a time");
    }
}

#[tokio::test]
async fn a_tenant_follows_its_own_attempts_only() {
    let scene = Scene::new().await;
    scene.deliver("beta", &["1"]).await;
    scene.deliver("alpha", &["2"]).await;
    scene.world.clock.advance(SETTLED);
    let (_, key) = &scene.keys[0];
    let own = scene.world.call_as(key, "GET", "/v1/attempts", "").await.json(200);
    assert_eq!((shown(&own), own.get("tenants")), (vec!["null 1".to_owned()], None));
    let named = scene.feed("", "tenant=beta").await;
    assert_eq!(named["items"], own["items"]);
    // The cursor of one feed is not one of another.
    let path = format!("/v1/attempts?after={}", next(&named));
    assert_eq!(scene.world.get(&path).await.problem(400), ["after"]);
}
