//! The sample events, as API Gateway sends them, over the ports in memory.

use std::sync::Arc;

use axum::Router;
use holdfast_api::{App, Keys};
use holdfast_aws::gateway;
use holdfast_core::engine::{Engine, NewSubscription, Settings};
use holdfast_core::ports::{Inbox, QueueName};
use holdfast_core::records::Message;
use holdfast_sim::{Memory, me};
use serde_json::Value;

const POST: &str = include_str!("../events/post.json");
const POST_BASE64: &str = include_str!("../events/post-base64.json");
const POST_WITHOUT_KEY: &str = include_str!("../events/post-without-key.json");

/// What the samples post as `data`, to the byte.
const DATA: &str =
    "{\"z\": 1,\n \"a\":12345678901234567890123456789012345678901, \"a\":\"\\u00e9 é \u{ffff}\"}";

struct Function {
    router: Router,
    memory: Memory,
}

impl Function {
    async fn new() -> Function {
        let memory = Memory::new();
        let engine = Engine::new(memory.ports(), Settings::default());
        let new = NewSubscription::to("https://receiver.example/orders", "*");
        engine.subscribe(&memory.tenant, new, me()).await.unwrap();
        let keys = Keys::single("hf_sample", memory.tenant.clone());
        let router = holdfast_api::router(Arc::new(App::new(Arc::new(engine), keys)));
        Function { router, memory }
    }

    async fn invoke(&self, event: &str) -> Value {
        let reply = gateway::answer(self.router.clone(), serde_json::from_str(event).unwrap()).await;
        serde_json::to_value(reply.unwrap()).unwrap()
    }

    /// The body that will be delivered.
    async fn queued_body(&self) -> String {
        let received = self.memory.queue.receive(QueueName::First, 10).await.unwrap();
        let [one] = &received[..] else { panic!("{} messages", received.len()) };
        let Ok(Message::FirstAttempt(first)) = &one.message else { panic!("{:?}", one.message) };
        String::from_utf8(first.body.clone().unwrap().to_vec()).unwrap()
    }
}

#[tokio::test]
async fn an_event_is_accepted_byte_for_byte() {
    for event in [POST, POST_BASE64] {
        let function = Function::new().await;
        let reply = function.invoke(event).await;
        assert_eq!(reply["statusCode"], 202, "{reply}");
        assert_eq!(reply["isBase64Encoded"], false);
        assert_eq!(reply["headers"]["content-type"], "application/json");
        let body: Value = serde_json::from_str(reply["body"].as_str().unwrap()).unwrap();
        assert_eq!((&body["id"], &body["deliveries"]), (&"order-1".into(), &1.into()));
        assert!(function.queued_body().await.ends_with(&format!("\"data\":{DATA}}}")));
        assert!(function.memory.receiver.requests().is_empty(), "an attempt was made");
    }
}

#[tokio::test]
async fn a_post_without_the_key_is_rejected() {
    let function = Function::new().await;
    let wrong_key = POST.replace("hf_sample", "hf_guess");
    for event in [POST_WITHOUT_KEY, &wrong_key] {
        let reply = function.invoke(event).await;
        assert_eq!(reply["statusCode"], 401, "{reply}");
        assert_eq!(reply["headers"]["content-type"], "application/problem+json");
    }
    assert!(function.memory.queue.is_empty(QueueName::First));
}
