//! A tenant with a key of its own, and the calls that victim and attackers make.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::server::Server;
use crate::host::{Answer, Host};
use crate::key::Key;
use crate::receiver::Receiver;
use crate::views::{items, text};

#[derive(Clone)]
pub(super) struct Tenant {
    host: Host,
}

/// A subscription that was created.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    pub(super) id: String,
    pub(super) url_id: String,
}

impl Tenant {
    /// Creates an admin key of this tenant with the operator key. Each tenant has its own connections.
    pub(super) async fn new(server: &Server, name: &str) -> Result<Tenant> {
        let mut host = Host::with(&server.base, &server.operator, 1, Receiver::start().await?)?;
        let key = Key::create(&host, json!({ "tenant": name, "role": "admin" })).await?.text;
        host.key = key;
        host.tenant = name.to_owned();
        Ok(Tenant { host })
    }

    /// So many tenants with names of their own.
    pub(super) async fn several(server: &Server, count: usize) -> Result<Vec<Tenant>> {
        let mut tenants = Vec::new();
        for number in 0..count {
            tenants.push(Tenant::new(server, &format!("attacker-{number}")).await?);
        }
        Ok(tenants)
    }

    /// The server was restarted on another port.
    pub(super) fn moved(&mut self, server: &Server) {
        self.host.base.clone_from(&server.base);
    }

    /// For requests that are written by hand.
    pub(super) fn key(&self) -> &str {
        &self.host.key
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        self.host.get(path).await?.expect(200)
    }

    /// Any call; the caller judges the answer.
    pub(super) async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.host.post(path, body).await
    }

    pub(super) async fn subscribe(&self, body: &Value) -> Result<Subscribed> {
        let created = self.post("/v1/subscriptions", body.to_string()).await?.expect(201)?;
        let (id, url_id) = (text(&created, "id")?.to_owned(), text(&created, "url_id")?.to_owned());
        Ok(Subscribed { id, url_id })
    }

    /// Posts one event or an array of events, which must be accepted.
    pub(super) async fn post_event(&self, event: &Value) -> Result<Value> {
        self.post("/v1/events", event.to_string()).await?.expect(202)
    }

    /// Posts `count` events of this type, 100 in each post, and returns how many were accepted. The server may refuse some of them
    /// with 429, because too many are waiting.
    pub(super) async fn post_many(&self, event_type: &str, count: usize) -> Result<usize> {
        let accepted = AtomicUsize::new(0);
        in_lanes(4, (0..count).step_by(100).collect(), async |start| {
            let numbers = *start..count.min(start + 100);
            let event = |n| json!({ "type": event_type, "data": { "attack": n } });
            let events = Value::from(numbers.map(event).collect::<Vec<_>>());
            let answer = self.post("/v1/events", events.to_string()).await?;
            if answer.status != 429 {
                accepted.fetch_add(items(&answer.expect(202)?)?.len(), Ordering::Relaxed);
            }
            Ok(())
        })
        .await?;
        Ok(accepted.into_inner())
    }

    /// Posts the same events until the caller drops it, and counts the accepted posts. The server may refuse some of them with 429.
    pub(super) async fn post_forever(&self, events: &str, accepted: &AtomicUsize) -> Result<()> {
        loop {
            let answer = self.post("/v1/events", events).await?;
            if answer.status != 429 {
                answer.expect(202)?;
                accepted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A public page that is not JSON.
    pub(super) async fn get_text(&self, path: &str) -> Result<String> {
        let answer = self.host.get(path).await?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(answer.text)
    }
}

/// Works through `items` in order, a few at a time.
pub(super) async fn in_lanes<T>(
    lanes: usize,
    items: Vec<T>,
    each: impl AsyncFn(&T) -> Result<()>,
) -> Result<()> {
    let lane = async |lane: usize| -> Result<()> {
        for item in items.iter().skip(lane).step_by(lanes) {
            each(item).await?;
        }
        Ok(())
    };
    join_all((0..lanes).map(lane)).await.into_iter().collect()
}
