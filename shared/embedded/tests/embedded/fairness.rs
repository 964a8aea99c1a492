//! Tenants and URLs that have more messages than fit in memory do not hold up others.

use std::sync::Arc;

use holdfast_core::ids::UrlId;
use holdfast_core::ports::{Delay, Inbox, Outgoing, Queue, QueueName, Receipt, Settlement};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::First;

fn message(tenant: &str, url: u64, step: u64) -> Outgoing {
    let url_id = UrlId::of(&format!("https://example.com/{url}"));
    Outgoing { message: Message::Release { tenant: tenant.into(), url_id, step }, delay: Delay::NONE }
}

fn open(dir: &tempfile::TempDir, options: &Options) -> Embedded {
    let clock = Arc::new(VirtualClock::new(START));
    Embedded::open(dir.path(), clock, options.clone()).unwrap()
}

/// What one receive returns: the tenant, the steps and the receipts.
async fn receive(embedded: &Embedded, max: usize) -> Option<(String, Vec<u64>, Vec<Receipt>)> {
    let received = embedded.queue.receive(QUEUE, max).await.unwrap();
    let mut tenants = Vec::new();
    let (mut steps, mut receipts) = (Vec::new(), Vec::new());
    for one in received {
        let Ok(Message::Release { tenant, step, .. }) = one.message else { panic!("not a release") };
        tenants.push(tenant.as_str().to_owned());
        steps.push(step);
        receipts.push(one.receipt);
    }
    tenants.pop().map(|tenant| (tenant, steps, receipts))
}

async fn delete(embedded: &Embedded, receipts: Vec<Receipt>) {
    let deletes = receipts.into_iter().map(|receipt| (receipt, Settlement::Delete)).collect();
    embedded.queue.settle(QUEUE, deletes).await;
    // The writing thread has then loaded what there was room for.
    embedded.purge(Timestamp::ZERO, 1).await.unwrap();
}

/// How many receives it takes until a message of this tenant comes.
async fn turns_until(embedded: &Embedded, wanted: &str) -> usize {
    for turn in 1..100 {
        let (tenant, _, receipts) = receive(embedded, 4).await.expect("there is something to receive");
        if tenant == wanted {
            return turn;
        }
        delete(embedded, receipts).await;
    }
    panic!("no message of {wanted}")
}

#[test]
fn what_waits_for_one_url_does_not_hold_up_another_even_after_a_restart() {
    block_on(async {
        let options =
            Options { memory_messages: 40, group_messages: 10, per_group_limit: 4, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for part in 0..10 {
            let flood = (0..100).map(|n| message("flood", 1, part * 100 + n)).collect();
            embedded.queue.send(QUEUE, flood).await.unwrap();
        }
        embedded.queue.send(QUEUE, vec![message("quiet", 2, 0)]).await.unwrap();
        assert!(turns_until(&embedded, "quiet").await <= 2);
        drop(embedded);

        let embedded = open(&dir, &options);
        assert!(turns_until(&embedded, "quiet").await <= 2, "its message was not deleted");
        // The flood is delivered in its order, though most of it was never in memory at the same time.
        let mut next = None;
        while let Some((tenant, steps, receipts)) = receive(&embedded, 4).await {
            assert_eq!(tenant, "flood");
            for step in steps {
                assert!(next.is_none_or(|next| step == next), "{step} is not {next:?}");
                next = Some(step + 1);
            }
            delete(&embedded, receipts).await;
        }
        assert_eq!(next, Some(1000));
    });
}

#[test]
fn a_tenant_with_many_urls_does_not_keep_others_out_of_memory() {
    block_on(async {
        let options = Options { memory_messages: 100, group_messages: 10, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for url in 0..50 {
            embedded.queue.send(QUEUE, (0..20).map(|n| message("many", url, n)).collect()).await.unwrap();
        }
        embedded.queue.send(QUEUE, vec![message("quiet", 2, 0)]).await.unwrap();
        assert!(turns_until(&embedded, "quiet").await <= 2);
        drop(embedded);
        assert!(turns_until(&open(&dir, &options), "quiet").await <= 2);
    });
}

#[test]
fn every_message_arrives_once_although_many_urls_share_little_memory() {
    block_on(async {
        let options =
            Options { memory_messages: 30, group_messages: 10, per_group_limit: 4, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for part in 0..20 {
            let some = (0..50).map(|n| message(["a", "b", "c"][n as usize % 3], n % 17, part)).collect();
            embedded.queue.send(QUEUE, some).await.unwrap();
        }
        let mut count = 0;
        while let Some((_, steps, receipts)) = receive(&embedded, 3).await {
            count += steps.len();
            delete(&embedded, receipts).await;
        }
        assert_eq!(count, 1000);
    });
}

#[test]
fn a_tenants_share_of_the_slots_shrinks_when_others_want_some() {
    block_on(async {
        let options = Options { first_concurrency: 16, per_group_limit: 4, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for url in 0..20 {
            embedded.queue.send(QUEUE, (0..4).map(|n| message("slow", url, n)).collect()).await.unwrap();
        }
        let mut held = Vec::new();
        while let Some((_, _, receipts)) = receive(&embedded, 4).await {
            held.extend(receipts);
        }
        assert_eq!(held.len(), 14, "alone, it has all but an eighth");

        for url in 0..20 {
            embedded.queue.send(QUEUE, vec![message("quiet", url, 0)]).await.unwrap();
        }
        let mut quiet = 0;
        while let Some((tenant, steps, _)) = receive(&embedded, 4).await {
            assert_eq!(tenant, "quiet");
            quiet += steps.len();
        }
        assert_eq!(quiet, 2, "the other one starts at once");
        for _ in 0..5 {
            delete(&embedded, vec![held.pop().unwrap()]).await;
            let (tenant, _, _) = receive(&embedded, 4).await.unwrap();
            assert_eq!(tenant, "quiet", "and gets what becomes free, up to its share");
        }
        assert!(receive(&embedded, 4).await.is_none(), "each has its share, and two slots are kept free");
    });
}
