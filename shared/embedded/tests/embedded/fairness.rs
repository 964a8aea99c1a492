//! Tenants and URLs that have more messages than fit in memory do not hold up others.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ids::{JobId, UrlId};
use holdfast_core::ports::{Delay, Inbox, Outgoing, Queue, QueueName, Receipt, Received, Settlement};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::First;

fn message(tenant: &str, url: u64, step: u64) -> Outgoing {
    let url_id = UrlId::of(&format!("https://example.com/{url}"));
    Outgoing {
        message: Message::Release { tenant: tenant.into(), url_id, step, links: 0 },
        delay: Delay::NONE,
    }
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
    flush(embedded).await;
}

/// Returns when the writing thread has done everything so far and loaded what there was room for, which it does after each commit.
async fn flush(embedded: &Embedded) {
    for _ in 0..2 {
        embedded.purge(Timestamp::ZERO, 1).await.unwrap();
    }
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
fn a_small_tenant_keeps_its_concurrency_while_others_fill_the_memory() {
    block_on(async {
        let options =
            Options { memory_messages: 60, group_messages: 40, per_group_limit: 40, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for url in 0..20 {
            let (one, two) =
                ((0..20).map(|n| message("one", url, n)), (0..20).map(|n| message("two", url, n)));
            embedded.queue.send(QUEUE, one.chain(two).collect()).await.unwrap();
        }
        embedded.queue.send(QUEUE, (0..40).map(|n| message("quiet", 1, n)).collect()).await.unwrap();
        let mut quiet = 0;
        for _ in 0..6 {
            let (tenant, steps, _) = receive(&embedded, 20).await.unwrap();
            quiet += if tenant == "quiet" { steps.len() } else { 0 };
        }
        assert_eq!(
            quiet, 40,
            "all can be in flight, although none of them were loaded from the file in between"
        );
    });
}

#[test]
fn postponed_messages_do_not_hold_up_the_rest_of_their_url() {
    block_on(async {
        let options =
            Options { memory_messages: 10, group_messages: 40, per_group_limit: 20, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        embedded.queue.send(QUEUE, (0..60).map(|n| message("a", 1, n)).collect()).await.unwrap();
        let mut seen = Vec::new();
        while let Some((_, steps, receipts)) = receive(&embedded, 2).await {
            seen.extend(steps);
            let later = Settlement::RetryAfter(std::time::Duration::from_secs(3600));
            let later = receipts.into_iter().map(|receipt| (receipt, later.clone())).collect();
            embedded.queue.settle(QUEUE, later).await;
            flush(&embedded).await;
        }
        assert_eq!(seen, (0..60).collect::<Vec<_>>());
    });
}

#[test]
fn a_damaged_message_at_the_front_leaves_its_url_with_its_tenant() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { first_concurrency: 16, per_group_limit: 16, ..Options::default() };
        let embedded = open(&dir, &options);
        embedded.queue.send(QUEUE, (0..40).map(|n| message("a", 1, n)).collect()).await.unwrap();
        drop(embedded);
        let file = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
        let damage = "UPDATE messages SET payload = x'00' WHERE id = (SELECT min(id) FROM messages)";
        assert_eq!(file.execute(damage, []).unwrap(), 1);
        drop(file);

        let embedded = open(&dir, &options);
        assert!(embedded.queue.receive(QUEUE, 1).await.unwrap()[0].message.is_err());
        let others = (0..10).flat_map(|n| [message("a", 2, n), message("b", 3, n)]).collect();
        embedded.queue.send(QUEUE, others).await.unwrap();
        let mut served = Vec::new();
        for _ in 0..6 {
            served.push(receive(&embedded, 1).await.unwrap().0);
        }
        assert_eq!(served.iter().filter(|tenant| *tenant == "b").count(), 3, "{served:?}");
    });
}

#[test]
fn a_tenants_share_of_the_slots_shrinks_when_others_want_some() {
    block_on(async {
        let options = Options { first_concurrency: 64, per_group_limit: 4, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for url in 0..20 {
            embedded.queue.send(QUEUE, (0..4).map(|n| message("slow", url, n)).collect()).await.unwrap();
        }
        let mut held = Vec::new();
        while let Some((_, _, receipts)) = receive(&embedded, 4).await {
            held.extend(receipts);
        }
        assert_eq!(held.len(), 30, "alone, it has half, without the slots that are for first ones");

        for url in 0..20 {
            embedded.queue.send(QUEUE, vec![message("quiet", url, 0)]).await.unwrap();
        }
        let mut quiet = 0;
        while let Some((tenant, steps, _)) = receive(&embedded, 4).await {
            assert_eq!(tenant, "quiet");
            quiet += steps.len();
        }
        assert_eq!(quiet, 4, "the other one has a sixteenth at once, however much the first one has");
        for _ in 0..2 {
            delete(&embedded, vec![held.pop().unwrap()]).await;
            assert!(receive(&embedded, 4).await.is_none(), "the rest is kept for tenants that have fewer");
        }
        delete(&embedded, vec![held.pop().unwrap()]).await;
        let (tenant, steps, _) = receive(&embedded, 4).await.unwrap();
        assert_eq!((tenant.as_str(), steps.len()), ("quiet", 1), "and more of what becomes free");
        assert!(receive(&embedded, 4).await.is_none());
    });
}

#[test]
fn two_jobs_of_a_tenant_run_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(&dir, &Options::default());
    let job = |tenant: &str, n| Outgoing {
        message: Message::Job { tenant: tenant.into(), id: JobId::new([n; 16]), step: None, links: 0 },
        delay: Delay::NONE,
    };
    block_on(async {
        let jobs = (0..5).map(|n| job("many", n)).chain([job("other", 0)]).collect();
        embedded.queue.send(QUEUE, jobs).await.unwrap();
        let mut received = Vec::new();
        for _ in 0..3 {
            received.push(embedded.queue.receive(QUEUE, 10).await.unwrap());
        }
        let counts: Vec<usize> = received.iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1, 0], "two of the one, one of the other");
        let ended = received[0].pop().unwrap();
        embedded.queue.settle(QUEUE, vec![(ended.receipt, Settlement::Delete)]).await;
        flush(&embedded).await;
        assert_eq!(embedded.queue.receive(QUEUE, 10).await.unwrap().len(), 1);
    });
}

#[test]
fn messages_are_taken_while_others_are_not_complete_yet() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(&dir, &Options::default());
    block_on(async {
        let sent = vec![message("a", 1, 0), message("b", 1, 0)];
        embedded.queue.send(QUEUE, sent).await.unwrap();
        let first = embedded.queue.take(QUEUE, 10).unwrap();
        let second = embedded.queue.take(QUEUE, 10).unwrap();
        assert_eq!((first.len(), second.len(), embedded.queue.take(QUEUE, 10).unwrap().len()), (1, 1, 0));
        let [second, first] = [second, first].map(|batch| embedded.queue.complete(batch));
        let tenant_of = |batch: &[Received]| batch[0].message.as_ref().unwrap().tenant().to_string();
        assert_eq!(tenant_of(&second.await.unwrap()), "b");
        assert_eq!(tenant_of(&first.await.unwrap()), "a");
    });
}

/// Two tenants whose receivers hung took all slots, and the next one waited until their attempts timed out.
#[test]
fn tenants_whose_messages_stay_in_flight_leave_a_slot_for_the_next_one() {
    block_on(async {
        let options = Options { first_concurrency: 64, per_group_limit: 64, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir, &options);
        for tenant in ["a", "b", "c", "d", "e"] {
            embedded.queue.send(QUEUE, (0..100).map(|n| message(tenant, 1, n)).collect()).await.unwrap();
            let mut in_flight = 0;
            while let Some((received, steps, _)) = receive(&embedded, 32).await {
                assert_eq!(received, tenant);
                in_flight += steps.len();
            }
            assert!(in_flight > 0, "{tenant} has no slot");
        }
    });
}

/// Tenants whose receivers hang have one attempt each. Together they held every slot, also those that are kept for tenants with none, and took
/// them again whenever they became free.
#[test]
fn many_tenants_that_hang_leave_slots_for_one_that_does_not() {
    block_on(async {
        let options = Options { first_concurrency: 64, ..Options::default() };
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(START));
        let embedded = Embedded::open(dir.path(), Arc::clone(&clock) as _, options).unwrap();
        for tenant in 0..64 {
            let hanging = (0..5).map(|step| message(&format!("hangs-{tenant}"), tenant, step)).collect();
            embedded.queue.send(QUEUE, hanging).await.unwrap();
        }
        let fill = async || {
            let mut held = Vec::new();
            while let Some((_, _, receipts)) = receive(&embedded, 1).await {
                held.extend(receipts);
            }
            held
        };
        let held = fill().await;
        assert_eq!(held.len(), 64, "they are as good as any others at first");
        clock.advance(Duration::from_secs(5));
        delete(&embedded, held).await;
        assert_eq!(fill().await.len(), 60, "the others are not for them any more");
        embedded.queue.send(QUEUE, vec![message("quick", 99, 0)]).await.unwrap();
        assert_eq!(receive(&embedded, 1).await.map(|(tenant, ..)| tenant).as_deref(), Some("quick"));
    });
}
