//! Memory by event types: as many patterns as subscriptions may have, each as long as patterns may be.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::arena::Arena;
use super::tenant::in_lanes;

/// The limits of the API.
const PATTERNS: usize = 100;
const SEGMENTS: usize = 16;
const SEGMENT_CHARS: usize = 64;
const SUBSCRIPTIONS: usize = 500;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let attacker = arena.attacker.clone();
    arena.alone().await?;
    let answers: RefCell<BTreeMap<u16, usize>> = RefCell::default();
    let refusal = RefCell::new(String::new());
    let subscribe = in_lanes(2, (0..SUBSCRIPTIONS).collect(), async |number| {
        let answer = attacker.post("/v1/subscriptions", subscription(*number)).await?;
        let status = answer.status.as_u16();
        *answers.borrow_mut().entry(status).or_default() += 1;
        if status != 201 {
            *refusal.borrow_mut() = answer.text;
        }
        Ok(())
    });
    arena.beside_all_of(subscribe).await?;
    let event = json!({ "type": pattern(0, 0).replace('*', "x"), "data": {} }).to_string();
    let posted = attacker.post("/v1/events", event.as_str()).await?.status.as_u16();
    let (created, refused) = (answers.borrow().get(&201).copied(), answers.borrow().get(&409).copied());
    let (created, refused) = (created.unwrap_or(0), refused.unwrap_or(0));
    arena.expect(created > 0 && refused > 0 && created + refused == SUBSCRIPTIONS, || {
        format!("subscriptions beyond the budget answer 409: {:?}", answers.borrow())
    });
    let clear = refusal.borrow().contains("memory") || refusal.borrow().contains("MB");
    arena.expect(clear, || format!("the refusal does not say what is used up: {}", refusal.borrow()));
    arena.restart().await?;
    arena.beside(std::future::ready(Ok(()))).await?;
    let after = attacker_event(arena, &event).await?;
    arena.expect([posted, after].iter().all(|status| [202, 503].contains(status)), || {
        format!("the attacker's event answers {posted}, after the restart {after}")
    });
    arena.count(format!(
        "{created} subscriptions created, {refused} refused; its event {posted}, then {after}"
    ));
    Ok(())
}

async fn attacker_event(arena: &Arena, event: &str) -> Result<u16> {
    Ok(arena.attacker.post("/v1/events", event).await?.status.as_u16())
}

fn subscription(number: usize) -> String {
    let types: Vec<String> = (0..PATTERNS).map(|at| pattern(number, at)).collect();
    let body: Value = json!({ "url": format!("http://127.0.0.1:65535/{number}"), "event_types": types });
    body.to_string()
}

/// No two begin alike, so that an index shares nothing between them.
fn pattern(subscription: usize, at: usize) -> String {
    let segment = |n: usize| {
        let start = format!("s{subscription}p{at}n{n}");
        format!("{start}{}", "x".repeat(SEGMENT_CHARS - start.len()))
    };
    (0..SEGMENTS).map(segment).collect::<Vec<_>>().join(".")
}
