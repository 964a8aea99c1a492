//! Pages and cursors.

use axum::http::StatusCode;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::world::World;

/// The ids of all items of a list, and the first cursor.
async fn list_all(world: &World, path: &str) -> (Vec<String>, String) {
    let (mut ids, mut first, mut cursor) = (Vec::new(), None, String::new());
    loop {
        let page = world.get(&format!("{path}{cursor}")).await.expect(StatusCode::OK);
        ids.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["next"], Value::Null);
            return (ids, first.unwrap_or_default());
        };
        first.get_or_insert_with(|| next.to_owned());
        cursor = format!("&cursor={next}");
    }
}

async fn filled() -> World {
    let world = World::new();
    for n in 0..5 {
        world.subscribe(&n.to_string()).await;
    }
    let events = json!([{"id": "x", "type": "a", "data": 1}, {"id": "y", "type": "a", "data": 2}]);
    world.post("/v1/events", events.to_string()).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    world
}

#[tokio::test]
async fn pages_have_no_gaps() {
    let world = filled().await;
    for (path, count) in [
        ("/v1/subscriptions?", 5),
        ("/v1/urls?", 5),
        ("/v1/urls?state=enabled&", 5),
        ("/v1/deliveries?", 10),
        ("/v1/deliveries?event=x&", 5),
        ("/v1/deliveries?state=delivered&", 10),
    ] {
        let (whole, _) = list_all(&world, &format!("{path}limit=100")).await;
        assert_eq!(whole.len(), count, "{path}");
        for limit in [1, 2, 5] {
            let (ids, _) = list_all(&world, &format!("{path}limit={limit}")).await;
            assert_eq!(ids, whole, "{path}limit={limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_bound_to_one_list_with_its_filters() {
    let world = filled().await;
    let lists = [
        "/v1/subscriptions?limit=2",
        "/v1/urls?limit=2",
        "/v1/urls?limit=2&state=enabled",
        "/v1/deliveries?limit=2",
        "/v1/deliveries?limit=2&event=x",
        "/v1/deliveries?limit=2&event=y",
    ];
    for of in lists {
        let (_, cursor) = list_all(&world, of).await;
        for with in lists {
            let answer = world.get(&format!("{with}&cursor={cursor}")).await;
            if of == with {
                answer.expect(StatusCode::OK);
            } else {
                assert_eq!(answer.problem(400), ["cursor"], "{of} {with}");
            }
        }
    }
}

#[tokio::test]
async fn a_damaged_cursor_is_rejected() {
    let world = filled().await;
    let (_, cursor) = list_all(&world, "/v1/urls?limit=2").await;
    let shorter = &cursor[..cursor.len() - 1];
    let changed: String = cursor.chars().rev().collect();
    for bad in [shorter, &changed, &format!("{cursor}AAAA"), "", "AAAAAAAAAAA", "AA", "%00", "é", "null"] {
        assert_eq!(
            world.get(&format!("/v1/urls?cursor={}", bad.replace('é', "%C3%A9"))).await.problem(400),
            ["cursor"]
        );
    }
    // The limit is not part of the list.
    world.get(&format!("/v1/urls?limit=1&cursor={cursor}")).await.expect(StatusCode::OK);
}

/// A cursor whose checksum needs no secret, for the first page of a tenant's list of URLs.
fn forged(after: &str, checksum_len: usize) -> String {
    let mut hasher = Sha256::new();
    for part in ["urls", "default"] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let checksum = hasher.chain_update(after).finalize();
    BASE64URL_NOPAD.encode(&[&checksum[..checksum_len], after.as_bytes()].concat())
}

#[tokio::test]
async fn a_forged_cursor_is_rejected() {
    let world = filled().await;
    for after in ["", "x", "url_", "\0", "🦀", "{}", "9999999999999999999999"] {
        for checksum_len in [8, 16, 32] {
            let path = format!("/v1/urls?cursor={}", forged(after, checksum_len));
            assert_eq!(world.get(&path).await.problem(400), ["cursor"], "{after:?}");
        }
    }
}

/// The functions on AWS are many processes.
#[tokio::test]
async fn another_process_continues_a_list() {
    let world = filled().await;
    let (ids, cursor) = list_all(&world, "/v1/urls?limit=2").await;
    let page = world.another_process().get(&format!("/v1/urls?limit=2&cursor={cursor}")).await;
    assert_eq!(page.expect(StatusCode::OK)["items"][0]["id"], *ids[2]);
}
