//! The workloads. Each runs a sample of it, and says for how much of it the sample stands.

use std::time::Duration;

use holdfast_core::engine::{NewKey, SubscriptionPatch};
use holdfast_core::ids::{DeliveryKey, EventKey, Tenant, fingerprint};
use holdfast_core::ports::{Clock, Delay, Outgoing, Queue, QueueName};
use holdfast_core::records::{DeliveryRecord, Message, NewDelivery, Record, Subscription};
use holdfast_core::rules::access::Role;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::Timestamp;
use holdfast_sim::me;

use crate::deployment::Deployment;
use crate::report::{Scale, Workload};

/// The batches of the event sources, as they are by default.
const BATCH: usize = 10;
const ALL: usize = usize::MAX;
const MINUTE: Duration = Duration::from_secs(60);

fn tenant(n: usize) -> Tenant {
    Tenant(format!("tenant-{n:04}"))
}

fn one_type(n: usize) -> Vec<String> {
    vec![format!("t.{n}")]
}

/// Many tenants, each with ten URLs, and single posts. Each post is authenticated.
pub(crate) async fn many_tenants(name: &'static str, per_second: f64) -> Workload {
    const TENANTS: usize = 100;
    const EVENTS: usize = 1_000;
    let deployment = Deployment::new(20);
    let mut keys = Vec::new();
    for n in 0..TENANTS {
        deployment.subscribe(&tenant(n), 10).await;
        let key =
            NewKey { tenant: Some(tenant(n)), role: Role::Ingest, description: None, expires_at_real: None };
        keys.push(deployment.engine().create_key(key, me()).await.expect("a key").text);
    }
    // Every instance knows the subscriptions.
    for engine in deployment.instances() {
        for n in 0..TENANTS {
            engine.accept(&tenant(n), Vec::new()).await.expect("nothing is accepted");
        }
    }
    deployment.dynamo.take_meter();
    for n in 0..EVENTS {
        let of = n % TENANTS;
        let hash = fingerprint(keys[of].as_bytes());
        assert!(deployment.engine().authenticate(&hash).await.expect("the key is read").is_some());
        deployment.post(&tenant(of), &one_type(n / TENANTS % 10)).await;
    }
    assert_eq!(deployment.deliver(QueueName::First, BATCH, ALL).await, EVENTS);
    let shown = &["keys", "tenant", "by-tenant"];
    let meter = deployment.dynamo.take_meter();
    Workload { name, scale: Scale::Seconds(EVENTS as f64 / per_second), meter, shown }
}

/// One tenant, to one URL or many.
pub(crate) async fn one_tenant(
    name: &'static str,
    per_second: f64,
    (urls, per_post, batch): (usize, usize, usize),
) -> Workload {
    const EVENTS: usize = 1_000;
    let deployment = Deployment::new(10);
    deployment.subscribe(&tenant(0), urls).await;
    for engine in deployment.instances() {
        engine.accept(&tenant(0), Vec::new()).await.expect("nothing is accepted");
    }
    deployment.dynamo.take_meter();
    for post in 0..EVENTS / per_post {
        let types = (0..per_post).map(|n| format!("t.{}", (post * per_post + n) % urls));
        deployment.post(&tenant(0), &types.collect::<Vec<_>>()).await;
    }
    assert_eq!(deployment.deliver(QueueName::First, batch, ALL).await, EVENTS);
    let shown = &["tenant", "subscriptions", "url", "by-tenant", "by-url", "by-state"];
    let meter = deployment.dynamo.take_meter();
    Workload { name, scale: Scale::Seconds(EVENTS as f64 / per_second), meter, shown }
}

/// Deliveries to a URL that is disabled are parked, one of them is sent as a probe, and all are released when the URL is enabled.
pub(crate) async fn dead_url() -> Vec<Workload> {
    const EVENTS: usize = 1_000;
    let deployment = Deployment::new(10);
    let subscription = deployment.subscribe(&tenant(0), 1).await.remove(0);
    deployment.let_receivers_answer(500);
    change_state(&deployment, &subscription, OperatorAction::Disable).await;
    for engine in deployment.instances() {
        engine.accept(&tenant(0), Vec::new()).await.expect("nothing is accepted");
    }
    deployment.dynamo.take_meter();
    for _ in 0..EVENTS / 10 {
        deployment.post(&tenant(0), &vec!["t.0".to_owned(); 10]).await;
    }
    assert_eq!(deployment.deliver(QueueName::First, BATCH, ALL).await, EVENTS);
    let parking = Workload {
        name: "10,000 events/s to a URL that is disabled",
        scale: Scale::Seconds(EVENTS as f64 / 10_000.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["parked", "url", "by-url", "by-state", "sweep"],
    };
    deployment.clock.advance(MINUTE * 11);
    deployment.deliver(QueueName::Retry, BATCH, ALL).await;
    deployment.dynamo.take_meter();
    let probe = Message::Probe { tenant: tenant(0), url_id: subscription.url_id.clone() };
    send_ticket(&deployment, probe).await;
    assert_eq!(deployment.deliver(QueueName::Retry, BATCH, ALL).await, 1);
    let probing = Workload {
        name: "a probe of it",
        scale: Scale::Times(1.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["parked", "url"],
    };
    deployment.let_receivers_answer(200);
    change_state(&deployment, &subscription, OperatorAction::Enable).await;
    // Until a step of 256 was made.
    for _ in 0..9 * 5 {
        deployment.deliver(QueueName::Retry, BATCH, ALL).await;
        deployment.clock.advance(Duration::from_secs(1));
    }
    let releasing = Workload {
        name: "its release, 2,560 every 5 s",
        // The sample has steps of at most 256.
        scale: Scale::Times(10.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["parked", "step", "by-state", "by-subscription", "sweep"],
    };
    vec![parking, probing, releasing]
}

async fn change_state(deployment: &Deployment, subscription: &Subscription, action: OperatorAction) {
    let engine = deployment.engine();
    let changed = engine.change_url_state(&tenant(0), &subscription.url_id, action, None, false, me()).await;
    changed.expect("the state changes");
}

async fn send_ticket(deployment: &Deployment, message: Message) {
    let ticket = Outgoing { message, delay: Delay::NONE };
    deployment.queue.send(QueueName::Retry, vec![ticket]).await.expect("a queue in memory");
}

/// One event to 10,000 subscriptions: starts of ingest, the job, and the deliveries.
pub(crate) async fn fan_out() -> Vec<Workload> {
    const SUBSCRIPTIONS: usize = 10_000;
    /// A job queues 100 deliveries in about 30 ms.
    const PER_SECOND: f64 = 3_333.0;
    let mut deployment = Deployment::new(10);
    deployment.subscribe(&tenant(0), SUBSCRIPTIONS).await;
    deployment.dynamo.take_meter();
    deployment.engine().accept(&tenant(0), Vec::new()).await.expect("nothing is accepted");
    let first_start = Workload {
        name: "a start of ingest without a snapshot, 10,000 subscriptions",
        scale: Scale::Times(1.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["subscriptions", "body"],
    };
    deployment.start_instance().accept(&tenant(0), Vec::new()).await.expect("nothing is accepted");
    let starts = Workload {
        name: "100 starts/s of ingest with a snapshot",
        scale: Scale::Times(100.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["body", "changes", "tenant"],
    };
    deployment.post(&tenant(0), &["all".to_owned()]).await;
    deployment.dynamo.take_meter();
    assert_eq!(deployment.deliver(QueueName::First, 1, 1).await, 1);
    let job = Workload {
        name: "the job of a fan-out to 10,000",
        scale: Scale::Seconds(SUBSCRIPTIONS as f64 / PER_SECOND),
        meter: deployment.dynamo.take_meter(),
        shown: &["job", "sweep"],
    };
    let sample = 1_500;
    deployment.deliver(QueueName::First, BATCH, sample).await;
    let delivered = Workload {
        name: "its deliveries",
        scale: Scale::Seconds(sample as f64 / PER_SECOND),
        meter: deployment.dynamo.take_meter(),
        shown: &["deliveries", "body", "subscriptions", "by-tenant"],
    };
    deployment.let_receivers_answer(500);
    let sample = 1_000;
    deployment.deliver(QueueName::First, BATCH, sample).await;
    let failed = Workload {
        name: "the same, all failing",
        scale: Scale::Seconds(sample as f64 / PER_SECOND),
        meter: deployment.dynamo.take_meter(),
        shown: &["deliveries", "by-tenant", "by-state", "sweep"],
    };
    vec![first_start, starts, job, delivered, failed]
}

/// Nothing answers for two days: every delivery has its twelve attempts. At any moment as many deliveries are at each of them as are
/// accepted in that time, so the sum over the life of the sample is what happens at the same time.
pub(crate) async fn outage() -> Workload {
    const EVENTS: usize = 300;
    const PER_SECOND: f64 = 1_000.0;
    let deployment = Deployment::new(10);
    for n in 0..EVENTS / 10 {
        deployment.subscribe(&tenant(n), 10).await;
    }
    deployment.let_receivers_answer(503);
    for n in 0..EVENTS {
        deployment.post(&tenant(n / 10), &one_type(n % 10)).await;
    }
    deployment.dynamo.take_meter();
    assert_eq!(deployment.deliver(QueueName::First, BATCH, ALL).await, EVENTS);
    let until = deployment.clock.now() + MINUTE * 60 * 53;
    let mut handled = 0;
    while deployment.clock.now() < until {
        let ready_at = deployment.queue.next_ready_at(QueueName::Retry);
        match ready_at.filter(|at| *at <= deployment.clock.now() + MINUTE * 15) {
            Some(at) => deployment.clock.advance(at.since(deployment.clock.now())),
            None => {
                deployment.clock.advance(MINUTE);
                // Most sweeps find nothing: those are left out.
                if deployment.dynamo.is_overdue() {
                    deployment.engine().sweep().await.expect("the sweep runs");
                }
            }
        }
        handled += deployment.deliver(QueueName::Retry, BATCH, ALL).await;
    }
    // Each event has a URL of its own, whose trouble is announced, and the death of its delivery.
    assert_eq!(handled, EVENTS * (11 + 2), "every retry was made once, and every announcement");
    Workload {
        name: "all of 1,000 events/s failing for two days",
        scale: Scale::Seconds(EVENTS as f64 / PER_SECOND),
        meter: deployment.dynamo.take_meter(),
        shown: &["sweep", "deliveries", "url", "by-state"],
    }
}

/// Every function instance writes down once a second what it did.
pub(crate) async fn instances() -> Workload {
    const INSTANCES: usize = 100;
    const ATTEMPTS: usize = 20;
    let deployment = Deployment::new(INSTANCES);
    deployment.subscribe(&tenant(0), 1).await;
    for _ in 0..INSTANCES * ATTEMPTS / 100 {
        deployment.post(&tenant(0), &vec!["t.0".to_owned(); 100]).await;
    }
    deployment.deliver(QueueName::First, ATTEMPTS, ALL).await;
    deployment.dynamo.take_meter();
    for engine in deployment.instances() {
        engine.flush_activity(true).await;
    }
    Workload {
        name: "1,000 function instances at work for one tenant",
        scale: Scale::Times(1_000.0 / INSTANCES as f64),
        meter: deployment.dynamo.take_meter(),
        shown: &["minutes", "attempts"],
    }
}

/// A subscription with a history moves to another URL.
pub(crate) async fn moving() -> Workload {
    let deployment = Deployment::new(2);
    let subscription = deployment.subscribe(&tenant(0), 1).await.remove(0);
    let history = (0..2_000).map(|n| {
        let mut record = delivery(&subscription, n, deployment.clock.now());
        record.progress.succeed(deployment.clock.now(), MINUTE);
        Record::Delivery(record)
    });
    deployment.put(history.collect()).await;
    let live = (2_000..2_003).map(|n| Record::Delivery(delivery(&subscription, n, deployment.clock.now())));
    deployment.put(live.collect()).await;
    deployment.dynamo.take_meter();
    let patch = SubscriptionPatch {
        url: Some("https://moved.example.com/".to_owned()),
        ..SubscriptionPatch::default()
    };
    let engine = deployment.engine();
    engine.update_subscription(&tenant(0), &subscription.id, patch, me()).await.expect("it moves");
    assert!(deployment.deliver(QueueName::Retry, BATCH, ALL).await > 0);
    Workload {
        name: "a subscription with a history moves",
        scale: Scale::Times(1.0),
        meter: deployment.dynamo.take_meter(),
        shown: &["deliveries", "by-subscription"],
    }
}

fn delivery(subscription: &Subscription, n: usize, now: Timestamp) -> DeliveryRecord {
    let event_id = format!("event-{n}");
    let key = DeliveryKey {
        tenant: subscription.tenant.clone(),
        event_key: EventKey::of(&event_id, now),
        subscription_id: subscription.id.clone(),
    };
    let new = NewDelivery {
        key,
        event_id,
        event_type: "t.0".to_owned(),
        accepted_at: now,
        url_id: subscription.url_id.clone(),
        url: subscription.url.clone(),
        trace: None,
    };
    DeliveryRecord::new(new, &Schedule::default())
}
