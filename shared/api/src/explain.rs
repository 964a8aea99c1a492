//! `/v1/explain`

use axum::response::Response;
use holdfast_core::engine::{DeliveryView, Explanation, Verdict};
use holdfast_core::records::{Attempt, UrlRecord};
use holdfast_core::rules::delivery::{AttemptOutcome, Reason};
use holdfast_core::rules::health::UrlState;
use holdfast_core::rules::matching::Refusal;
use serde::Serialize;
use serde_json::Value;

use crate::Problem;
use crate::auth::Viewer;
use crate::events::is_id;
use crate::params::Params;
use crate::path;
use crate::response::{self, Time};

/// One flat object: the verdict, the same as a sentence, and the facts that are known.
#[derive(Serialize)]
struct ExplanationJson<'a> {
    verdict: Verdict,
    summary: String,
    event_id: &'a str,
    subscription_id: &'a str,
    event_type: Option<&'a str>,
    accepted_at: Option<Time>,
    subscribed_at: Option<Time>,
    event_types: Option<&'a [String]>,
    refused_by: Option<RefusalJson<'a>>,
    delivery_id: Option<&'a str>,
    url_id: Option<&'a str>,
    url: Option<&'a str>,
    url_state: Option<UrlState>,
    url_since: Option<Time>,
    url_reason: Option<&'a str>,
    attempts: Option<usize>,
    last_attempt_at: Option<Time>,
    last_status: Option<u16>,
    last_error: Option<&'a str>,
    next_retry: Option<u32>,
    due_at: Option<Time>,
    expires_at: Option<Time>,
    delivered_at: Option<Time>,
    dead_reason: Option<Reason>,
}

#[derive(Serialize)]
pub(crate) struct RefusalJson<'a> {
    filter: &'a holdfast_core::rules::filter::Filter,
    /// Null also if the event has nothing there: `is_missing` tells the two apart.
    found: Option<&'a Value>,
    is_missing: bool,
}

impl<'a> RefusalJson<'a> {
    pub(crate) fn of(refusal: &'a Refusal) -> RefusalJson<'a> {
        let found = refusal.found.as_ref();
        RefusalJson { filter: &refusal.filter, found, is_missing: found.is_none() }
    }
}

impl<'a> ExplanationJson<'a> {
    fn of(event_id: &'a str, subscription_id: &'a str, why: &'a Explanation) -> ExplanationJson<'a> {
        let (event, delivery, url) = (why.event.as_ref(), why.delivery.as_ref(), why.url.as_ref());
        let event_type =
            delivery.map(|one| one.event_type.as_str()).or(event.map(|one| one.event_type.as_str()));
        let accepted_at = delivery.map(|one| one.accepted_at).or(event.map(|one| one.accepted_at));
        let last = delivery.and_then(|one| one.attempts.last());
        ExplanationJson {
            verdict: why.verdict,
            summary: summary(why),
            event_id,
            subscription_id,
            event_type,
            accepted_at: accepted_at.map(Time),
            subscribed_at: why.subscription.as_ref().map(|one| Time(one.created_at)),
            event_types: why.subscription.as_ref().map(|one| one.event_types.as_slice()),
            refused_by: why.refusal.as_ref().map(RefusalJson::of),
            delivery_id: delivery.map(|one| one.id.as_str()),
            url_id: delivery.map(|one| one.url_id.as_str()),
            url: delivery.map(|one| one.url.as_str()),
            url_state: url.map(|one| one.health.state),
            url_since: url.map(|one| Time(one.health.since)),
            url_reason: url.map(|one| one.health.reason.as_str()),
            attempts: delivery.map(|one| one.attempts.len()),
            last_attempt_at: last.map(|last| Time(last.at)),
            last_status: last.and_then(|last| last.status),
            last_error: last.and_then(|last| last.error.as_deref()),
            next_retry: delivery.and_then(next_retry),
            due_at: delivery.and_then(|one| one.due_at).map(Time),
            expires_at: delivery.and_then(|one| one.expires_at).map(Time),
            delivered_at: delivery.and_then(delivered_at),
            dead_reason: delivery.and_then(|one| one.reason),
        }
    }
}

/// The number of the attempt that is next; 0 is the first of its schedule.
fn next_retry(delivery: &DeliveryView) -> Option<u32> {
    delivery.due_at?;
    let made = delivery.attempts.iter().filter(|attempt| attempt.epoch == delivery.epoch);
    Some(made.map(|attempt| attempt.n + 1).max().unwrap_or(0))
}

fn delivered_at(delivery: &DeliveryView) -> Option<Time> {
    let success = delivery.attempts.iter().rev().find(|one| one.outcome == AttemptOutcome::Success)?;
    Some(Time(success.ended_at()))
}

fn summary(why: &Explanation) -> String {
    let delivery = why.delivery.as_ref();
    match (why.verdict, delivery) {
        (Verdict::Delivered, Some(delivery)) => {
            let status = delivery.attempts.last().and_then(|last| last.status);
            let answer = status.map_or_else(String::new, |status| format!(": the receiver answered {status}"));
            let attempt = delivery.attempts.last().map_or(0, |last| last.n);
            format!("It was delivered {}{answer}.", name_of(attempt, "with"))
        }
        (Verdict::Waiting, Some(delivery)) => {
            let due = delivery.due_at.map_or_else(String::new, |due| format!(" is due at {due}"));
            format!("It waits: {}{due}; {}.", name_of(next_retry(delivery).unwrap_or(0), ""), last_of(delivery))
        }
        (Verdict::Parked, Some(_)) => parked(why.url.as_ref()),
        (Verdict::Dead, Some(delivery)) => format!("It was given up: {}; {}.", death(delivery.reason), last_of(delivery)),
        (Verdict::RefusedByFilter, _) => why.refusal.as_ref().map_or_else(String::new, refusal),
        (Verdict::TypeNotSubscribed, _) => {
            let types = why.subscription.as_ref().map(|one| one.event_types.join(", ")).unwrap_or_default();
            let event_type = why.event.as_ref().map(|event| event.event_type.as_str()).unwrap_or_default();
            format!("It was not sent: its type is {event_type}, and the subscription asks for {types}.")
        }
        (Verdict::Inactive, _) => "It was not sent: the subscription is not active.".to_owned(),
        (Verdict::SubscribedLater, _) => {
            "It was not sent: it was accepted before the subscription was created.".to_owned()
        }
        (Verdict::NotKnown, _) => {
            "It was not sent, because the filters did not match it. Its body is not stored, so which one is not known; POST \
             /v1/subscriptions/test with its data says which."
                .to_owned()
        }
        (Verdict::UnknownEvent, _) => {
            "There is no such event: it was never accepted, or it has been removed, or it matched no subscription and only trouble is logged.".to_owned()
        }
        (Verdict::UnknownSubscription, _) => {
            "There is no such subscription: it was deleted, or it never existed.".to_owned()
        }
        (Verdict::OnItsWay | Verdict::Delivered | Verdict::Waiting | Verdict::Parked | Verdict::Dead, _) => {
            "It matches: its first attempt is queued or being made, or it succeeded and only trouble is logged.".to_owned()
        }
    }
}

fn name_of(attempt: u32, with: &str) -> String {
    let name = if attempt == 0 { "the first attempt".to_owned() } else { format!("retry {attempt}") };
    if with.is_empty() { name } else { format!("{with} {name}") }
}

fn last_of(delivery: &DeliveryView) -> String {
    let describe = |last: &Attempt| last.error.clone().unwrap_or_else(|| "without an error".to_owned());
    match delivery.attempts.last() {
        Some(last) => format!("the last attempt ended with {}", describe(last)),
        None => "no attempt has been made".to_owned(),
    }
}

fn parked(url: Option<&UrlRecord>) -> String {
    let Some(url) = url else { return "It is parked.".to_owned() };
    let (since, reason) = (url.health.since, &url.health.reason);
    match url.health.state {
        UrlState::Enabled => {
            "It is parked; its URL is enabled again, and it is about to be released.".to_owned()
        }
        UrlState::Disabled => format!(
            "It is parked: its URL has been disabled since {since} ({reason}); a probe that succeeds releases it."
        ),
        UrlState::Frozen => format!(
            "It is parked: its URL has been frozen since {since} ({reason}) until it is enabled by request."
        ),
    }
}

fn death(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Exhausted) => "all attempts failed",
        Some(Reason::Expired) => "its time was over before an attempt succeeded",
        Some(Reason::Unsubscribed) => "its subscription was deleted",
        Some(Reason::Inactive) => "its subscription was deactivated",
        None => "no reason is known",
    }
}

fn refusal(Refusal { filter, found }: &Refusal) -> String {
    let op = serde_json::to_value(filter.op)
        .ok()
        .and_then(|op| op.as_str().map(str::to_owned))
        .unwrap_or_default();
    let wanted = filter.value.as_ref().map_or_else(String::new, |value| format!(" {value}"));
    let found = found.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    format!("It was not sent: the filter \"{} {op}{wanted}\" found {found}.", filter.field)
}

pub(crate) async fn explain(viewer: Viewer, mut params: Params) -> Result<Response, Problem> {
    let (event, subscription) = (params.required("event"), params.required("subscription"));
    params.finish()?;
    let (event, subscription) = (event.unwrap_or_default(), subscription.unwrap_or_default());
    let why = match path::subscription_id(&subscription) {
        None => Explanation::of(Verdict::UnknownSubscription),
        Some(_) if !is_id(&event) => Explanation::of(Verdict::UnknownEvent),
        Some(id) => viewer.engine.explain(&viewer.tenant, &event, &id).await?,
    };
    Ok(response::ok(&ExplanationJson::of(&event, &subscription, &why)))
}
