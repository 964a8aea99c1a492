//! Requests that are rejected, and the fields that the answer names.

use axum::http::StatusCode;
use serde_json::json;

use holdfast_core::engine::DeliveryLog;

use crate::world::World;

#[tokio::test]
async fn invalid_events_are_rejected_by_field() {
    let world = World::new();
    let (long_id, long_subject, seventeen) = ("i".repeat(257), "é".repeat(1_025), ["a"; 17].join("."));
    for (body, fields) in [
        ("{}".to_owned(), vec!["type", "data"]),
        (json!({"type": "a"}).to_string(), vec!["data"]),
        (json!({"type": null, "data": 1}).to_string(), vec!["type"]),
        (json!({"type": 7, "data": 1}).to_string(), vec!["type"]),
        (json!({"type": "a..b", "data": 1}).to_string(), vec!["type"]),
        (json!({"type": "a.*", "data": 1}).to_string(), vec!["type"]),
        (json!({"type": "a".repeat(65), "data": 1}).to_string(), vec!["type"]),
        (json!({"type": seventeen, "data": 1}).to_string(), vec!["type"]),
        (json!({"type": "holdfast.url.disabled", "data": 1}).to_string(), vec!["type"]),
        (json!({"type": "a", "data": 1, "id": ""}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "id": 5}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "id": "a b"}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "id": "é"}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "id": "a\n"}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "id": long_id}).to_string(), vec!["id"]),
        (json!({"type": "a", "data": 1, "subject": []}).to_string(), vec!["subject"]),
        (json!({"type": "a", "data": 1, "subject": long_subject}).to_string(), vec!["subject"]),
        (json!({"type": "a", "data": 1, "timestamp": 1}).to_string(), vec!["timestamp"]),
        (r#"{"type":"a","data":1,"data":1}"#.to_owned(), vec!["data"]),
        (r#"{"type":"a","data":1,"da\u0074a":1}"#.to_owned(), vec!["data"]),
        (
            r#"{"type":1,"id":2,"subject":3,"more":4}"#.to_owned(),
            vec!["id", "type", "subject", "data", "more"],
        ),
        (r#"[{"type":"a","data":1},{"data":1,"x":1}]"#.to_owned(), vec!["[1].type", "[1].x"]),
        (r#"[null, []]"#.to_owned(), vec!["[0]", "[1]"]),
    ] {
        let answer = world.post("/v1/events", body.clone()).await;
        assert_eq!(answer.problem(400), fields, "{body}");
        assert!(answer.detail().starts_with(&format!("`{}`: ", fields[0])), "{}", answer.detail());
    }
}

#[tokio::test]
async fn values_of_the_maximum_length_are_accepted() {
    let world = World::new();
    let longest = ["a".repeat(64).as_str(); 16].join(".");
    let event = json!({"type": longest, "data": 1, "id": "~".repeat(256), "subject": "é".repeat(1_024)});
    assert_eq!(world.post("/v1/events", event.to_string()).await.status, 202);
    let subscription = json!({
        "url": "https://receiver.example/", "event_types": vec![longest; 100], "auth_token": "t".repeat(4_096),
        "filters": vec![json!({"field": "data.a", "op": "eq", "value": null}); 50],
        "description": "é".repeat(1_024), "filter_connector": "or", "active": false,
    });
    assert_eq!(world.post("/v1/subscriptions", subscription.to_string()).await.status, 201);
}

#[tokio::test]
async fn invalid_json_is_rejected_with_its_position() {
    let world = World::new();
    for (body, place) in [
        (&b""[..], "line 1 column 0"),
        (b"{\n\"type\": a}", "line 2 column 9"),
        (b"{\"type\":\"a\",\"data\":[1,]}", "line 1 column 23"),
        (b"{\"type\":\"a\",\"data\":01}", "line 1 column 21"),
        (b"{\"type\":\"a\",\"data\":1} {}", "line 1 column 23"),
        (b"{\"type\":\"a\",\"data\":\"\xff\"}", "line 1"),
        (b"{\"\xff\":1}", "line 1"),
        (b"{\"type\":\"a\",\"data\":\"\n\"}", "line 1 column 20"),
        (b"[{\"type\":\"a\",\"data\":1}", "line 1 column 22"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
        (b"nonsense", "line 1 column 2"),
    ] {
        let answer = world.post("/v1/events", body).await;
        assert!(answer.problem(400).is_empty());
        assert!(answer.detail().contains(place), "{:?} {}", String::from_utf8_lossy(body), answer.detail());
    }
    for body in ["7", "null", "\"x\"", "true"] {
        let answer = world.post("/v1/events", body).await;
        assert!(answer.problem(400).is_empty() && answer.detail().contains("object"), "{}", answer.detail());
    }
    for size in [0, 101] {
        let events = json!(vec![json!({"type": "a", "data": 1}); size]).to_string();
        assert!(world.post("/v1/events", events).await.problem(400).is_empty());
    }
}

#[tokio::test]
async fn very_many_fields_are_rejected_quickly() {
    let fields: Vec<_> = (0..90_000).map(|n| format!("\"{n:05}\":1")).collect();
    let named = World::new().post("/v1/events", format!("{{{}}}", fields.join(","))).await.problem(400);
    assert_eq!(named.len(), 66, "{named:?}");
}

#[tokio::test]
async fn invalid_subscriptions_are_rejected_by_field() {
    let world = World::with(false, DeliveryLog::All);
    for (change, fields) in [
        (json!({"url": null}), vec!["url"]),
        (json!({"url": 7}), vec!["url"]),
        (json!({"url": "receiver"}), vec!["url"]),
        (json!({"url": "http://receiver.example/"}), vec!["url"]),
        (json!({"url": "https://u:p@receiver.example/"}), vec!["url"]),
        (json!({"url": format!("https://receiver.example/{}", "x".repeat(2_048))}), vec!["url"]),
        (json!({"event_types": null}), vec!["event_types"]),
        (json!({"event_types": "a"}), vec!["event_types"]),
        (json!({"event_types": []}), vec!["event_types"]),
        (json!({"event_types": [1]}), vec!["event_types"]),
        (json!({"event_types": vec!["a"; 101]}), vec!["event_types"]),
        (json!({"event_types": ["a", "a*", "b", ""]}), vec!["event_types[1]", "event_types[3]"]),
        (json!({"filters": {}}), vec!["filters"]),
        (json!({"filters": [1]}), vec!["filters[0]"]),
        (json!({"filters": [{}]}), vec!["filters[0].field", "filters[0].op"]),
        (json!({"filters": [{"field": "a", "op": "like", "value": 1}]}), vec!["filters[0].op"]),
        (json!({"filters": [{"field": "a", "op": "eq"}]}), vec!["filters[0]"]),
        (json!({"filters": [{"field": "a..b", "op": "exists"}]}), vec!["filters[0]"]),
        (json!({"filters": [{"field": "a", "op": "exists", "not": 1}]}), vec!["filters[0].not"]),
        (json!({"filters": vec![json!({"field": "a", "op": "exists"}); 51]}), vec!["filters"]),
        (json!({"filter_connector": "xor"}), vec!["filter_connector"]),
        (json!({"auth_token": ""}), vec!["auth_token"]),
        (json!({"auth_token": "a\r\nx: y"}), vec!["auth_token"]),
        (json!({"auth_token": "t".repeat(4_097)}), vec!["auth_token"]),
        (json!({"description": "d".repeat(1_025)}), vec!["description"]),
        (json!({"active": "yes"}), vec!["active"]),
        (json!({"secret": "whsec_"}), vec!["secret"]),
        (json!({"url": 1, "event_types": 1, "active": 1}), vec!["url", "event_types", "active"]),
    ] {
        let mut body = json!({"url": "https://receiver.example/", "event_types": ["a"]});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = world.post("/v1/subscriptions", body.to_string()).await;
        assert_eq!(answer.problem(400), fields, "{change}");
    }
    world.post("/v1/subscriptions", "[]").await.problem(400);
    let deep = format!(
        r#"{{"filters":[{{"field":"a","op":"eq","value":{}1{}}}]}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let named = world.post("/v1/subscriptions", deep).await.problem(400);
    assert!(named.contains(&"filters[0].value".to_owned()), "{named:?}");
}

#[tokio::test]
async fn invalid_parameters_are_rejected_by_name() {
    let world = World::new();
    for (path, names) in [
        ("subscriptions?limit=0", vec!["limit"]),
        ("subscriptions?limit=101", vec!["limit"]),
        ("subscriptions?limit=-1", vec!["limit"]),
        ("subscriptions?limit=ten", vec!["limit"]),
        ("subscriptions?limit=1&limit=1", vec!["limit"]),
        ("subscriptions?state=active", vec!["state"]),
        ("urls?state=broken", vec!["state"]),
        ("urls?state=", vec!["state"]),
        ("urls?since=2026-01-01T00:00:00Z", vec!["since"]),
        ("deliveries?state=lost", vec!["state"]),
        ("deliveries?since=yesterday&until=2026", vec!["since", "until"]),
        ("deliveries?since=2026-01-01T00:00:00+02:00", vec!["since"]),
        ("deliveries?tenant=", vec!["tenant"]),
        ("deliveries?tenant=default&tenant=default", vec!["tenant"]),
        ("deliveries?cursor=AAAA&limit=x&state=y&z=1", vec!["state", "limit", "cursor", "z"]),
    ] {
        assert_eq!(world.get(&format!("/v1/{path}")).await.problem(400), names, "{path}");
    }
}

#[tokio::test]
async fn unknown_parameters_are_rejected_everywhere() {
    let world = World::new();
    let id = world.subscribe("a").await["id"].as_str().unwrap().to_owned();
    let one = format!("/v1/subscriptions/{id}");
    for (method, path, body) in [
        ("GET", one.as_str(), ""),
        ("DELETE", &one, ""),
        ("PATCH", &one, "{}"),
        ("POST", "/v1/events", r#"{"type":"a","data":1}"#),
        ("POST", "/v1/keys", r#"{"tenant":"a","role":"admin"}"#),
        ("GET", "/v1/overview", ""),
    ] {
        let answer = world.call(method, &format!("{path}?limt=1"), body).await;
        assert_eq!(answer.problem(400), ["limt"], "{method} {path}");
    }
    world.get(&format!("{one}?tenant=default")).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn the_total_size_of_filters_is_limited() {
    let world = World::new();
    let filters = |length: usize| {
        let filter = json!({"field": "data.a", "op": "eq", "value": "x".repeat(length)});
        json!({"url": "https://receiver.example/", "event_types": ["*"], "filters": [filter, filter]})
            .to_string()
    };
    assert_eq!(world.post("/v1/subscriptions", filters(8_200)).await.problem(400), ["filters"]);
    world.post("/v1/subscriptions", filters(8_100)).await.expect(StatusCode::CREATED);
}

/// The texts of problems: what is wrong, with the value, then what to do.
#[tokio::test]
async fn problems_say_what_is_wrong_and_what_to_do() {
    let world = World::new();
    for (method, path, body, detail) in [
        (
            "GET",
            "/v1/deliveries?status=dead",
            "",
            r#"`status`: unknown parameter "status"; did you mean "state"?"#,
        ),
        ("GET", "/v1/overview?from=1", "", r#"`from`: unknown parameter "from"; leave it out"#),
        ("GET", "/v1/urls?limit=ten", "", r#"`limit`: must be a number from 1 to 100, not "ten""#),
        (
            "GET",
            "/v1/urls?state=open",
            "",
            r#"`state`: must be one of enabled, disabled, frozen, not "open""#,
        ),
        (
            "POST",
            "/v1/subscriptions",
            r#"{"url":"https://a.example/","event_types":["*"],"filter":[]}"#,
            r#"`filter`: unknown field "filter"; did you mean "filters"?"#,
        ),
        (
            "POST",
            "/v1/subscriptions",
            r#"{"url":"example.com/x","event_types":["*"]}"#,
            r#"`url`: "example.com/x" is not an absolute URL; start it with https://"#,
        ),
        (
            "POST",
            "/v1/subscriptions",
            r#"{"url":"https://a.example/","event_types":["*"],"filters":[{"field":"a","op":"eq"}]}"#,
            r#"`filters[0]`: the op "eq" needs a `value`; add one"#,
        ),
        (
            "POST",
            "/v1/events",
            r#"{"type":7,"data":1}"#,
            "`type`: must be a dotted name such as order.created, not 7",
        ),
        (
            "POST",
            "/v1/keys",
            r#"{"role":"root"}"#,
            r#"`role`: must be one of ingest, viewer, admin, operator, not "root""#,
        ),
    ] {
        let answer = world.call(method, path, body).await;
        answer.problem(400);
        assert_eq!(answer.detail(), detail, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn a_token_is_not_repeated_in_an_error() {
    let new = json!({"url": "https://a.example/", "event_types": ["*"], "auth_token": "s3cret token"});
    let answer = World::new().post("/v1/subscriptions", new.to_string()).await;
    assert_eq!(answer.problem(400), ["auth_token"]);
    assert!(!answer.detail().contains("s3cret"), "{}", answer.detail());
}
