//! The tenant that must not notice the attack: a few healthy URLs and steady traffic.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use super::receivers::Healthy;
use super::tally::{Mark, Tally};
use super::tenant::Tenant;
use crate::waiting::until;

/// Few enough that the victim is a small tenant, and more than one, because its own URLs take turns too.
pub(super) const URLS: usize = 3;
/// 50 events a second.
const INTERVAL: Duration = Duration::from_millis(20);
/// Longer than any attack delays anything; an event that has not arrived by then is missing.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Victim {
    pub(super) tenant: Tenant,
    receiver: Healthy,
    tally: Tally,
    url_ids: Vec<String>,
    posted: u64,
}

/// One accepted event: how long it took, and what the attacker's attempts did from its 202 to its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// From sending the post to the arrival.
    pub(super) latency: Duration,
    pub(super) attacker: Mark,
}

/// What became of one stretch of traffic.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) samples: Vec<Sample>,
    /// Posts without a 202, events that did not arrive exactly once as posted, URLs with failures.
    pub(super) faults: Vec<String>,
}

struct Post {
    number: u64,
    sent: Instant,
    /// What the attacker's attempts had done when the 202 was there.
    accepted: Result<Mark>,
}

impl Victim {
    pub(super) async fn new(tenant: Tenant, tally: Tally) -> Result<Victim> {
        let receiver = Healthy::start(tally.clone()).await?;
        let mut url_ids = Vec::new();
        for url in 0..URLS {
            let body = json!({ "url": format!("{}/{url}", receiver.base), "event_types": [event_type(url)] });
            url_ids.push(tenant.subscribe(&body).await?.url_id);
        }
        Ok(Victim { tenant, receiver, tally, url_ids, posted: 0 })
    }

    /// Posts `count` events at a steady rate, each for one URL, and waits until they have arrived.
    pub(super) async fn traffic(&mut self, count: usize) -> Result<Traffic> {
        let posts = self.post(count).await;
        let mut traffic = Traffic::default();
        let mut accepted = Vec::new();
        for Post { number, sent, accepted: mark } in posts {
            match mark {
                Ok(mark) => accepted.push((number, sent, mark)),
                Err(error) => traffic.faults.push(format!("post {number} failed: {error:#}")),
            }
        }
        // Whatever is missing then is reported event by event below.
        let _ = until("all events arrive", ARRIVAL_TIMEOUT, async || {
            Ok(accepted.iter().all(|(number, ..)| self.receiver.has(*number)).then_some(()))
        })
        .await;
        let mut missing = Vec::new();
        for (number, sent, mark) in accepted {
            let arrivals = self.receiver.arrivals(number);
            let expected = data(number);
            match arrivals.as_slice() {
                [once] if once.data == expected => traffic.samples.push(Sample {
                    latency: once.at.saturating_duration_since(sent),
                    attacker: once.mark.since(mark),
                }),
                [once] => traffic.faults.push(format!("event {number} arrived as {}", once.data)),
                [] => {
                    // Counts as late as it is already, so that the latencies do not look better than they are.
                    let attacker = self.tally.mark().since(mark);
                    traffic.samples.push(Sample { latency: sent.elapsed(), attacker });
                    missing.push(number);
                }
                others => traffic.faults.push(format!("event {number} arrived {} times", others.len())),
            }
        }
        if let (Some(first), Some(last)) = (missing.iter().min(), missing.iter().max()) {
            let lost = missing.len();
            traffic.faults.push(format!("{lost} of {count} events did not arrive, from {first} to {last}"));
        }
        for url in &self.url_ids {
            if let Err(error) = self.check_url(url).await {
                traffic.faults.push(format!("{error:#}"));
            }
        }
        Ok(traffic)
    }

    async fn post(&mut self, count: usize) -> Vec<Post> {
        let first = self.posted;
        self.posted += count as u64;
        let mut ticks = tokio::time::interval(INTERVAL);
        // A machine that stood still gets no burst afterwards: the traffic is steady.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = FuturesUnordered::new();
        let mut posts = Vec::with_capacity(count);
        for number in first..self.posted {
            loop {
                tokio::select! {
                    biased;
                    _ = ticks.tick() => break,
                    Some(post) = running.next() => posts.push(post),
                }
            }
            running.push(self.post_one(number));
        }
        posts.extend(running.collect::<Vec<_>>().await);
        posts
    }

    async fn post_one(&self, number: u64) -> Post {
        let event = json!({ "type": event_type(number as usize % URLS), "data": data(number) });
        let sent = Instant::now();
        let answer = self.tenant.post_event(&event).await;
        let accepted = answer.map(|_| self.tally.mark());
        Post { number, sent, accepted }
    }

    async fn check_url(&self, id: &str) -> Result<()> {
        let url = self.tenant.get(&format!("/v1/urls/{id}")).await?;
        let state = (&url["state"], &url["streak"], &url["window_failures"]);
        ensure!(state == (&json!("enabled"), &json!(0), &json!(0)), "the victim's URL is {url}");
        Ok(())
    }
}

fn event_type(url: usize) -> String {
    format!("victim.{url}")
}

fn data(number: u64) -> Value {
    json!({ "number": number, "text": format!("event {number} of the victim") })
}
