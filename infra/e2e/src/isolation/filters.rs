//! CPU by filters: large events and subscriptions whose filters read all of them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};

use super::arena::Arena;
use super::tenant::{Tenant, in_lanes};

/// The most that a filter compares.
const VALUE_BYTES: usize = 64 << 10;
/// 14 of them are just below the limit of a post, 1,000,000 bytes.
const VALUES: usize = 14;
/// The limit on filters of a subscription.
const FILTERS: usize = 50;
/// The bytes of all filters of a subscription are limited to 16,384.
const NEEDLE_BYTES: usize = 200;
/// How many posts are under way at a time.
const LANES: usize = 4;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let attacker = arena.attacker.clone();
    let contains = (0..20).map(|n| subscription("contains", n, contains_filters())).collect();
    // With more of them, the subscriptions of one tenant take more memory than they may.
    let changed = arena.size.pick(100, 500);
    let changed = (0..changed).map(|n| subscription("changed", n, changed_filters())).collect();
    for bodies in [contains, changed] {
        in_lanes(4, bodies, async |body| attacker.subscribe(body).await.map(drop)).await?;
    }
    arena.alone().await?;
    let large = [event("contains", values('a')), event("changed", states())];
    let answers: Mutex<BTreeMap<u16, usize>> = Mutex::default();
    let posters = (0..LANES).map(|lane| post_forever(&attacker, &large[lane % large.len()], &answers));
    arena.beside(async { try_join_all(posters).await.map(drop) }).await?;
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    arena.expect(answers.contains_key(&202), || "no post of the attacker was accepted".to_owned());
    arena.count(format!("answers to the attacker by status: {answers:?}"));
    Ok(())
}

/// Until the caller drops it. Any answer is fine: the server may also refuse some.
async fn post_forever(attacker: &Tenant, event: &str, answers: &Mutex<BTreeMap<u16, usize>>) -> Result<()> {
    loop {
        let status = attacker.post("/v1/events", event).await?.status.as_u16();
        *answers.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }
}

/// The URL does not matter: no filter matches.
fn subscription(event_type: &str, number: usize, filters: Vec<Value>) -> Value {
    json!({
        "url": format!("http://127.0.0.1:65535/{event_type}/{number}"),
        "event_types": [event_type],
        "filters": filters,
        "filter_connector": "or",
    })
}

fn contains_filters() -> Vec<Value> {
    // Compared with almost all of the text before it turns out not to match.
    let needle = |filter: usize| format!("{}{}b", "a".repeat(NEEDLE_BYTES), "b".repeat(filter % 2));
    (0..FILTERS)
        .map(|filter| json!({ "field": format!("data.v{}", filter % VALUES), "op": "contains", "value": needle(filter) }))
        .collect()
}

fn changed_filters() -> Vec<Value> {
    (0..FILTERS)
        .map(|filter| json!({ "field": format!("v{}", filter % (VALUES / 2)), "op": "changed" }))
        .collect()
}

fn values(letter: char) -> Value {
    let text = letter.to_string().repeat(VALUE_BYTES);
    Value::Object((0..VALUES).map(|n| (format!("v{n}"), json!(text))).collect())
}

/// Two equal states, so that nothing has changed.
fn states() -> Value {
    let text = "a".repeat(VALUE_BYTES);
    let state: Map<String, Value> = (0..VALUES / 2).map(|n| (format!("v{n}"), json!(text))).collect();
    json!({ "oldState": state, "newState": state })
}

fn event(event_type: &str, data: Value) -> String {
    json!({ "type": event_type, "data": data }).to_string()
}
