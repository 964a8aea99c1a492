//! `data` is delivered byte for byte as posted.

use axum::http::StatusCode;
use proptest::prelude::*;

use crate::world::World;

/// Posts `data`, delivers it, and checks what the receiver got and what is shown.
async fn check(data: &str) {
    let world = World::new();
    world.subscribe("a").await;
    let event = format!("{{\"type\":\"a\", \"data\" :\n {data}\t,\"id\":\"x\"}}");
    world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let bodies = world.receiver.bodies();
    let head = r#"{"id":"x","type":"a","timestamp":"2026-01-01T00:00:00.000Z","data":"#;
    assert_eq!(bodies, [format!("{head}{data}}}")]);
    let shown = world.get("/v1/events/x").await;
    assert_eq!(shown.status, StatusCode::OK);
    let shown = String::from_utf8(shown.body.to_vec()).unwrap();
    assert!(shown.contains(&format!("\"data\":{data},\"delivery_count\"")), "{shown}");
}

#[tokio::test]
async fn odd_values_arrive_as_they_were_posted() {
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    for data in [
        "null",
        "1234567890123456789012345678901234567890",
        "0.10000000000000000000000000000000000001e-400",
        "1e999999",
        "-0.0",
        r#"{"b":1,"a":2,"b":3, "" : {} }"#,
        "\"\u{FFFF}\u{10FFFF}é\u{2028}\"",
        r#""\ud800 \u0000 \/ \u00e9""#,
        "[ 1 ,\r\n\t2 ]",
        &deep,
    ] {
        check(data).await;
    }
}

fn space() -> impl Strategy<Value = String> {
    "[ \n\r\t]{0,2}"
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c]",
        any::<char>()
            .prop_filter("must be escaped", |c| !c.is_control() && *c != '"' && *c != '\\')
            .prop_map(|c| c.to_string()),
        any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
        r#"\\["\\/bfnrt]"#,
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// Any valid JSON: with spaces, duplicate keys, and numbers that no type holds.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        text(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let spaced = (space(), inner, space()).prop_map(|(a, value, b)| format!("{a}{value}{b}")).boxed();
        let pair = (space(), text(), space(), spaced.clone())
            .prop_map(|(a, key, b, value)| format!("{a}{key}{b}:{value}"));
        prop_oneof![
            prop::collection::vec(spaced, 1..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(pair, 1..4).prop_map(|pairs| format!("{{{}}}", pairs.join(","))),
            space().prop_map(|space| format!("[{space}]")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_json_arrives_as_it_was_posted(data in json()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(check(&data));
    }
}
