//! Long lists that grow while they are read: every item from the start is listed, and none twice.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

const MANY: usize = 10_000;

/// The ids of all items of a list. Calls `between` after each page but the last.
async fn list_all(world: &World, path: &str, between: impl AsyncFn(&World, usize, &Value)) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    for number in 0.. {
        let page = world.get(&format!("{path}{cursor}")).await.expect(StatusCode::OK);
        let items = page["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
        between(world, number, &items[0]).await;
    }
    ids
}

fn assert_complete(listed: &[String], before: &BTreeSet<String>) {
    let distinct: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "some were listed twice");
    assert_eq!(before.difference(&distinct).next(), None, "some are missing");
}

async fn post(world: &World, first: usize, count: usize) {
    let events: Vec<Value> =
        (first..first + count).map(|n| json!({"id": format!("e{n}"), "type": "a", "data": n})).collect();
    for some in events.chunks(100) {
        world.post("/v1/events", json!(some).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
}

#[tokio::test]
async fn new_and_replayed_deliveries_do_not_move_the_others() {
    let world = World::new();
    world.subscribe("a").await;
    // All in the same millisecond, so that they are ordered by their ids.
    post(&world, 0, MANY).await;
    let before: BTreeSet<String> =
        list_all(&world, "/v1/deliveries?limit=100", async |_, _, _| {}).await.into_iter().collect();
    assert_eq!(before.len(), MANY);
    let listed = list_all(&world, "/v1/deliveries?limit=100", async |world, number, shown| {
        post(world, MANY + number * 3, 3).await;
        let replay = format!("/v1/deliveries/{}/replay", shown["id"].as_str().unwrap());
        world.post(&replay, "").await.expect(StatusCode::ACCEPTED);
        world.work().await;
    })
    .await;
    assert_complete(&listed, &before);
}

async fn subscribe(world: &World, n: usize) {
    world.subscribe(&n.to_string()).await;
}

#[tokio::test]
async fn ten_thousand_subscriptions_and_the_deliveries_of_one_event_to_them() {
    let world = World::new();
    for n in 0..MANY - 100 {
        subscribe(&world, n).await;
    }
    let before: BTreeSet<String> =
        list_all(&world, "/v1/subscriptions?limit=100", async |_, _, _| {}).await.into_iter().collect();
    assert_eq!(before.len(), MANY - 100);
    let listed = list_all(&world, "/v1/subscriptions?limit=100", async |world, number, _| {
        subscribe(world, MANY + number).await;
    })
    .await;
    assert_complete(&listed, &before);

    world.post("/v1/events", r#"{"id":"one two","type":"a","data":1}"#).await.problem(400);
    let answer = world.post("/v1/events", r#"{"id":"one&two","type":"a","data":1}"#).await;
    let count = answer.expect(StatusCode::ACCEPTED)["deliveries"].as_u64().unwrap() as usize;
    assert!(count > MANY - 100);
    world.work().await;
    let event = world.get("/v1/events/one%26two").await.expect(StatusCode::OK);
    let shown: Vec<&str> =
        event["deliveries"].as_array().unwrap().iter().map(|d| d["id"].as_str().unwrap()).collect();
    assert_eq!((shown.len(), &event["more"], &event["delivery_count"]), (100, &json!(true), &json!(count)));
    assert_eq!(event["rest"], "/v1/deliveries?event=one%26two");
    let rest = format!("{}&limit=100", event["rest"].as_str().unwrap());
    let listed = list_all(&world, &rest, async |world, _, shown| {
        let replay = format!("/v1/deliveries/{}/replay", shown["id"].as_str().unwrap());
        world.post(&replay, "").await.expect(StatusCode::ACCEPTED);
        world.work().await;
    })
    .await;
    assert_eq!((listed.len(), listed.iter().collect::<BTreeSet<_>>().len()), (count, count));
    assert_eq!(listed[..100], shown);
}

/// A page of a hundred subscriptions was ten megabytes, and everybody waited while it was made.
#[tokio::test]
async fn a_page_of_large_subscriptions_has_fewer_of_them() {
    const COUNT: usize = 30;
    let world = World::new();
    let types: Vec<String> =
        (0..100).map(|n| format!("t{n}.{}", [&"a".repeat(60)[..]; 15].join("."))).collect();
    for n in 0..COUNT {
        let url = format!("https://receiver.example/{n}");
        let body = json!({"url": url, "event_types": types}).to_string();
        world.post("/v1/subscriptions", body).await.expect(StatusCode::CREATED);
    }
    let (mut listed, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/subscriptions?limit=100{cursor}")).await.expect(StatusCode::OK);
        let items = page["items"].as_array().unwrap();
        let bytes = page.to_string().len();
        assert!(bytes < 700_000, "{bytes} bytes with {} subscriptions", items.len());
        for item in items {
            assert!(listed.insert(item["id"].as_str().unwrap().to_owned()), "listed twice: {}", item["id"]);
        }
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page.get("partial"), None, "the last page is whole");
            break;
        };
        assert_eq!(page["partial"], true, "it is not full, although there are more");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed.len(), COUNT);
}
