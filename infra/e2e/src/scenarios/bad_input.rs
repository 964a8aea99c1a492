//! Invalid requests are rejected, and the problem names the field.

use anyhow::{Context, Result, ensure};
use reqwest::Method;

use crate::host::Answer;
use crate::scene::Scene;

const GOOD_URL: &str = "https://example.com/hook";
const UNKNOWN_URL: &str = "url_aaaaaaaaaaaaaaaaaaaaaaaaaa";

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    for (body, named) in bad_events() {
        let answer = scene.host.post("/v1/events", body.as_bytes()).await?;
        check(&answer, 400, named).with_context(|| format!("event {body}"))?;
    }
    for (body, named) in bad_subscriptions() {
        let answer = scene.host.post("/v1/subscriptions", body.as_bytes()).await?;
        check(&answer, 400, named).with_context(|| format!("subscription {body}"))?;
    }
    queries(&scene).await?;
    unknown_things(&scene).await?;
    equal_subscription(&scene).await
}

fn check(answer: &Answer, status: u16, named: &str) -> Result<()> {
    let problem = answer.expect(status)?;
    ensure!(answer.content_type == "application/problem+json", "unexpected: {answer:?}");
    ensure!(problem["status"] == status && problem["title"].is_string(), "unexpected: {answer:?}");
    let detail = problem["detail"].as_str().context("no detail")?;
    ensure!(detail.contains(named), "{named:?} is not named: {answer:?}");
    Ok(())
}

fn bad_events() -> Vec<(String, &'static str)> {
    let table = [
        ("", "JSON"),
        ("not json", "JSON"),
        (r#"{"type": "a.b", "data": "#, "JSON"),
        (r#""text""#, "object"),
        ("{}", "type"),
        (r#"{"type": "a.b"}"#, "data"),
        (r#"{"data": 1}"#, "type"),
        (r#"{"type": 7, "data": 1}"#, "type"),
        (r#"{"type": "a b", "data": 1}"#, "type"),
        (r#"{"type": "a..b", "data": 1}"#, "type"),
        (r#"{"type": "", "data": 1}"#, "type"),
        (r#"{"type": "a.*", "data": 1}"#, "type"),
        (r#"{"type": "holdfast.url.disabled", "data": 1}"#, "type"),
        (r#"{"type": "a.b", "data": 1, "id": 7}"#, "id"),
        (r#"{"type": "a.b", "data": 1, "id": ""}"#, "id"),
        (r#"{"type": "a.b", "data": 1, "id": "a b"}"#, "id"),
        (r#"{"type": "a.b", "data": 1, "subject": []}"#, "subject"),
        (r#"{"type": "a.b", "data": 1, "extra": 1}"#, "extra"),
        (r#"{"type": "a.b", "data": 1, "type": "a.c"}"#, "type"),
        (r#"[1]"#, "[0]"),
        (r#"[{"type": "a.b", "data": 1}, {"type": "a.b"}]"#, "[1].data"),
    ];
    table.map(|(body, named)| (body.to_owned(), named)).into()
}

fn bad_subscriptions() -> Vec<(String, &'static str)> {
    let with = |field: &str| format!(r#"{{"url": "{GOOD_URL}", "event_types": ["a.b"], {field}}}"#);
    let url = |url: &str| format!(r#"{{"url": {url}, "event_types": ["a.b"]}}"#);
    let types = |types: &str| format!(r#"{{"url": "{GOOD_URL}", "event_types": {types}}}"#);
    vec![
        ("[]".to_owned(), "object"),
        ("{".to_owned(), "JSON"),
        (r#"{"event_types": ["a.b"]}"#.to_owned(), "url"),
        (url("7"), "url"),
        (url(r#""""#), "url"),
        (url(r#""no url""#), "url"),
        (url(r#""ftp://example.com/""#), "url"),
        (url(&format!(r#""https://example.com/{}""#, "x".repeat(2_100))), "url"),
        (format!(r#"{{"url": "{GOOD_URL}"}}"#), "event_types"),
        (types("[]"), "event_types"),
        (types(r#""a.b""#), "event_types"),
        (types(r#"["a.b", "a b"]"#), "event_types[1]"),
        (types("[7]"), "event_types"),
        (with(r#""filters": {}"#), "filters"),
        (with(r#""filters": [{"field": "data.x", "op": "like", "value": 1}]"#), "filters[0].op"),
        (with(r#""filters": [{"op": "eq", "value": 1}]"#), "filters[0].field"),
        (with(r#""filter_connector": "xor""#), "filter_connector"),
        (with(r#""auth_token": "a b""#), "auth_token"),
        (with(r#""description": 7"#), "description"),
        (with(r#""active": "yes""#), "active"),
        (with(r#""secret": "whsec_mine""#), "secret"),
    ]
}

async fn queries(scene: &Scene<'_>) -> Result<()> {
    for path in ["/v1/deliveries", "/v1/subscriptions", "/v1/urls"] {
        let table = [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=ten", "limit"),
            ("limit=", "limit"),
            ("limit=1&limit=2", "limit"),
            ("cursor=nonsense", "cursor"),
            ("colour=red", "colour"),
        ];
        for (query, named) in table {
            let answer = scene.host.get(&format!("{path}?{query}")).await?;
            check(&answer, 400, named).with_context(|| format!("{path}?{query}"))?;
        }
    }
    for (query, named) in [
        ("/v1/deliveries?state=lost", "state"),
        ("/v1/deliveries?since=yesterday", "since"),
        ("/v1/deliveries?until=1", "until"),
        ("/v1/urls?state=broken", "state"),
    ] {
        check(&scene.host.get(query).await?, 400, named).with_context(|| query.to_owned())?;
    }
    Ok(())
}

async fn unknown_things(scene: &Scene<'_>) -> Result<()> {
    let key = Some(scene.host.key.as_str());
    let paths = [
        (Method::GET, "/v1/events/unknown-to-all".to_owned()),
        (Method::GET, "/v1/deliveries/dlv_unknown".to_owned()),
        (Method::POST, "/v1/deliveries/dlv_unknown/replay".to_owned()),
        (Method::GET, "/v1/subscriptions/sub_aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned()),
        (Method::DELETE, "/v1/subscriptions/sub_aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned()),
        (Method::GET, "/v1/subscriptions/nonsense".to_owned()),
        (Method::GET, format!("/v1/urls/{UNKNOWN_URL}")),
        (Method::POST, format!("/v1/urls/{UNKNOWN_URL}/enable")),
        (Method::POST, format!("/v1/urls/{UNKNOWN_URL}/freeze")),
        (Method::POST, format!("/v1/urls/{UNKNOWN_URL}/disable")),
        (Method::GET, "/v1/nothing/here".to_owned()),
    ];
    for (method, path) in paths {
        let answer = scene.host.send(method, &path, key, Vec::new()).await?;
        check(&answer, 404, "").with_context(|| path)?;
    }
    let answer = scene.host.send(Method::PUT, "/v1/events", key, Vec::new()).await?;
    check(&answer, 405, "")
}

async fn equal_subscription(scene: &Scene<'_>) -> Result<()> {
    let kind = |name: &str| scene.event_type(name);
    let body = |a: String, b: String| {
        format!(r#"{{"url": "{}", "event_types": ["{a}", "{b}"]}}"#, scene.receiver().url("/equal"))
    };
    scene.host.post("/v1/subscriptions", body(kind("a"), kind("b"))).await?.expect(201)?;
    check(&scene.host.post("/v1/subscriptions", body(kind("b"), kind("a"))).await?, 409, "")
}
