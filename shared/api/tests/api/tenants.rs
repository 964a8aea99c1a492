//! Tenants are isolated from each other, and operators see all.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

const EVENT: &str = r#"{"id":"order-1","type":"a","data":1}"#;
const NEW: &str = r#"{"url":"https://receiver.example/same","event_types":["*"]}"#;

/// Two tenants with an equal subscription and event, which was delivered, and their keys.
async fn two() -> (World, [String; 2]) {
    let world = World::new();
    let keys = [world.key("a", "admin").await, world.key("b", "admin").await];
    for key in &keys {
        world.call_as(key, "POST", "/v1/subscriptions", NEW).await.expect(StatusCode::CREATED);
        world.call_as(key, "POST", "/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    }
    world.work().await;
    (world, keys)
}

/// The id of the first item of a list.
async fn first_id(world: &World, key: &str, path: &str) -> String {
    let listed = world.call_as(key, "GET", path, "").await.expect(StatusCode::OK);
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_answered_as_if_it_did_not_exist() {
    let (world, [a, b]) = two().await;
    // Only `a` has this subscription.
    let only = r#"{"url":"https://receiver.example/only","event_types":["x"]}"#;
    let made = world.call_as(&a, "POST", "/v1/subscriptions", only).await.expect(StatusCode::CREATED);
    let subscription = made["id"].as_str().unwrap();
    let url = made["url_id"].as_str().unwrap();
    let delivery = first_id(&world, &a, "/v1/deliveries").await;
    let own = json!({"id": "mine", "type": "a", "data": 1}).to_string();
    world.call_as(&a, "POST", "/v1/events", own).await.expect(StatusCode::ACCEPTED);
    let none = "a".repeat(26);
    for (method, path, id, unknown) in [
        ("GET", "/v1/subscriptions/{}", subscription, format!("sub_{none}")),
        ("DELETE", "/v1/subscriptions/{}", subscription, format!("sub_{none}")),
        ("GET", "/v1/urls/{}", url, format!("url_{none}")),
        ("POST", "/v1/urls/{}/enable", url, format!("url_{none}")),
        ("POST", "/v1/urls/{}/freeze", url, format!("url_{none}")),
        ("POST", "/v1/urls/{}/disable", url, format!("url_{none}")),
        ("GET", "/v1/deliveries/{}", &delivery, format!("dlv_{none}{none}")),
        ("POST", "/v1/deliveries/{}/replay", &delivery, format!("dlv_{none}{none}")),
        ("GET", "/v1/events/{}", "mine", "nothing".to_owned()),
    ] {
        let theirs = world.call_as(&b, method, &path.replace("{}", id), "").await;
        let unknown = world.call_as(&b, method, &path.replace("{}", &unknown), "").await;
        theirs.problem(404);
        assert_eq!((theirs.status, &theirs.body), (unknown.status, &unknown.body), "{method} {path}");
    }
    for query in [format!("url={url}"), format!("subscription={subscription}"), "event=mine".to_owned()] {
        let path = format!("/v1/deliveries?{query}");
        let listed = world.call_as(&b, "GET", &path, "").await.expect(StatusCode::OK);
        assert_eq!(listed, json!({"items": [], "next": null}), "{query}");
    }
}

#[tokio::test]
async fn equal_ids_of_two_tenants_are_independent() {
    let (world, [a, b]) = two().await;
    let url = first_id(&world, &a, "/v1/urls").await;
    assert_eq!(url, first_id(&world, &b, "/v1/urls").await, "derived from the URL alone");
    let frozen =
        world.call_as(&a, "POST", &format!("/v1/urls/{url}/freeze"), "").await.expect(StatusCode::OK);
    assert_eq!(frozen["state"], "frozen");
    let theirs = world.call_as(&b, "GET", &format!("/v1/urls/{url}"), "").await.expect(StatusCode::OK);
    assert_eq!((&theirs["state"], &theirs["history"]), (&json!("enabled"), &json!([])));
    let other = r#"{"id":"order-1","type":"other","data":2}"#;
    world.call_as(&a, "POST", "/v1/events", other).await.problem(409);
    let event = world.call_as(&b, "GET", "/v1/events/order-1", "").await.expect(StatusCode::OK);
    assert_eq!(event["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(event["deliveries"][0]["attempts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_operators_may_name_another_tenant() {
    let (world, [a, _]) = two().await;
    let ingest = world.key("a", "ingest").await;
    for path in ["/v1/urls", "/v1/urls/x", "/v1/deliveries", "/v1/subscriptions", "/v1/events/x"] {
        for other in ["b", "unknown", "A%23", "*"] {
            let answer = world.call_as(&a, "GET", &format!("{path}?tenant={other}"), "").await;
            answer.problem(403);
            assert!(
                answer.detail().contains("only an operator key can name another one"),
                "{}",
                answer.detail()
            );
        }
    }
    world.call_as(&ingest, "POST", "/v1/events?tenant=b", EVENT).await.problem(403);
    world.call_as(&a, "GET", "/v1/urls?tenant=a&limit=1", "").await.expect(StatusCode::OK);
    assert_eq!(world.call_as(&a, "GET", "/v1/urls/x?tenant=", "").await.problem(400), ["tenant"]);
    assert_eq!(world.call_as(&a, "GET", "/v1/urls/x?tenant=a&tenant=b", "").await.problem(400), ["tenant"]);
}

#[tokio::test]
async fn an_operator_names_the_tenant() {
    let (world, [a, _]) = two().await;
    let operator = world.key("", "operator").await;
    let delivery = first_id(&world, &a, "/v1/deliveries").await;
    let url = first_id(&world, &a, "/v1/urls").await;
    for (method, path) in [
        ("GET", format!("/v1/deliveries/{delivery}")),
        ("GET", format!("/v1/urls/{url}")),
        ("POST", format!("/v1/urls/{url}/freeze")),
        ("GET", "/v1/events/order-1".to_owned()),
    ] {
        let answer = world.call_as(&operator, method, &path, "").await;
        assert_eq!(answer.problem(400), ["tenant"], "{method} {path}");
        assert!(answer.detail().contains("add ?tenant=NAME"), "{}", answer.detail());
        world.call_as(&operator, method, &format!("{path}?tenant=a"), "").await.expect(StatusCode::OK);
        for unknown in ["c", "A", "a%23b", "*"] {
            let answer = world.call_as(&operator, method, &format!("{path}?tenant={unknown}"), "").await;
            answer.problem(404);
            let expected = "There is no such tenant; create a key for it first, with POST /v1/keys.";
            assert_eq!(answer.detail(), expected);
        }
    }
    assert_eq!(world.call_as(&operator, "POST", "/v1/events", EVENT).await.problem(400), ["tenant"]);
    let posted = world.call_as(&operator, "POST", "/v1/events?tenant=b", EVENT).await;
    assert_eq!(posted.expect(StatusCode::ACCEPTED)["duplicate"], true);
    let shown = world.call_as(&a, "GET", &format!("/v1/urls/{url}"), "").await.expect(StatusCode::OK);
    assert!(shown["history"][0]["by"].as_str().unwrap().starts_with("key_"), "{shown}");
}

#[tokio::test]
async fn an_operator_with_a_tenant_uses_it_by_default_and_may_name_others() {
    let (world, _) = two().await;
    let operator = world.key("a", "operator").await;
    let own = world.call_as(&operator, "GET", "/v1/deliveries", "").await.expect(StatusCode::OK);
    assert_eq!(own["items"].as_array().unwrap().len(), 1);
    world.call_as(&operator, "GET", "/v1/events/order-1", "").await.expect(StatusCode::OK);
    world.call_as(&operator, "GET", "/v1/events/order-1?tenant=b", "").await.expect(StatusCode::OK);
    world.call_as(&operator, "GET", "/v1/events/order-1?tenant=default", "").await.problem(404);
}

/// All items of a list over all tenants.
async fn list_all(world: &World, key: &str, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.call_as(key, "GET", &format!("{path}{cursor}"), "").await.expect(StatusCode::OK);
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { return items };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn the_lists_of_an_operator_span_all_tenants_in_order() {
    let (world, [a, b]) = two().await;
    // The tenant of the built-in key, and tenants without any data.
    world.subscribe("home").await;
    world.post("/v1/events", EVENT).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let operator = world.key("", "operator").await;
    for name in ["aa", "c", "zz"] {
        world.key(name, "ingest").await;
    }
    for n in 0..3 {
        let body = NEW.replace("same", &n.to_string());
        for key in [&a, &b] {
            world.call_as(key, "POST", "/v1/subscriptions", body.clone()).await.expect(StatusCode::CREATED);
        }
    }
    for (list, counts) in [
        ("/v1/subscriptions?", [4, 4, 1]),
        ("/v1/urls?", [4, 4, 1]),
        ("/v1/urls?state=enabled&", [4, 4, 1]),
        ("/v1/deliveries?", [1, 1, 1]),
        ("/v1/deliveries?event=order-1&", [1, 1, 1]),
        ("/v1/deliveries?state=dead&", [0, 0, 0]),
        ("/v1/deliveries?url=x&", [0, 0, 0]),
    ] {
        let whole = list_all(&world, &operator, &format!("{list}limit=100")).await;
        let tenants: Vec<_> = whole.iter().map(|item| item["tenant"].as_str().unwrap()).collect();
        let [in_a, in_b, at_home] = counts;
        let expected = [vec!["a"; in_a], vec!["b"; in_b], vec!["default"; at_home]].concat();
        assert_eq!(tenants, expected, "{list}");
        for limit in [1, 2, 3] {
            assert_eq!(
                list_all(&world, &operator, &format!("{list}limit={limit}")).await,
                whole,
                "{list}{limit}"
            );
        }
        // The same, one tenant at a time, without the tenant in each item.
        let mut singly = Vec::new();
        for tenant in ["a", "b", "default"] {
            for mut item in list_all(&world, &operator, &format!("{list}tenant={tenant}&limit=2")).await {
                assert!(item.get("tenant").is_none(), "{item}");
                item["tenant"] = tenant.into();
                singly.push(item);
            }
        }
        assert_eq!(singly, whole, "{list}");
    }
}

#[tokio::test]
async fn a_list_over_very_many_tenants_has_several_pages() {
    let world = World::new();
    for n in 0..230 {
        world.key(&format!("t{n:03}"), "ingest").await;
    }
    let operator = world.key("", "operator").await;
    let last = world.key("z", "admin").await;
    world.call_as(&last, "POST", "/v1/subscriptions", NEW).await.expect(StatusCode::CREATED);
    let first = world.call_as(&operator, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    assert_eq!(first["items"], json!([]), "one request does not read all tenants");
    let found = list_all(&world, &operator, "/v1/urls?").await;
    assert_eq!((found.len(), &found[0]["tenant"]), (1, &json!("z")));
}

#[tokio::test]
async fn a_cursor_of_one_tenant_is_rejected_for_another() {
    let (world, [a, b]) = two().await;
    let operator = world.key("", "operator").await;
    for key in [&a, &b] {
        let body = NEW.replace("same", "more");
        world.call_as(key, "POST", "/v1/subscriptions", body).await.expect(StatusCode::CREATED);
    }
    let cursor_of = async |key: &str, query: &str| {
        let answer = world.call_as(key, "GET", &format!("/v1/urls?limit=1{query}"), "").await;
        answer.expect(StatusCode::OK)["next"].as_str().unwrap().to_owned()
    };
    let requests = [(&a, ""), (&b, ""), (&operator, "")];
    for (i, (of, query)) in requests.iter().enumerate() {
        let cursor = cursor_of(of, query).await;
        for (j, (with, query)) in requests.iter().enumerate() {
            let answer =
                world.call_as(with, "GET", &format!("/v1/urls?limit=1&cursor={cursor}{query}"), "").await;
            if i == j {
                answer.expect(StatusCode::OK);
            } else {
                assert_eq!(answer.problem(400), ["cursor"], "{i} {j}");
            }
        }
    }
    // A cursor is bound to the tenant, not to the key.
    let cursor = cursor_of(&a, "").await;
    let path = format!("/v1/urls?limit=1&tenant=a&cursor={cursor}");
    world.call_as(&operator, "GET", &path, "").await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_tenant_exists_after_its_keys_are_deleted() {
    let (world, [a, _]) = two().await;
    let id = first_id(&world, crate::world::KEY, "/v1/keys?tenant=a").await;
    assert_eq!(world.call("DELETE", &format!("/v1/keys/{id}?tenant=b"), "").await.problem(404), [""; 0]);
    let deleted = world.call("DELETE", &format!("/v1/keys/{id}?tenant=a"), "").await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    world.call_as(&a, "GET", "/v1/urls", "").await.problem(401);
    let urls = world.get("/v1/urls?tenant=a").await.expect(StatusCode::OK);
    assert_eq!(urls["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn every_record_of_a_tenant_has_its_name_in_the_partition() {
    let (world, [a, b]) = two().await;
    // Failures create more records: attempts, parked deliveries, histories, jobs.
    world.receiver.status.store(500, std::sync::atomic::Ordering::Relaxed);
    for key in [&a, &b] {
        let url = format!("/v1/urls/{}", first_id(&world, key, "/v1/urls").await);
        world
            .call_as(key, "POST", "/v1/events", r#"{"type":"a","data":1}"#)
            .await
            .expect(StatusCode::ACCEPTED);
        world.work().await;
        world.call_as(key, "POST", &format!("{url}/freeze"), "").await.expect(StatusCode::OK);
        world
            .call_as(key, "POST", "/v1/events", r#"{"type":"a","data":1}"#)
            .await
            .expect(StatusCode::ACCEPTED);
        world.work().await;
        let subscription = first_id(&world, key, "/v1/subscriptions").await;
        world.call_as(key, "DELETE", &format!("/v1/subscriptions/{subscription}"), "").await;
    }
    let without_tenant = ["keys", "operators", "tenants"];
    let mut kinds = std::collections::BTreeSet::new();
    for record in world.store.all() {
        let listed = record.index_entries().listed;
        let lists = listed.into_iter().flat_map(|l| [l.by_tenant, l.by_url, l.by_subscription]);
        for partition in lists.chain([record.key().partition]) {
            let mut parts = partition.split('#');
            kinds.insert(parts.next().unwrap().to_owned());
            let tenant = parts.next();
            assert!(
                without_tenant.contains(&partition.as_str()) || matches!(tenant, Some("a" | "b")),
                "{partition} names no tenant"
            );
        }
    }
    assert!(kinds.len() >= 10, "too few kinds of records: {kinds:?}");
}

#[tokio::test]
async fn an_operator_gets_an_overview_of_all_tenants_or_of_one() {
    let (world, [a, _]) = two().await;
    world.engine().flush_activity(true).await;
    let operator = world.key("", "operator").await;
    let overview = async |key: &str, path: &str| {
        let shown = world.call_as(key, "GET", path, "").await.expect(StatusCode::OK);
        [&shown["totals"]["events"], &shown["urls"]["enabled"], &shown["tenants"]["count"]]
            .map(|n| n.as_u64().unwrap())
    };
    assert_eq!(overview(&a, "/v1/overview").await, [1, 1, 1]);
    assert_eq!(overview(&operator, "/v1/overview?tenant=b").await, [1, 1, 1]);
    // The third is the tenant of the built-in key.
    assert_eq!(overview(&operator, "/v1/overview").await, [2, 2, 3]);
}

#[tokio::test]
async fn tenants_are_listed_by_name_for_operators() {
    let world = World::new();
    for tenant in ["shop-2", "a", "shop-1"] {
        world.key(tenant, "admin").await;
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/tenants?limit=3{cursor}")).await.json(200);
        names.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["tenant"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["a", "default", "shop-1", "shop-2"], "that of the built-in key too");
    let admin = world.key("a", "admin").await;
    world.call_as(&admin, "GET", "/v1/tenants", "").await.problem(403);
    let one = world.get("/v1/tenants?tenant=a").await.json(200);
    assert_eq!(one, serde_json::json!({"items": [{"tenant": "a"}], "next": null}));
}
