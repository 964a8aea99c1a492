//! The producers. Those that give ids post again until they are answered; the others cannot know what became of a post without an answer.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::cast::{Family, TENANTS, subscribers};
use super::ledger::Answer;
use super::payload;
use super::world::World;
use crate::views::{items, number, text};

/// What a producer posts, and how often.
#[derive(Clone, Copy, Debug)]
enum Producer {
    Single,
    GivenIds,
    Batches,
    Large,
    FanOuts,
}

const PRODUCERS: [(Producer, Duration); 8] = [
    (Producer::Single, Duration::from_millis(50)),
    (Producer::Single, Duration::from_millis(70)),
    (Producer::GivenIds, Duration::from_millis(50)),
    (Producer::GivenIds, Duration::from_millis(70)),
    (Producer::Batches, Duration::from_millis(350)),
    (Producer::Batches, Duration::from_millis(450)),
    (Producer::Large, Duration::from_millis(700)),
    (Producer::FanOuts, Duration::from_millis(1_500)),
];

/// An event that is about to be posted.
struct New {
    serial: u64,
    given_id: Option<String>,
    family: Family,
    size: usize,
}

impl New {
    /// Written by hand, because the data has to stay as it is.
    fn json(&self) -> String {
        let (event_type, data) = (self.family.event_type(), payload::data(self.serial, self.size));
        match &self.given_id {
            Some(id) => format!(r#"{{"id":"{id}","type":"{event_type}","data":{data}}}"#),
            None => format!(r#"{{"type":"{event_type}","data":{data}}}"#),
        }
    }
}

pub(super) async fn run(world: &World, until: Instant) {
    let producers = PRODUCERS.map(|(producer, pace)| (producer, pace, world.rng()));
    join_all(producers.map(|(producer, pace, rng)| produce(world, producer, pace, rng, until))).await;
}

async fn produce(world: &World, producer: Producer, pace: Duration, mut rng: fastrand::Rng, until: Instant) {
    let mut ticks = interval(pace * world.plan.ease);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < until {
        ticks.tick().await;
        let tenant = if matches!(producer, Producer::FanOuts) { 0 } else { rng.usize(..TENANTS) };
        let events = choose(world, producer, tenant, &mut rng);
        let is_batch = matches!(producer, Producer::Batches);
        let is_accepted = post(world, tenant, &events, is_batch, &mut ticks).await;
        // A producer whose answer was lost would do this too.
        if is_accepted && events[0].given_id.is_some() && rng.u8(..5) == 0 {
            world.count("events posted again after their 202");
            post(world, tenant, &events, is_batch, &mut ticks).await;
        }
    }
}

fn choose(world: &World, producer: Producer, tenant: usize, rng: &mut fastrand::Rng) -> Vec<New> {
    let (count, is_id_given) = match producer {
        Producer::Batches => (rng.usize(2..40), rng.bool()),
        Producer::Single => (1, false),
        Producer::GivenIds => (1, true),
        Producer::Large | Producer::FanOuts => (1, rng.bool()),
    };
    let choose_one = |_| {
        let family = match producer {
            Producer::FanOuts => Family::Fan,
            _ => Family::SMALL[rng.usize(..Family::SMALL.len())],
        };
        let size = match producer {
            Producer::Large => rng.usize(100_000..900_000),
            _ if rng.u8(..10) == 0 => rng.usize(..20_000),
            _ => 0,
        };
        let (serial, given_id) = world.ledger.add(tenant, family, is_id_given);
        New { serial, given_id, family, size }
    };
    (0..count).map(choose_one).collect()
}

/// Posts events once, or until they are answered if they have ids. Returns whether they were accepted.
async fn post(world: &World, tenant: usize, events: &[New], is_batch: bool, ticks: &mut Interval) -> bool {
    let bodies: Vec<String> = events.iter().map(New::json).collect();
    let body = if is_batch { format!("[{}]", bodies.join(",")) } else { bodies.concat() };
    loop {
        world.count("posts");
        let answer = world.host(tenant).post("/v1/events", body.clone()).await;
        let is_id_given = events[0].given_id.is_some();
        match answer.as_ref().map(|answer| answer.status.as_u16()) {
            Ok(202) => {
                let answer = answer.and_then(|answer| answer.json());
                let noted = answer.and_then(|answer| note(world, tenant, events, &answer, is_batch));
                if let Err(error) = noted {
                    world.fault(format!("an answer to a post: {error:#}"));
                }
                return true;
            }
            Ok(429) if !is_id_given => {
                world.count("posts answered 429");
                events.iter().for_each(|event| world.ledger.answer(event.serial, Answer::Refused));
                return false;
            }
            Ok(429) => world.count("posts answered 429"),
            Ok(500..) => world.count("posts answered 5xx"),
            Ok(status) => {
                world.fault(format!("a post of valid events is answered {status}: {answer:?}"));
                return false;
            }
            Err(_) => world.count("posts without an answer"),
        }
        if !is_id_given {
            return false;
        }
        ticks.tick().await;
    }
}

/// Keeps what was accepted, and compares it with an earlier answer.
fn note(world: &World, tenant: usize, events: &[New], answer: &Value, is_batch: bool) -> Result<()> {
    let answers = if is_batch { items(answer)?.clone() } else { vec![answer.clone()] };
    ensure!(answers.len() == events.len(), "{} events have {} answers", events.len(), answers.len());
    for (event, answer) in events.iter().zip(&answers) {
        let (id, deliveries) = (text(answer, "id")?.to_owned(), number(answer, "deliveries")?);
        let expected = subscribers(&world.cast, tenant, event.family).count() as u64;
        ensure!(deliveries == expected, "{expected} subscriptions match, but: {answer}");
        ensure!(event.given_id.as_ref().is_none_or(|given| *given == id), "another id: {answer}");
        let before = world.ledger.posted().get(&event.serial).map(|posted| posted.answer.clone());
        let is_duplicate = answer["duplicate"].as_bool().context("no `duplicate`")?;
        match before.context("not in the ledger")? {
            Answer::Accepted { .. } => ensure!(is_duplicate, "it was accepted twice: {answer}"),
            Answer::Unknown | Answer::Refused => {
                ensure!(
                    event.given_id.is_some() || !is_duplicate,
                    "a duplicate without a given id: {answer}"
                );
            }
        }
        world.ledger.answer(event.serial, Answer::Accepted { id, deliveries });
    }
    Ok(())
}
