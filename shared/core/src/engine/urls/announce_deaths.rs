//! Posts one event about the deliveries that died at a URL within a minute, for the tenant's own subscriptions.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::super::jobs::RunningJob;
use super::super::{AcceptError, Engine, NewEvent, Result, Unavailable};
use crate::ids::{UrlId, deaths_event_id};
use crate::ports::Query;
use crate::records::{AnnounceDeaths, DeathNote};
use crate::rules::event_type;

/// How many deliveries are named. The others are to be listed.
const MAX_NAMED: usize = 100;
/// Counting ends here.
const MAX_COUNTED: usize = 1_000;

#[derive(Serialize)]
struct Data<'a> {
    url_id: &'a UrlId,
    url: &'a str,
    since: String,
    until: String,
    count: usize,
    /// There are more than were counted.
    more: bool,
    reasons: BTreeMap<&'static str, usize>,
    delivery_ids: Vec<String>,
    /// Where to list all dead deliveries of the URL.
    list: String,
}

fn event_of(work: &AnnounceDeaths, notes: &[DeathNote], more: bool) -> NewEvent {
    let mut reasons = BTreeMap::new();
    for note in notes {
        *reasons.entry(note.reason.as_str()).or_default() += 1;
    }
    let data = Data {
        url_id: &work.url_id,
        url: &work.url,
        since: work.period.to_string(),
        until: work.until().to_string(),
        count: notes.len(),
        more,
        reasons,
        delivery_ids: notes.iter().take(MAX_NAMED).map(|note| note.key.id()).collect(),
        list: format!("/v1/deliveries?url={}&state=dead", work.url_id),
    };
    NewEvent {
        id: Some(deaths_event_id(&work.url_id, work.period)),
        event_type: format!("{}delivery.dead", event_type::RESERVED),
        subject: None,
        data: to_raw_value(&data).expect("plain data can be written"),
        trace: None,
    }
}

impl Engine {
    /// The sweep starts it when its period is over. A tenant over its rate has it announced later.
    pub(crate) async fn announce_deaths(&self, running: RunningJob, work: &AnnounceDeaths) -> Result<()> {
        let tenant = &running.job.tenant;
        let partition = DeathNote::partition(tenant, &work.url_id, work.period);
        let page = self.repository.list::<DeathNote>(Query::of(partition, MAX_COUNTED)).await?;
        if !page.items.is_empty() {
            if self.take_own_events(tenant, 1).await?.is_err() {
                return Ok(());
            }
            let event = event_of(work, &page.items, page.next.is_some());
            match self.accept(tenant, vec![event.clone()]).await {
                Ok(_) => self.publish(tenant, &[event]).await,
                // It was announced before, and deaths were added since.
                Err(AcceptError::IdTaken { .. }) => {}
                Err(AcceptError::Busy { id, .. }) => return Err(Unavailable::Busy(id)),
                Err(AcceptError::Unavailable(error)) => return Err(error),
            }
        }
        self.end_job(&running, Vec::new()).await.map(|_| ())
    }
}
