//! The comparison: what was accepted, what was received, and what the API shows.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::cast::{TENANTS, subscribers};
use super::ledger::{Answer, Posted};
use super::receivers::Received;
use super::shown::{Delivery, STATES, Shown};
use super::trouble;
use super::world::World;
use crate::views::number;

/// The most that the overview counts.
const MAX_COUNTED: u64 = 1_000;
const MAX_ATTEMPTS: usize = 12;
/// How a delivery may end without having been received: no subscription is deleted or deactivated.
const REASONS: [&str; 2] = ["exhausted", "expired"];

pub(super) fn check(world: &World, shown: &Shown) {
    world.receivers.faults().into_iter().for_each(|fault| world.fault(fault));
    let posted = world.ledger.posted().clone();
    let received = world.receivers.received();
    let interruptions = world.interruptions();
    let lost = |one: &Received| trouble::lost(&interruptions, &one.requests);
    let lost: HashMap<&str, usize> = received.iter().map(|(id, one)| (id.as_str(), lost(one))).collect();
    check_accepted(world, &posted, &received, &lost, shown);
    check_received(world, &posted, &received);
    check_known(world, &posted, &received, shown);
    check_requests(world, &received, &lost, shown);
    (0..TENANTS).for_each(|tenant| check_counts(world, tenant, shown));
}

/// Every event that was answered 202 was received by every subscription that should get it, or is shown with where it is.
fn check_accepted(
    world: &World,
    posted: &BTreeMap<u64, Posted>,
    received: &HashMap<String, Received>,
    lost: &HashMap<&str, usize>,
    shown: &Shown,
) {
    let of_received =
        received.iter().map(|(id, one)| ((one.event_id.as_str(), one.subscription), id.as_str()));
    let of_received: HashMap<(&str, usize), &str> = of_received.collect();
    let of_shown = shown.deliveries.iter();
    let of_shown: HashMap<(&str, &str), &str> = of_shown
        .map(|(id, one)| ((one.event_id.as_str(), one.subscription_id.as_str()), id.as_str()))
        .collect();
    for (serial, one) in posted {
        let Answer::Accepted { id, .. } = &one.answer else { continue };
        for subscription in subscribers(&world.cast, one.tenant, one.family) {
            world.count("deliveries of accepted events");
            let received_as = of_received.get(&(id.as_str(), subscription)).copied();
            let shown_as = of_shown.get(&(id.as_str(), world.subscribed[subscription].id.as_str())).copied();
            let what = format!("event {id} (number {serial}) for subscription {subscription}");
            if received_as.is_some() && shown_as.is_some() && received_as != shown_as {
                world.fault(format!(
                    "{what}: it is shown as {shown_as:?} and was received as {received_as:?}"
                ));
            }
            let successes = received_as.and_then(|id| received.get(id)).map_or(0, Received::successes);
            match shown_as.and_then(|id| shown.deliveries.get(id)) {
                Some(delivery) => {
                    let may_be_lost = received_as.and_then(|id| lost.get(id)).is_some_and(|lost| *lost > 0);
                    check_state(world, &what, delivery, successes, may_be_lost);
                }
                // The log of a success is dropped if it cannot be written.
                None if successes > 0 => world.count("deliveries: received and not shown"),
                None => world.fault(format!("{what} is lost: neither received nor shown")),
            }
        }
    }
}

/// An interruption may have lost the log of an attempt, or what followed from it.
fn check_state(world: &World, what: &str, delivery: &Delivery, successes: usize, may_be_lost: bool) {
    let reason = delivery.reason.as_deref();
    let newest = delivery.attempts.iter().filter(|attempt| attempt.epoch == delivery.epoch);
    let has_succeeded = newest.clone().any(|attempt| attempt.outcome == "success");
    // An attempt is logged before its delivery is recorded.
    let is_open = !has_succeeded || may_be_lost;
    let is_right = match delivery.state.as_str() {
        "delivered" => successes > 0 && (has_succeeded || may_be_lost),
        "dead" if reason == Some("exhausted") => (newest.count() >= MAX_ATTEMPTS || may_be_lost) && is_open,
        "dead" => reason.is_some_and(|reason| REASONS.contains(&reason)) && is_open,
        // Of those that are not parked, `settle` has found none.
        "waiting" | "parked" => is_open,
        _ => false,
    };
    let count = match delivery.state.as_str() {
        "delivered" => "deliveries: delivered",
        "dead" => "deliveries: dead",
        "parked" => "deliveries: parked",
        _ => "deliveries: waiting",
    };
    world.count(count);
    if !is_right {
        world.fault(format!("{what} was received {successes} times, and is shown as {delivery:?}"));
    }
}

/// Nothing is received that was not posted, or that was refused; an event is one event, however often it was posted.
fn check_received(world: &World, posted: &BTreeMap<u64, Posted>, received: &HashMap<String, Received>) {
    let mut ids: HashMap<u64, &str> = HashMap::new();
    let mut deliveries: HashMap<(u64, usize), &str> = HashMap::new();
    for (id, one) in received {
        let what = format!("{id} (event {}, number {})", one.event_id, one.serial);
        let Some(event) = posted.get(&one.serial) else {
            world.fault(format!("{what} was received and never posted"));
            continue;
        };
        let is_wanted = subscribers(&world.cast, event.tenant, event.family).any(|n| n == one.subscription);
        let is_its_id = match &event.answer {
            Answer::Accepted { id, .. } => *id == one.event_id,
            Answer::Unknown => event.given_id.as_ref().is_none_or(|given| *given == one.event_id),
            Answer::Refused => false,
        };
        if !is_wanted || !is_its_id {
            world.fault(format!("{what} was received by subscription {}, but: {event:?}", one.subscription));
        }
        if *ids.entry(one.serial).or_insert(&one.event_id) != one.event_id {
            world.fault(format!("{what} was posted as one event and is two"));
        }
        if *deliveries.entry((one.serial, one.subscription)).or_insert(id) != id {
            world.fault(format!("{what} was received as two deliveries"));
        }
    }
}

/// Nothing is shown that was not posted. An event without an answer and without a given id may be there under an id that only the server
/// knows.
fn check_known(
    world: &World,
    posted: &BTreeMap<u64, Posted>,
    received: &HashMap<String, Received>,
    shown: &Shown,
) {
    let known: HashSet<&str> = posted
        .values()
        .filter_map(|one| match &one.answer {
            Answer::Accepted { id, .. } => Some(id.as_str()),
            Answer::Unknown | Answer::Refused => one.given_id.as_deref(),
        })
        .collect();
    for tenant in 0..TENANTS {
        let events = shown.deliveries.values().filter(|delivery| delivery.tenant == tenant);
        let strange: HashSet<&str> =
            events.map(|delivery| delivery.event_id.as_str()).filter(|id| !known.contains(id)).collect();
        let unknown =
            posted.values().filter(|one| one.tenant == tenant && one.answer == Answer::Unknown).count();
        if strange.len() > unknown {
            let count = strange.len();
            world.fault(format!(
                "{count} events of tenant {tenant} are shown, but {unknown} posts have no answer"
            ));
        }
    }
    let mut pairs = HashSet::new();
    for (id, one) in &shown.deliveries {
        if !pairs.insert((one.tenant, &one.event_id, &one.subscription_id)) {
            world.fault(format!("{id} is a second delivery of event {} to one subscription", one.event_id));
        }
        if one.state == "delivered" && !received.contains_key(id) {
            world.fault(format!("{id} is shown as delivered, but was never received"));
        }
    }
}

/// Each request is an attempt that is shown, or one whose outcome was lost in an interruption.
fn check_requests(
    world: &World,
    received: &HashMap<String, Received>,
    lost: &HashMap<&str, usize>,
    shown: &Shown,
) {
    let mut unexplained = Vec::new();
    for (id, one) in received {
        let lost = lost[id.as_str()];
        let Some(delivery) = shown.deliveries.get(id) else {
            if lost == 0 {
                unexplained.push(format!("{id} was received, but is not shown: {one:?}"));
            }
            continue;
        };
        let repeated = check_attempts(world, id, delivery);
        if repeated > lost + delivery.count("interrupted") {
            unexplained.push(format!("{id}: {repeated} attempts are repeated, {lost} lost: {delivery:?}"));
        }
        if delivery.has_more_attempts {
            continue;
        }
        let made = delivery.count("success") + delivery.count("failure");
        if one.requests.len() > made + lost {
            unexplained.push(format!("{id}: {} requests, {made} attempts, {lost} lost", one.requests.len()));
        }
        let timed_out = delivery.attempts.iter().filter(|attempt| attempt.has_timed_out).count();
        let (given, seen) = (one.successes(), delivery.count("success"));
        if seen > given {
            world.fault(format!(
                "{id} shows {seen} successes, but its receiver succeeded {given} times: {one:?}"
            ));
        }
        if given > seen + lost + timed_out {
            unexplained.push(format!("{id}: its receiver succeeded {given} times, and {seen} are shown"));
        }
        (0..one.requests.len().saturating_sub(made))
            .for_each(|_| world.count("requests repeated after an interruption"));
    }
    let allowed = world.not_counted();
    if unexplained.len() as u64 > allowed {
        unexplained.truncate(10);
        world.fault(format!(
            "more requests than attempts, no interruption explains them, and the server did not count {allowed}: {unexplained:#?}"
        ));
    }
}

/// No epoch has more than twelve attempts, and only an interruption repeats one. Returns how many are repeated.
fn check_attempts(world: &World, id: &str, delivery: &Delivery) -> usize {
    let numbers: HashSet<(u64, u64)> = delivery.attempts.iter().map(|one| (one.epoch, one.n)).collect();
    if let Some((_, n)) = numbers.iter().find(|(_, n)| *n >= MAX_ATTEMPTS as u64) {
        world.fault(format!("{id} has attempt {n}: {delivery:?}"));
    }
    delivery.count("success") + delivery.count("failure") + delivery.count("interrupted") - numbers.len()
}

/// The lists by state and the overview agree with the deliveries and the URLs themselves.
fn check_counts(world: &World, tenant: usize, shown: &Shown) {
    let in_state = |state: &str| {
        let of_tenant = shown.deliveries.iter().filter(move |(_, one)| one.tenant == tenant);
        of_tenant.filter(|(_, one)| one.state == state).map(|(id, _)| id.as_str()).collect::<HashSet<&str>>()
    };
    let parked = in_state("parked");
    for state in STATES {
        let own = in_state(state);
        let listed: HashSet<&str> = shown.by_state[&(tenant, state)].iter().map(String::as_str).collect();
        // What is parked at the frozen URL may expire between two lists.
        let mut differ =
            own.symmetric_difference(&listed).filter(|id| !(state == "dead" && parked.contains(*id)));
        let may_expire = state == "parked" && listed.is_subset(&own);
        if let (Some(id), false) = (differ.next(), may_expire) {
            let count = 1 + differ.count();
            world.fault(format!(
                "tenant {tenant}: {count} deliveries are {state} or listed so, not both: {id}"
            ));
        }
    }
    let overview = &shown.overviews[tenant];
    let capped = |count: usize| (count as u64).min(MAX_COUNTED);
    let counted = |field: &str| number(&overview[field], "count").unwrap_or(u64::MAX);
    if counted("waiting") != capped(in_state("waiting").len()) {
        world.fault(format!("tenant {tenant}: waiting is {} in the overview", overview["waiting"]));
    }
    let (dead, all) = (in_state("dead").len(), in_state("dead").len() + parked.len());
    if !(capped(dead)..=capped(all)).contains(&counted("dead")) || counted("parked") > capped(parked.len()) {
        world.fault(format!(
            "tenant {tenant}: {} dead and {} parked in the overview, not {dead} and {}",
            overview["dead"],
            overview["parked"],
            parked.len()
        ));
    }
    for state in ["enabled", "disabled", "frozen"] {
        let count = shown.urls[tenant].iter().filter(|url| url["state"] == state).count();
        if overview["urls"][state] != count {
            world.fault(format!("tenant {tenant}: {count} URLs are {state}, but: {}", overview["urls"]));
        }
    }
    shown.urls[tenant].iter().for_each(|url| check_window(world, url));
}

fn check_window(world: &World, url: &Value) {
    let [attempts, failures, first, first_failures] =
        ["window_attempts", "window_failures", "window_first_attempts", "window_first_failures"]
            .map(|field| number(url, field).unwrap_or(u64::MAX));
    if failures > attempts || first > attempts || first_failures > first || first_failures > failures {
        world.fault(format!("the window of a URL is impossible: {url}"));
    }
}
