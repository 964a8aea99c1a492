//! The sample events, as API Gateway sends them, over the ports in memory.

use std::sync::Arc;

use axum::Router;
use holdfast_api::{App, Keys};
use holdfast_aws::gateway;
use holdfast_core::engine::{Engine, NewEvent, Settings};
use holdfast_sim::Memory;
use serde_json::Value;

const SUBSCRIBE: &str = include_str!("../events/subscribe.json");
const LIST_URLS: &str = include_str!("../events/list-urls.json");
/// Its path is decoded, as an HTTP API passes it on, except for `%`.
const VIEW_EVENT: &str = include_str!("../events/view-event.json");
const HEALTHZ: &str = include_str!("../events/healthz.json");

struct Function {
    router: Router,
    engine: Arc<Engine>,
}

impl Function {
    fn new() -> Function {
        let memory = Memory::new();
        let engine = Arc::new(Engine::new(memory.ports(), Settings::default()));
        let keys = Keys::single("hf_sample", memory.tenant);
        let router = holdfast_api::router(Arc::new(App::new(engine.clone(), keys)));
        Function { router, engine }
    }

    /// The status and the body.
    async fn invoke(&self, event: &str) -> (u64, Value) {
        let reply = gateway::answer(self.router.clone(), serde_json::from_str(event).unwrap()).await;
        let reply = serde_json::to_value(reply.unwrap()).unwrap();
        let body = serde_json::from_str(reply["body"].as_str().unwrap()).unwrap();
        (reply["statusCode"].as_u64().unwrap(), body)
    }
}

#[tokio::test]
async fn a_subscription_is_created_and_its_url_listed() {
    let function = Function::new();
    let (status, created) = function.invoke(SUBSCRIBE).await;
    assert_eq!(status, 201, "{created}");
    let (status, urls) = function.invoke(LIST_URLS).await;
    assert_eq!((status, urls["items"].as_array().unwrap().len()), (200, 1), "{urls}");
    assert_eq!(urls["items"][0]["url"], "https://receiver.example/orders");
    let frozen = LIST_URLS.replace("state=enabled", "state=frozen");
    let (_, urls) = function.invoke(&frozen).await;
    assert_eq!(urls["items"].as_array().unwrap().len(), 0, "the query is read");
}

#[tokio::test]
async fn an_id_is_understood_decoded_and_encoded() {
    let function = Function::new();
    // The id, and its path as an HTTP API and as the URL of a function pass it on.
    let table = [
        ("a/b", "a/b", "a%2Fb"),
        ("/a//b/", "/a//b/", "%2Fa%2F%2Fb%2F"),
        ("a?b", "a?b", "a%3Fb"),
        ("100%", "100%", "100%25"),
        ("a+b", "a+b", "a%2Bb"),
        ("a+b", "a+b", "a+b"),
        ("..", "..", "%2E%2E"),
        ("a/b?c%d+e&f=g#h", "a/b?c%d+e&f=g#h", "a%2Fb%3Fc%25d%2Be%26f%3Dg%23h"),
    ];
    for (id, decoded, encoded) in table {
        let event = NewEvent { id: Some(id.to_owned()), ..NewEvent::new("order.created", "1") };
        function.engine.accept(&"default".into(), vec![event]).await.unwrap();
        for form in [decoded, encoded] {
            let (status, body) = function.invoke(&VIEW_EVENT.replace("a?b#c%25", form)).await;
            assert_eq!((status, &body["id"]), (200, &id.into()), "{form}: {body}");
        }
    }
}

#[tokio::test]
async fn ids_with_reserved_characters_are_found() {
    let function = Function::new();
    let event = NewEvent { id: Some("a?b#c%".to_owned()), ..NewEvent::new("order.created", "1") };
    function.engine.accept(&"default".into(), vec![event]).await.unwrap();
    let (status, body) = function.invoke(VIEW_EVENT).await;
    assert_eq!((status, &body["id"]), (200, &"a?b#c%".into()), "{body}");
}

/// API Gateway takes text as it is, so the files need no encoding.
#[tokio::test]
async fn the_console_is_served() {
    let function = Function::new();
    let event = HEALTHZ.replace("/healthz", "/console");
    let reply = gateway::answer(function.router.clone(), serde_json::from_str(&event).unwrap()).await;
    let reply = serde_json::to_value(reply.unwrap()).unwrap();
    assert_eq!((&reply["statusCode"], &reply["isBase64Encoded"]), (&200.into(), &false.into()));
    assert!(reply["body"].as_str().unwrap().contains("/app.js"), "{reply}");
    assert_eq!(reply["headers"]["content-type"], "text/html; charset=utf-8");
}

#[tokio::test]
async fn only_healthz_needs_no_key() {
    let function = Function::new();
    let (status, body) = function.invoke(HEALTHZ).await;
    assert_eq!((status, &body["status"]), (200, &"ok".into()));
    for event in [SUBSCRIBE, LIST_URLS, VIEW_EVENT] {
        let (status, _) = function.invoke(&event.replace("hf_sample", "hf_guess")).await;
        assert_eq!(status, 401);
    }
}
