//! The queues beyond the contract: partial failures, the size of requests, and what only SQS has.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::emulator::{TIMEOUTS, queues};
use crate::scripted::{Endpoint, Request, Response, failed, scripted, taken_except};
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName};
use bytes::Bytes;
use holdfast_aws::connect::Timeouts;
use holdfast_aws::queue::{QueueUrls, SqsQueue, read_message};
use holdfast_core::ids::{DeliveryKey, EventKey, JobId, SubscriptionId, UrlId};
use holdfast_core::ports::chain;
use holdfast_core::ports::{
    Delay, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, SendError, Settlement, UnreadableMessage,
};
use holdfast_core::records::{FirstAttempt, Message, Unreadable};
use holdfast_core::time::Timestamp;
use serde_json::{Value, json};

const RETRY: QueueName = QueueName::Retry;
const VISIBILITY: Duration = Duration::from_secs(60);

/// Ticket number `n`, of a group of its own.
fn ticket(n: u8) -> Outgoing {
    let message = Message::Probe { tenant: "t".into(), url_id: UrlId::of(&n.to_string()) };
    Outgoing { message, delay: Delay::NONE }
}

fn with_body(body: Vec<u8>) -> Outgoing {
    let message = Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: "t".into(),
            event_key: EventKey::of("e", Timestamp::ZERO),
            subscription_id: SubscriptionId::new([1; 16]),
        },
        event_id: "e".into(),
        event_type: "a".into(),
        accepted_at: Timestamp::ZERO,
        url_id: UrlId::of("u"),
        body: Some(Bytes::from(body)),
        again: false,
        trace: None,
    });
    Outgoing { message, delay: Delay::NONE }
}

async fn on(
    time_scale: u32,
    script: impl Fn(usize, &Request) -> Response + Send + Sync + 'static,
) -> (SqsQueue, Endpoint) {
    let (client, endpoint) = scripted(TIMEOUTS, script).await;
    let url = |name: &str| format!("https://sqs.test/1/{name}");
    let urls =
        QueueUrls { first: url("first"), slow: url("slow"), retry: url("retry"), dead_letters: url("dead") };
    (SqsQueue::new(client, urls, time_scale), endpoint)
}

/// Returns the messages that could not be sent, sorted, and why.
async fn unsent_of(queue: &SqsQueue, messages: Vec<Outgoing>) -> (Vec<Outgoing>, QueueError) {
    let Err(SendError { unsent, source }) = queue.send(RETRY, messages).await else {
        panic!("all messages were sent");
    };
    (sorted(unsent), source)
}

fn sorted(mut messages: Vec<Outgoing>) -> Vec<Outgoing> {
    messages.sort_by_key(|outgoing| outgoing.message.group().to_owned());
    messages
}

fn is_ticket(entry: &Value, n: u8) -> bool {
    message_of(entry) == ticket(n).message
}

fn message_of(entry: &Value) -> Message {
    read_message(entry["MessageBody"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn throttled_entries_are_sent_again_alone() {
    let (queue, endpoint) = on(1, |before, request| {
        taken_except(request, |entry| {
            let throttled = before == 0 && (is_ticket(entry, 1) || is_ticket(entry, 3));
            throttled.then_some(("RequestThrottled", false))
        })
    })
    .await;
    queue.send(RETRY, (0..5).map(ticket).collect()).await.unwrap();
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 2);
    let sent_again: Vec<Message> = requests[1].entries().iter().map(message_of).collect();
    assert_eq!(sent_again, [1, 3].map(|n| ticket(n).message));
}

#[tokio::test]
async fn entries_that_stay_throttled_are_unsent() {
    let (queue, endpoint) = on(1, |_, request| {
        taken_except(request, |entry| is_ticket(entry, 2).then_some(("RequestThrottled", false)))
    })
    .await;
    let (unsent, why) = unsent_of(&queue, (0..5).map(ticket).collect()).await;
    assert_eq!(unsent, [ticket(2)]);
    assert!(matches!(why, QueueError::Throttled(_)), "{why:?}");
    assert!(chain(&why).contains("SendMessageBatch failed: RequestThrottled"), "{why:?}");
    assert_eq!(endpoint.requests().len(), 4);
}

#[tokio::test]
async fn rejected_entries_are_not_sent_again() {
    let (queue, endpoint) = on(1, |_, request| {
        taken_except(request, |entry| is_ticket(entry, 2).then_some(("InvalidMessageContents", true)))
    })
    .await;
    let (unsent, why) = unsent_of(&queue, (0..5).map(ticket).collect()).await;
    assert_eq!(unsent, [ticket(2)]);
    assert!(matches!(why, QueueError::Failed(_)), "{why:?}");
    assert!(chain(&why).contains("InvalidMessageContents"), "{why:?}");
    assert_eq!(endpoint.requests().len(), 1);
}

#[tokio::test]
async fn entries_that_the_response_does_not_mention_are_unsent() {
    let (queue, _) = on(1, |_, _| (200, json!({ "Successful": [], "Failed": [] }))).await;
    assert_eq!(unsent_of(&queue, vec![ticket(1)]).await.0, [ticket(1)]);
}

#[tokio::test]
async fn a_request_that_fails_leaves_only_its_own_entries_unsent() {
    let (queue, _) = on(1, |_, request| match request.entries().len() {
        10 => taken_except(request, |_| None),
        _ => failed(400, "InvalidSecurity"),
    })
    .await;
    let (unsent, why) = unsent_of(&queue, (0..24).map(ticket).collect()).await;
    assert_eq!(unsent, sorted((20..24).map(ticket).collect()));
    assert!(chain(&why).contains("InvalidSecurity: as scripted"), "{why:?}");
}

#[tokio::test]
async fn a_throttled_request_is_repeated() {
    let (queue, endpoint) = on(1, |before, request| match before {
        0 | 1 => failed(400, "RequestThrottled"),
        _ => taken_except(request, |_| None),
    })
    .await;
    queue.send(RETRY, vec![ticket(1)]).await.unwrap();
    assert_eq!(endpoint.requests().len(), 3);
}

#[tokio::test]
async fn a_queue_that_does_not_respond_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let short = Timeouts { attempt: Duration::from_millis(100), operation: Duration::from_millis(300) };
    let client = aws_sdk_sqs::Client::new(&holdfast_aws::connect::to_emulator(&url, short).await);
    let urls = QueueUrls { first: url.clone(), slow: url.clone(), retry: url.clone(), dead_letters: url };
    let queue = SqsQueue::new(client, urls, 1);
    let sending = unsent_of(&queue, vec![ticket(1)]);
    let (unsent, why) = tokio::time::timeout(Duration::from_secs(20), sending).await.unwrap();
    assert_eq!(unsent, [ticket(1)]);
    assert!(matches!(why, QueueError::TimedOut(_)), "{why:?}");
}

#[tokio::test]
async fn no_request_is_larger_than_sqs_takes() {
    let (queue, endpoint) = on(1, |_, request| taken_except(request, |_| None)).await;
    let plain = (0..10).map(|_| with_body(vec![b'x'; 150_000]));
    // In base 64 these are a third larger than they look, so that no two of them fit.
    let encoded = (0..6).map(|_| with_body(vec![0xff; 99_000]));
    let small = (0..25).map(|_| with_body(vec![b'y'; 30_000]));
    queue.send(RETRY, plain.chain(encoded).collect()).await.unwrap();
    queue.send(RETRY, small.collect()).await.unwrap();
    let requests = endpoint.requests();
    let mut sent = 0;
    for request in &requests {
        let bytes: usize =
            request.entries().iter().map(|entry| entry["MessageBody"].as_str().unwrap().len()).sum();
        assert!(bytes <= 262_144, "{bytes}");
        sent += request.entries().len();
    }
    // 10 alone, 6 alone, then 8 of 30 KB in each request.
    assert_eq!((sent, requests.len()), (41, 10 + 6 + 4));
}

#[tokio::test]
async fn delays_are_real_seconds_rounded_up() {
    for (time_scale, expected) in [(1, [0, 1, 85, 900]), (7, [0, 1, 13, 129]), (100_000, [0, 1, 1, 1])] {
        let (queue, endpoint) = on(time_scale, |_, request| taken_except(request, |_| None)).await;
        let delayed = [0, 1, 85, 900]
            .map(|secs| Outgoing { delay: Delay::new(Duration::from_secs(secs)).unwrap(), ..ticket(1) });
        queue.send(RETRY, delayed.to_vec()).await.unwrap();
        let sent = endpoint.requests();
        let delays: Vec<&Value> = sent[0].entries().iter().map(|entry| &entry["DelaySeconds"]).collect();
        assert_eq!(delays, expected);
        // The function that receives it can tell how late it is.
        let told = |entry: &Value| entry["MessageAttributes"]["delay"]["StringValue"].clone();
        let told: Vec<Value> = sent[0].entries().iter().map(told).collect();
        let text = |secs: u32| if secs == 0 { Value::Null } else { secs.to_string().into() };
        assert_eq!(told, expected.map(text));
    }
}

#[tokio::test]
async fn deletes_are_repeated_and_void_receipts_are_not_errors() {
    let (queue, endpoint) = on(1, |before, request| {
        taken_except(request, |entry| match entry["ReceiptHandle"].as_str().unwrap() {
            "void" => Some(("ReceiptHandleIsInvalid", true)),
            "busy" if before == 0 => Some(("InternalError", false)),
            "never" => Some(("InternalError", false)),
            _ => None,
        })
    })
    .await;
    let delete = async |names: &[&str]| {
        let deletes = names.iter().map(|name| (Receipt((*name).to_owned()), Settlement::Delete));
        queue.settle(RETRY, deletes.collect()).await
    };
    assert!(delete(&["void", "busy", "good"]).await.iter().all(Result::is_ok));
    let requests = endpoint.requests();
    assert_eq!(requests.iter().map(|request| request.entries().len()).collect::<Vec<_>>(), [3, 1]);
    assert!(requests.iter().all(|request| request.action == "DeleteMessageBatch"));
    let results = delete(&["good", "never"]).await;
    let [Ok(()), Err(error)] = &results[..] else { panic!("{results:?}") };
    assert!(chain(error).contains("InternalError"), "{error:?}");
}

#[tokio::test]
async fn messages_received_before_an_error_are_returned() {
    let (queue, _) = on(1, |before, _| match before {
        0 => {
            let message = json!({ "MessageId": "m", "ReceiptHandle": "r", "Body": "hello",
                "Attributes": { "ApproximateReceiveCount": "3" } });
            (200, json!({ "Messages": [message] }))
        }
        _ => failed(400, "InvalidSecurity"),
    })
    .await;
    let received = queue.receive(RETRY, 25).await.unwrap();
    assert_eq!((received.len(), received[0].receive_count), (1, 3));
    assert!(received[0].message.is_err());
    assert!(chain(&queue.receive(RETRY, 25).await.unwrap_err()).contains("InvalidSecurity"));
}

/// Everything on a queue, with all attributes.
async fn received(client: &aws_sdk_sqs::Client, url: &str) -> Vec<SqsMessage> {
    let mut all = Vec::new();
    loop {
        let request = client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(10)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        match request.send().await.unwrap().messages {
            Some(some) if !some.is_empty() => all.extend(some),
            _ => return all,
        }
    }
}

fn group_of(message: &SqsMessage) -> Option<&str> {
    let attributes = message.attributes.as_ref()?;
    attributes.get(&MessageSystemAttributeName::MessageGroupId).map(String::as_str)
}

#[tokio::test]
async fn every_message_carries_its_group() {
    let (client, urls) = queues(VISIBILITY).await;
    let queue = SqsQueue::new(client.clone(), urls.clone(), 1);
    let (tenant, url_id) = (holdfast_core::ids::Tenant::from("t"), UrlId::of("u"));
    let messages = [
        with_body(b"body".to_vec()),
        ticket(1),
        Outgoing {
            message: Message::Release { tenant: tenant.clone(), url_id, step: 1, links: 0 },
            delay: Delay::NONE,
        },
        Outgoing {
            message: Message::Job { tenant, id: JobId::new([1; 16]), step: None, links: 0 },
            delay: Delay::NONE,
        },
    ];
    for (name, url, by_url) in [
        (QueueName::First, &urls.first, false),
        (RETRY, &urls.retry, false),
        (QueueName::Slow, &urls.slow, true),
    ] {
        queue.send(name, messages.to_vec()).await.unwrap();
        let received = received(&client, url).await;
        assert_eq!(received.len(), messages.len());
        for message in received {
            let read = read_message(message.body().unwrap()).unwrap();
            let expected = if by_url { format!("t#{}", read.group()) } else { "t".to_owned() };
            assert_eq!(group_of(&message), Some(expected.as_str()), "{name:?}");
        }
    }
}

#[tokio::test]
async fn a_text_is_sent_unchanged() {
    let (client, urls) = queues(VISIBILITY).await;
    let queue = SqsQueue::new(client.clone(), urls.clone(), 900);
    let text = "{\"v\":99,\"kind\":\"unheard_of\"}\n\u{fffd}";
    queue.send_raw(QueueName::First, text, Some("g"), Delay::NONE).await.unwrap();
    queue.send_raw(QueueName::First, text, None, Delay::NONE).await.unwrap();
    queue.send_raw(QueueName::First, text, Some("later"), Delay::MAX).await.unwrap();
    let received = received(&client, &urls.first).await;
    let seen: Vec<_> = received.iter().map(|message| (message.body().unwrap(), group_of(message))).collect();
    assert_eq!(seen[..2], [(text, Some("g")), (text, None)]);
}

#[tokio::test]
async fn a_dead_letter_has_its_queue_and_the_reason() {
    let (client, urls) = queues(VISIBILITY).await;
    let queue = SqsQueue::new(client.clone(), urls.clone(), 1);
    for (text, why, source) in [
        ("not a message", "bad \0 reason", QueueName::First),
        ("~", &*"x".repeat(5_000), RETRY),
        ("~", "", RETRY),
    ] {
        queue.dead_letter(text, why, source).await.unwrap();
    }
    let attributes = |message: &SqsMessage| -> BTreeMap<String, String> {
        let all = message.message_attributes.clone().unwrap_or_default();
        all.into_iter().map(|(name, value)| (name, value.string_value.unwrap())).collect()
    };
    let received = received(&client, &urls.dead_letters).await;
    let seen: Vec<_> =
        received.iter().map(|message| (message.body().unwrap(), attributes(message))).collect();
    let expected = |why: &str, queue: &str| {
        BTreeMap::from([("why".to_owned(), why.to_owned()), ("queue".to_owned(), queue.to_owned())])
    };
    assert_eq!(
        seen,
        [
            ("not a message", expected("bad \u{fffd} reason", "first")),
            ("~", expected(&"x".repeat(1_000), "retry")),
            ("~", expected("-", "retry")),
        ]
    );
}

#[tokio::test]
async fn many_messages_are_postponed_together() {
    let (client, urls) = queues(VISIBILITY).await;
    let queue = SqsQueue::new(client, urls, 1);
    queue.send(RETRY, (0..25).map(ticket).collect()).await.unwrap();
    let received = queue.receive(RETRY, 100).await.unwrap();
    assert_eq!(received.len(), 25);
    assert!(queue.receive(RETRY, 100).await.unwrap().is_empty());
    let mut waits: Vec<(Receipt, Duration)> =
        received.into_iter().map(|received| (received.receipt, Duration::ZERO)).collect();
    waits[3].1 = Duration::from_secs(600);
    waits.push((Receipt("void".to_owned()), Duration::ZERO));
    let waits = waits.into_iter().map(|(receipt, wait)| (receipt, Settlement::RetryAfter(wait)));
    assert!(queue.settle(RETRY, waits.collect()).await.iter().all(Result::is_ok));
    assert_eq!(queue.receive(RETRY, 100).await.unwrap().len(), 24);
}

fn unreadable(why: Unreadable, text: &'static str, group: Option<&str>) -> UnreadableMessage {
    UnreadableMessage { why, payload: Bytes::from_static(text.as_bytes()), group: group.map(str::to_owned) }
}

#[tokio::test]
async fn unreadable_messages_are_moved_before_they_are_deleted() {
    let (client, urls) = queues(VISIBILITY).await;
    let queue = SqsQueue::new(client.clone(), urls.clone(), 900);
    let newer = "{\"v\":99,\"kind\":\"unheard_of\"}";
    queue.send_raw(RETRY, newer, Some("g"), Delay::NONE).await.unwrap();
    queue.send_raw(RETRY, "hello", None, Delay::NONE).await.unwrap();
    let mut messages = queue.receive(RETRY, 10).await.unwrap();
    messages.sort_by_key(|message| message.message.as_ref().unwrap_err().payload.clone());
    let settlements = messages.into_iter().map(|message| {
        let unreadable = message.message.unwrap_err();
        let settlement = match unreadable.why {
            Unreadable::Newer(_) => Settlement::Resend { message: unreadable, delay: Delay::NONE },
            Unreadable::Corrupt(_) => Settlement::DeadLetter(unreadable),
        };
        (message.receipt, settlement)
    });
    let settlements: Vec<_> = settlements.collect();
    assert_eq!(settlements.len(), 2);
    assert!(queue.settle(RETRY, settlements).await.iter().all(Result::is_ok));
    let again = queue.receive(RETRY, 10).await.unwrap();
    let [one] = &again[..] else { panic!("{again:?}") };
    // A new message, not the old one once more.
    assert_eq!(one.receive_count, 1);
    assert_eq!(one.message, Err(unreadable(Unreadable::Newer(99), newer, Some("g"))));
    let dead = received(&client, &urls.dead_letters).await;
    let [dead] = &dead[..] else { panic!("{} dead letters", dead.len()) };
    assert_eq!(dead.body(), Some("hello"));
}

#[tokio::test]
async fn a_message_that_cannot_be_moved_is_not_deleted() {
    let (queue, endpoint) = on(1, |_, request| match request.action.as_str() {
        "SendMessage" => failed(400, "InvalidSecurity"),
        _ => taken_except(request, |_| None),
    })
    .await;
    let corrupt = unreadable(Unreadable::Corrupt("no JSON".to_owned()), "hello", None);
    let newer = unreadable(Unreadable::Newer(9), "{}", None);
    let settlements = vec![
        (Receipt("a".to_owned()), Settlement::DeadLetter(corrupt)),
        (Receipt("b".to_owned()), Settlement::RetryAfter(Duration::from_secs(5))),
        (Receipt("c".to_owned()), Settlement::Resend { message: newer, delay: Delay::NONE }),
        (Receipt("d".to_owned()), Settlement::Delete),
    ];
    let results = queue.settle(RETRY, settlements).await;
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true]);
    let requests = endpoint.requests();
    let deletes: Vec<_> = requests.iter().filter(|request| request.action == "DeleteMessageBatch").collect();
    let [delete] = &deletes[..] else { panic!("{} deletes", deletes.len()) };
    assert_eq!(delete.entries().len(), 1);
    assert_eq!(delete.entries()[0]["ReceiptHandle"], "d");
}
