//! One scenario's event types and paths, and the calls that most scenarios make.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::host::Host;
use crate::receiver::{Arrival, Receiver, Reply};
use crate::views::{Delivery, items, text};
use crate::waiting::until;

/// Numbers the ids of events, so that a repeated post is the same event.
static POSTED: AtomicU64 = AtomicU64::new(0);

pub struct Scene<'a> {
    pub host: &'a Host,
    pub name: &'static str,
}

/// A subscription that a scenario created.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub id: String,
    pub url_id: String,
    pub secret: String,
    /// The path at the receiver.
    pub path: String,
}

impl<'a> Scene<'a> {
    #[must_use]
    pub fn new(host: &'a Host, name: &'static str) -> Scene<'a> {
        Scene { host, name }
    }

    #[must_use]
    pub fn receiver(&self) -> &Receiver {
        &self.host.receiver
    }

    /// An event type that nothing else uses.
    #[must_use]
    pub fn event_type(&self, part: &str) -> String {
        format!("e2e.{}.{}.{part}", self.host.run, self.name)
    }

    /// A path at the receiver that nothing else uses.
    #[must_use]
    pub fn path(&self, part: &str) -> String {
        format!("/{}/{}/{part}", self.host.run, self.name)
    }

    /// An event id that nothing else uses.
    #[must_use]
    pub fn id(&self, part: &str) -> String {
        format!("{}-{}-{part}", self.host.run, self.name)
    }

    /// Real time for this schedule time to pass, and for the host to act on it.
    #[must_use]
    pub fn within(&self, schedule: Duration) -> Duration {
        self.host.timing.real(schedule) + self.host.timing.sweep_late_after(schedule) + self.soon()
    }

    /// Real time for the host to do what it should do immediately.
    #[must_use]
    pub fn soon(&self) -> Duration {
        self.host.timing.soon
    }

    /// Subscribes the path `part` to the type `part`, and sets how the path responds.
    pub async fn subscribe(&self, part: &str, reply: Reply) -> Result<Subscription> {
        self.subscribe_with(part, part, reply, json!({})).await
    }

    /// With more fields, and with different names for the type and the path.
    pub async fn subscribe_with(
        &self,
        event: &str,
        part: &str,
        reply: Reply,
        more: Value,
    ) -> Result<Subscription> {
        let path = self.path(part);
        self.receiver().switch(&path, reply);
        let mut body = json!({ "url": self.receiver().url(&path), "event_types": [self.event_type(event)] });
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        let created = until("the host creates the subscription", self.soon(), async || {
            let answer = self.host.post("/v1/subscriptions", body.to_string()).await?;
            if answer.repeated && answer.status == 409 {
                // An earlier try has created it, but its secret is lost.
                self.delete_equal(&body).await?;
                return Ok(None);
            }
            // Many scenarios subscribe at the same time, and the host may answer 503.
            if answer.status == 503 { Ok(None) } else { answer.expect(201).map(Some) }
        })
        .await?;
        Ok(Subscription {
            id: text(&created, "id")?.to_owned(),
            url_id: text(&created, "url_id")?.to_owned(),
            secret: text(&created, "secret")?.to_owned(),
            path,
        })
    }

    /// Deletes the subscription with this URL.
    async fn delete_equal(&self, body: &Value) -> Result<()> {
        let all = self.list("/v1/subscriptions", "", 100).await?;
        let found = all.iter().find(|subscription| subscription["url"] == body["url"]);
        let id = text(found.context("an equal subscription is not listed")?, "id")?;
        self.host.delete(&format!("/v1/subscriptions/{id}")).await?.expect(204).map(|_| ())
    }

    /// Whether something happened as often as expected. Where calls to AWS fail it may happen more often: a delivery whose outcome
    /// could not be recorded is attempted again, and a message may arrive twice.
    #[must_use]
    pub fn is_count(&self, found: usize, expected: usize) -> bool {
        if self.host.faulty { found >= expected } else { found == expected }
    }

    /// Posts one event of the type `part` and returns its id.
    pub async fn post(&self, part: &str) -> Result<String> {
        Ok(self.post_many(part, 1).await?.remove(0))
    }

    /// Posts `count` events of the type `part`, at most 100 per request, and returns their ids in order.
    pub async fn post_many(&self, part: &str, count: usize) -> Result<Vec<String>> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let event_type = self.event_type(part);
            let events: Vec<Value> = (ids.len()..count)
                .take(100)
                .map(|number| {
                    let mut event = json!({ "type": event_type, "data": { "number": number } });
                    if self.host.faulty {
                        let number = POSTED.fetch_add(1, Ordering::Relaxed);
                        event["id"] = json!(self.id(&format!("{part}-{number}")));
                    }
                    event
                })
                .collect();
            let answer = self.host.post("/v1/events", Value::from(events).to_string()).await?.expect(202)?;
            for item in items(&answer)? {
                ids.push(text(item, "id")?.to_owned());
            }
        }
        Ok(ids)
    }

    pub async fn delivery(&self, id: &str) -> Result<Delivery> {
        Delivery::of(&self.host.get(&format!("/v1/deliveries/{id}")).await?.expect(200)?)
    }

    /// All items of a list, page by page.
    pub async fn list(&self, path: &str, query: &str, limit: usize) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.host.get(&format!("{path}?limit={limit}{query}{cursor}")).await?.expect(200)?;
            let items = items(&page)?;
            ensure!(items.len() <= limit, "{path}{query}: {} items on a page of {limit}", items.len());
            found.extend(items.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(found),
            }
        }
    }

    pub async fn deliveries(&self, query: &str) -> Result<Vec<Delivery>> {
        self.list("/v1/deliveries", &format!("&{query}"), 100).await?.iter().map(Delivery::of).collect()
    }

    /// The delivery of an event, once it is listed and `wanted`.
    pub async fn delivery_when(
        &self,
        what: &str,
        event_id: &str,
        within: Duration,
        wanted: impl Fn(&Delivery) -> bool,
    ) -> Result<Delivery> {
        until(what, within, async || {
            let found = self.deliveries(&format!("event={event_id}")).await?;
            Ok(found.into_iter().find(|delivery| wanted(delivery)))
        })
        .await
        .with_context(|| format!("event {event_id}"))
    }

    /// The arrivals at a path, once there are `count`.
    pub async fn arrivals(&self, path: &str, count: usize, within: Duration) -> Result<Vec<Arrival>> {
        let what = format!("{count} arrivals at {path}");
        let found = until(&what, within, async || {
            Ok((self.receiver().count(path) >= count).then(|| self.receiver().arrivals(path)))
        });
        found.await.with_context(|| format!("{} arrived", self.receiver().count(path)))
    }

    /// The arrivals at a path, once there are some of `count` different deliveries.
    pub async fn arrivals_of(&self, path: &str, count: usize, within: Duration) -> Result<Vec<Arrival>> {
        until(&format!("{count} deliveries arrive at {path}"), within, async || {
            let arrivals = self.receiver().arrivals(path);
            let different: BTreeSet<&str> = arrivals.iter().map(Arrival::webhook_id).collect();
            Ok((different.len() >= count).then_some(arrivals.clone()))
        })
        .await
        .with_context(|| format!("{} arrived", self.receiver().count(path)))
    }

    pub async fn url(&self, id: &str) -> Result<Value> {
        self.host.get(&format!("/v1/urls/{id}")).await?.expect(200)
    }

    pub async fn url_when(&self, id: &str, state: &str, within: Duration) -> Result<Value> {
        until(&format!("{id} is {state}"), within, async || {
            let url = self.url(id).await?;
            Ok((url["state"] == state).then_some(url))
        })
        .await
    }

    /// `action`: enable, freeze or disable.
    pub async fn change_url_state(&self, url_id: &str, action: &str, reason: &str) -> Result<Value> {
        let body = json!({ "reason": reason }).to_string();
        self.host.post(&format!("/v1/urls/{url_id}/{action}"), body).await?.expect(200)
    }

    /// Changes the given fields of a subscription.
    pub async fn change(&self, subscription: &Subscription, patch: Value) -> Result<Value> {
        until("the host changes the subscription", self.soon(), async || {
            let path = format!("/v1/subscriptions/{}", subscription.id);
            let answer = self.host.patch(&path, patch.to_string()).await?;
            if answer.status == 503 { Ok(None) } else { answer.expect(200).map(Some) }
        })
        .await
    }

    pub async fn unsubscribe(&self, subscription: &Subscription) -> Result<()> {
        until("the host deletes the subscription", self.soon(), async || {
            let answer = self.host.delete(&format!("/v1/subscriptions/{}", subscription.id)).await?;
            if answer.status == 503 { Ok(None) } else { answer.expect(204).map(|_| Some(())) }
        })
        .await
    }
}
