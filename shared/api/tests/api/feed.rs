//! Operators get the events about URLs and deliveries of all tenants, if their host has a feed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::http::StatusCode;
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Feed, FeedEvent};
use serde_json::Value;

use crate::world::World;

/// Keeps what is published, or refuses all of it.
#[derive(Default)]
struct Memo {
    published: Mutex<Vec<(Tenant, FeedEvent)>>,
    refuses: AtomicBool,
}

#[async_trait]
impl Feed for Memo {
    async fn publish(&self, tenant: &Tenant, events: Vec<FeedEvent>) -> usize {
        if self.refuses.load(Ordering::Relaxed) {
            return events.len();
        }
        self.published.lock().unwrap().extend(events.into_iter().map(|event| (tenant.clone(), event)));
        0
    }
}

#[tokio::test]
async fn changes_of_urls_are_published_though_the_tenant_subscribed_to_none() {
    let memo = Arc::new(Memo::default());
    let world = World::new().with_feed(memo.clone());
    let url_id = world.subscribe("good").await["url_id"].as_str().unwrap().to_owned();
    let change = async |action: &str| {
        world.post(&format!("/v1/urls/{url_id}/{action}"), "").await.expect(StatusCode::OK);
        world.work().await;
    };
    change("freeze").await;
    change("enable").await;
    let published = memo.published.lock().unwrap().clone();
    let types: Vec<&str> = published.iter().map(|(_, event)| event.event_type.as_str()).collect();
    assert_eq!(types, ["holdfast.url.frozen", "holdfast.url.enabled"]);
    let (tenant, event) = &published[0];
    let json: Value = serde_json::from_str(&event.json).unwrap();
    assert_eq!((tenant.as_str(), &json["tenant"]), ("default", &"default".into()));
    assert_eq!(
        (&json["type"], &json["data"]["url_id"]),
        (&"holdfast.url.frozen".into(), &url_id.as_str().into())
    );
    assert!(json["id"].is_string() && json["timestamp"].is_string(), "{json}");
    assert_eq!(world.engine().take_counters().events_not_published, 0);

    memo.refuses.store(true, Ordering::Relaxed);
    change("freeze").await;
    assert_eq!(world.engine().take_counters().events_not_published, 1, "what is not published is counted");
    assert_eq!(memo.published.lock().unwrap().len(), 2);
}
