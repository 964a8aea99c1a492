use std::collections::{BTreeMap, VecDeque};

use holdfast_core::time::Now;
use serde::Serialize;

use super::record::{Arrived, Recorded};
use super::reply::Reply;
use super::setting::Setting;

/// How many requests a receiver keeps, and so the highest `limit`.
pub(super) const MAX_REQUESTS: usize = 1_000;
/// How many bytes of bodies a receiver keeps: large bodies displace older requests sooner.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct Receiver {
    pub(super) setting: Setting,
    received: u64,
    answered: BTreeMap<String, u64>,
    /// Oldest first.
    requests: VecDeque<Recorded>,
    /// The size of the bodies in `requests`.
    body_bytes: usize,
}

#[derive(Serialize)]
pub(super) struct View {
    name: String,
    #[serde(flatten)]
    setting: Setting,
    received: u64,
    answered: BTreeMap<String, u64>,
    /// Newest first; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Vec<Recorded>>,
}

impl Receiver {
    pub(super) fn new(setting: Setting) -> Receiver {
        Receiver { setting, received: 0, answered: BTreeMap::new(), requests: VecDeque::new(), body_bytes: 0 }
    }

    /// Records the request, and returns the response and its `retry-after`.
    pub(super) fn receive(&mut self, arrived: Arrived, now: Now) -> (Reply, Option<u32>) {
        let (reply, retry_after) = self.setting.next();
        self.received += 1;
        *self.answered.entry(reply.to_string()).or_default() += 1;
        self.body_bytes += arrived.body.len();
        self.requests.push_back(Recorded::new(self.received, now, arrived, reply));
        self.drop_oldest();
        (reply, retry_after)
    }

    fn drop_oldest(&mut self) {
        while self.requests.len() > MAX_REQUESTS || self.body_bytes > MAX_BODY_BYTES {
            let Some(oldest) = self.requests.pop_front() else { return };
            self.body_bytes -= oldest.arrived.body.len();
        }
    }

    pub(super) fn counts(&self, name: &str) -> View {
        View {
            name: name.to_owned(),
            setting: self.setting.clone(),
            received: self.received,
            answered: self.answered.clone(),
            requests: None,
        }
    }

    pub(super) fn newest(&self, name: &str, limit: usize) -> View {
        let newest = self.requests.iter().rev().take(limit).cloned().collect();
        View { requests: Some(newest), ..self.counts(name) }
    }
}
