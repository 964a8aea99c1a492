//! Events for operators on SNS: on the emulator, and at an endpoint with scripted responses, because an emulator does not fail on request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use holdfast_aws::SnsFeed;
use holdfast_aws::connect::{self, Timeouts};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Feed, FeedEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::emulator;

const TOPIC: &str = "arn:aws:sns:us-east-1:111122223333:events";
const TIMEOUTS: Timeouts = Timeouts { attempt: Duration::from_secs(20), operation: Duration::from_secs(30) };

/// How the endpoint answers; `None`: never.
type Answer = Option<(u16, String)>;
type Bodies = Arc<Mutex<Vec<String>>>;

fn published(failed: &[usize]) -> Answer {
    let failed: String = failed
        .iter()
        .map(|id| {
            format!(
                "<member><Id>{id}</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member>"
            )
        })
        .collect();
    let result = format!("<Successful/><Failed>{failed}</Failed>");
    let xmlns = "http://sns.amazonaws.com/doc/2010-03-31/";
    let body = format!(
        "<PublishBatchResponse xmlns=\"{xmlns}\"><PublishBatchResult>{result}</PublishBatchResult></PublishBatchResponse>"
    );
    Some((200, body))
}

async fn feed(answer: Answer) -> (SnsFeed, Bodies) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let bodies = Bodies::default();
    let kept = Arc::clone(&bodies);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(respond(stream, Arc::clone(&kept), answer.clone()));
        }
    });
    (SnsFeed::new(&connect::to_emulator(&url, TIMEOUTS).await, TOPIC), bodies)
}

async fn respond(mut stream: TcpStream, bodies: Bodies, answer: Answer) {
    let mut bytes = Vec::new();
    let text = loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the client went away");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break body.to_owned();
        }
    };
    bodies.lock().unwrap().push(text);
    let Some((status, body)) = answer else { return std::future::pending().await };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).await.unwrap();
}

fn events(count: usize) -> Vec<FeedEvent> {
    let event = |number| FeedEvent {
        event_type: "holdfast.url.frozen".to_owned(),
        json: format!("{{\"number\":{number}}}"),
    };
    (0..count).map(event).collect()
}

#[tokio::test]
async fn events_are_published_ten_at_a_time_with_type_and_tenant() {
    let (feed, bodies) = feed(published(&[])).await;
    let tenant: Tenant = "acme".into();
    assert_eq!(feed.publish(&tenant, events(12)).await, 0);
    let bodies = bodies.lock().unwrap().clone();
    assert_eq!(bodies.len(), 2);
    for part in
        ["Action=PublishBatch", "TopicArn=arn%3Aaws%3Asns", "holdfast.url.frozen", "acme", "%22number%22%3A9"]
    {
        assert!(bodies[0].contains(part), "{part} in {}", bodies[0]);
    }
    assert!(
        bodies[1].contains("%22number%22%3A11") && !bodies[1].contains("%22number%22%3A9"),
        "{}",
        bodies[1]
    );
}

#[tokio::test]
async fn what_is_refused_is_counted_and_nothing_fails() {
    let tenant: Tenant = "acme".into();
    let (partly, _) = feed(published(&[0, 2])).await;
    assert_eq!(partly.publish(&tenant, events(3)).await, 2);
    let denied = "<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>";
    let (refusing, _) = feed(Some((403, denied.to_owned()))).await;
    assert_eq!(refusing.publish(&tenant, events(3)).await, 3);
}

#[tokio::test]
async fn a_topic_that_does_not_answer_is_given_up_after_two_seconds() {
    let (feed, _) = feed(None).await;
    let tenant: Tenant = "acme".into();
    let publishing = feed.publish(&tenant, events(11));
    let unpublished = tokio::time::timeout(Duration::from_secs(10), publishing).await.unwrap();
    assert_eq!(unpublished, 11);
}

#[tokio::test]
async fn a_queue_that_is_subscribed_to_the_topic_gets_the_events() {
    let sdk = connect::to_emulator(&emulator::endpoint(), emulator::TIMEOUTS).await;
    let (sqs, urls) = emulator::queues(Duration::from_secs(30)).await;
    let sns = aws_sdk_sns::Client::new(&sdk);
    let name = urls.retry.rsplit('/').next().unwrap();
    let topic = sns.create_topic().name(name).send().await.unwrap().topic_arn.unwrap();
    let arn = QueueAttributeName::QueueArn;
    let attributes = sqs.get_queue_attributes().queue_url(&urls.retry).attribute_names(arn.clone());
    let arn = attributes.send().await.unwrap().attributes.unwrap().remove(&arn).unwrap();
    let subscribe = sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(arn);
    subscribe.attributes("RawMessageDelivery", "true").send().await.unwrap();

    let feed = SnsFeed::new(&sdk, &topic);
    assert_eq!(feed.publish(&"acme".into(), events(1)).await, 0);
    let receive = sqs.receive_message().queue_url(&urls.retry).wait_time_seconds(10);
    let received = receive.message_attribute_names("All").send().await.unwrap().messages.unwrap();
    let [message] = received.as_slice() else { panic!("{} messages", received.len()) };
    assert_eq!(message.body.as_deref(), Some("{\"number\":0}"));
    let attributes = message.message_attributes.as_ref().unwrap();
    let text = |name: &str| attributes[name].string_value.clone().unwrap();
    assert_eq!((text("type"), text("tenant")), ("holdfast.url.frozen".to_owned(), "acme".to_owned()));
}
