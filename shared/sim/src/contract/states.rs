//! What is counted by its state.

use std::time::Duration;

use holdfast_core::ids::{EventKey, JobId};
use holdfast_core::ports::{Count, Expect, IndexCount, IndexQuery, Order, Query, Write};
use holdfast_core::records::{
    DeliveryRecord, EventRecord, IdPhase, Key, ListIndex, MinuteRecord, ParkedPointer, Record, ReplayRecord,
    StateEntry, StateIndex, SubjectEntry, UrlRecord,
};
use holdfast_core::rules::delivery::Reason;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::Now;

use super::Harness;
use super::samples::{
    at, delivery, delivery_key, event, minute, outcome, parked, replay, subject_entry, subscription_record,
    tenant, url, url_id,
};

const ALL: [StateIndex; 6] = [
    StateIndex::Waiting,
    StateIndex::Parked,
    StateIndex::Dead,
    StateIndex::UrlFailing,
    StateIndex::UrlDisabled,
    StateIndex::UrlFrozen,
];
const KEEP: Duration = Duration::from_secs(1_000);

fn now() -> Now {
    Now { schedule: at(3), real: at(3) }
}

async fn put(h: &dyn Harness, records: Vec<Record>) {
    assert!(h.store().put_each(records).await.unwrap().is_empty());
}

async fn count(h: &dyn Harness, state: StateIndex, from: Option<String>, limit: usize) -> Count {
    let (index, partition) = (ListIndex::ByState, state.partition(&tenant()));
    h.store().count_index(IndexCount { index, partition, from, limit }).await.unwrap()
}

fn in_state(state: StateIndex, order: Order, limit: usize) -> IndexQuery {
    let (index, partition) = (ListIndex::ByState, state.partition(&tenant()));
    IndexQuery { index, partition, from: None, to: None, after: None, order, limit }
}

/// Checks that one record stands in this state and in no other, however it is asked.
async fn stands_only_in(h: &dyn Harness, expected: Option<StateIndex>, key: &Key) {
    for state in ALL {
        let wanted = u64::from(expected == Some(state));
        assert_eq!(count(h, state, None, 10).await, Count { count: wanted, more: false }, "{state:?}");
        let page = h.store().query_index(in_state(state, Order::Ascending, 10)).await.unwrap();
        let keys: Vec<Key> = page.items.iter().map(|item| item.record.key()).collect();
        assert_eq!(keys, vec![key.clone(); wanted as usize], "{state:?}");
    }
}

type Change = fn(&mut DeliveryRecord);

pub async fn deliveries_enter_and_leave_states(h: &dyn Harness) {
    let mut record = delivery(1, 1);
    let key = DeliveryRecord::key(&record.key);
    let steps: [(Change, Option<StateIndex>); 6] = [
        (|_| {}, Some(StateIndex::Waiting)),
        (|record| record.progress.park(), Some(StateIndex::Parked)),
        (|record| record.progress.unpark(at(5)), Some(StateIndex::Waiting)),
        (|record| record.progress.die(Reason::Exhausted, at(6), KEEP), Some(StateIndex::Dead)),
        (|record| record.progress.replay(&Schedule::default(), at(7)), Some(StateIndex::Waiting)),
        (|record| record.progress.succeed(at(8), KEEP), None),
    ];
    for (version, (change, state)) in (0..).zip(steps) {
        change(&mut record);
        let expect = if version == 0 { Expect::Absent } else { Expect::Version(version) };
        h.store().write(vec![Write::put(Record::Delivery(record.clone()), expect)]).await.unwrap();
        stands_only_in(h, state, &key).await;
    }
    record.progress.replay(&Schedule::default(), at(9));
    put(h, vec![Record::Delivery(record)]).await;
    stands_only_in(h, Some(StateIndex::Waiting), &key).await;
    h.store().write(vec![Write::Delete { key: key.clone(), expect: Expect::Any }]).await.unwrap();
    stands_only_in(h, None, &key).await;
}

async fn stored(h: &dyn Harness) -> (UrlRecord, u64) {
    let found = h.store().get(&[UrlRecord::key(&tenant(), &url_id(1))]).await.unwrap().remove(0).unwrap();
    match found.record {
        Record::Url(url) => (url, found.version),
        other => panic!("{other:?}"),
    }
}

async fn act(h: &dyn Harness, action: OperatorAction) {
    let (mut url, version) = stored(h).await;
    let history = url.apply_action(action, "why", "me", now()).unwrap();
    let mut writes = vec![Write::put(Record::Url(url), Expect::Version(version))];
    writes.extend(history.map(|entry| Write::put(Record::History(entry), Expect::Any)));
    h.store().write(writes).await.unwrap();
}

pub async fn urls_enter_and_leave_states(h: &dyn Harness) {
    let key = UrlRecord::key(&tenant(), &url_id(1));
    let write = Write::put(Record::Url(url(1)), Expect::Absent);
    h.store().write(vec![write]).await.unwrap();
    stands_only_in(h, None, &key).await;
    for (action, state) in [
        (OperatorAction::Disable, Some(StateIndex::UrlDisabled)),
        (OperatorAction::Freeze, Some(StateIndex::UrlFrozen)),
        (OperatorAction::Enable, None),
        (OperatorAction::Freeze, Some(StateIndex::UrlFrozen)),
    ] {
        act(h, action).await;
        stands_only_in(h, state, &key).await;
    }
    // Neither a late outcome nor a write that leaves the state alone takes it out.
    let late = vec![outcome(true, 0)];
    h.store().count_outcomes(&tenant(), &url_id(1), late, now()).await.unwrap().unwrap();
    stands_only_in(h, Some(StateIndex::UrlFrozen), &key).await;
    let (mut url, version) = stored(h).await;
    url.looks += 1;
    h.store().write(vec![Write::put(Record::Url(url), Expect::Version(version))]).await.unwrap();
    stands_only_in(h, Some(StateIndex::UrlFrozen), &key).await;
}

pub async fn outcomes_move_a_url_between_states(h: &dyn Harness) {
    let key = UrlRecord::key(&tenant(), &url_id(1));
    put(h, vec![Record::Url(url(1))]).await;
    let counted = |outcomes| async move {
        h.store().count_outcomes(&tenant(), &url_id(1), outcomes, now()).await.unwrap().unwrap().1
    };
    counted(vec![outcome(false, 0); 9]).await;
    stands_only_in(h, None, &key).await;
    counted(vec![outcome(false, 0)]).await;
    stands_only_in(h, Some(StateIndex::UrlFailing), &key).await;
    // Neither more of the same nor a write beside it takes it out.
    counted(vec![outcome(false, 0); 5]).await;
    let (mut url, version) = stored(h).await;
    url.looks += 1;
    h.store().write(vec![Write::put(Record::Url(url), Expect::Version(version))]).await.unwrap();
    stands_only_in(h, Some(StateIndex::UrlFailing), &key).await;
    counted(vec![outcome(true, 0)]).await;
    stands_only_in(h, None, &key).await;
    counted(vec![outcome(false, 0); 86]).await;
    stands_only_in(h, Some(StateIndex::UrlDisabled), &key).await;
    let generation = stored(h).await.0.health.generation;
    counted(vec![outcome(true, generation)]).await;
    stands_only_in(h, None, &key).await;
}

pub async fn subscriptions_stand_in_the_list_of_their_url(h: &dyn Harness) {
    let mut record = subscription_record();
    let ids = async |url| {
        let partition = StateEntry::subscriptions_of(&tenant(), &url_id(url));
        let query = IndexQuery::of(ListIndex::ByState, partition, 10);
        let page = h.store().query_index(query).await.unwrap();
        page.items.into_iter().map(|item| item.record.key()).collect::<Vec<_>>()
    };
    let key = Record::Subscription(record.clone()).key();
    put(h, vec![Record::Subscription(record.clone())]).await;
    assert_eq!((ids(1).await, ids(2).await), (vec![key.clone()], vec![]));
    record.url_id = url_id(2);
    record.active = false;
    put(h, vec![Record::Subscription(record)]).await;
    assert_eq!((ids(1).await, ids(2).await), (vec![], vec![key.clone()]));
    h.store().write(vec![Write::delete(key, Expect::Any)]).await.unwrap();
    assert_eq!(ids(2).await, vec![]);
}

pub async fn replays_stand_in_the_list_of_their_tenant(h: &dyn Harness) {
    let mut record = replay();
    let later =
        ReplayRecord { id: JobId::new([9; 16]), created_at: record.created_at + KEEP, ..record.clone() };
    put(h, vec![Record::Replay(later.clone()), Record::Replay(record.clone())]).await;
    record.done += 1;
    put(h, vec![Record::Replay(record.clone())]).await;
    let query = IndexQuery::of(ListIndex::ByState, StateEntry::replays_of(&tenant()), 10);
    let page = h.store().query_index(query.descending()).await.unwrap();
    let found: Vec<Record> = page.items.into_iter().map(|item| item.record).collect();
    assert_eq!(found, [Record::Replay(later), Record::Replay(record)]);
}

pub async fn events_stand_in_the_list_of_their_tenant_once_they_are_done(h: &dyn Harness) {
    let of = |n: i64, phase| {
        let (id, accepted_at) = (format!("e{n}"), at(n));
        let event_key = EventKey::of(&id, accepted_at);
        EventRecord { id, event_key, accepted_at, phase, ..event() }
    };
    let pending = IdPhase::Pending { lease_until_real: at(99) };
    put(h, (0..30).map(|n| Record::Event(of(n * 7 % 30, pending))).collect()).await;
    let listed = async |limit| {
        let mut query =
            IndexQuery::of(ListIndex::ByState, StateEntry::events_of(&tenant()), limit).descending();
        let mut found = Vec::new();
        loop {
            let page = h.store().query_index(query.clone()).await.unwrap();
            found.extend(page.items.into_iter().map(|item| item.record));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return found,
            }
        }
    };
    assert_eq!(listed(7).await, []);
    put(h, (0..30).map(|n| Record::Event(of(n * 7 % 30, IdPhase::Done))).collect()).await;
    let newest_first: Vec<Record> = (0..30).rev().map(|n| Record::Event(of(n, IdPhase::Done))).collect();
    assert_eq!(listed(7).await, newest_first);
}

pub async fn events_stand_in_the_list_of_their_subject(h: &dyn Harness) {
    let of =
        |n: i64| SubjectEntry { event_key: EventKey::of("e", at(n)), accepted_at: at(n), ..subject_entry() };
    let other = SubjectEntry { subject: "another".to_owned(), ..of(3) };
    put(h, (0..30).map(|n| Record::Subject(of(n * 7 % 30))).collect()).await;
    put(h, vec![Record::Subject(other)]).await;
    let mut query = Query::of(SubjectEntry::partition(&tenant(), &of(0).subject), 7).descending();
    // What was accepted before that time.
    query.after = Some(at(25).sort_key());
    let mut found = Vec::new();
    loop {
        let page = h.store().query(query.clone()).await.unwrap();
        found.extend(page.items.into_iter().map(|item| item.record));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    let newest_first: Vec<Record> = (0..25).rev().map(|n| Record::Subject(of(n))).collect();
    assert_eq!(found, newest_first);
}

pub async fn a_state_is_in_order_and_comes_in_pages(h: &dyn Harness) {
    put(h, (0..60).map(|n| Record::Delivery(delivery(n * 37 % 60, 1))).collect()).await;
    let in_order: Vec<Key> = (0..60).map(|n| DeliveryRecord::key(&delivery_key(n, 1))).collect();
    for order in [Order::Ascending, Order::Descending] {
        let mut query = in_state(StateIndex::Waiting, order, 7);
        let mut seen = Vec::new();
        loop {
            let page = h.store().query_index(query.clone()).await.unwrap();
            seen.extend(page.items.iter().map(|item| item.record.key()));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        if order == Order::Descending {
            seen.reverse();
        }
        assert_eq!(seen, in_order);
    }
    let bounded = IndexQuery {
        from: Some(at(3).sort_key()),
        to: Some(at(6).sort_key()),
        ..in_state(StateIndex::Waiting, Order::Descending, 10)
    };
    let page = h.store().query_index(bounded).await.unwrap();
    let keys: Vec<Key> = page.items.iter().map(|item| item.record.key()).collect();
    assert_eq!(keys, [5, 4, 3].map(|n| DeliveryRecord::key(&delivery_key(n, 1))));
    // URLs stand in the order in which they began to fail, or came into their state, and then of their ids.
    let mut urls: Vec<UrlRecord> = (0..9).map(url).collect();
    for (n, url) in urls.iter_mut().enumerate() {
        url.apply_action(OperatorAction::Freeze, "", "me", now()).unwrap();
        url.health.failing_since = [None, Some(at(1)), Some(at(9))][n % 3];
    }
    put(h, urls.iter().cloned().map(Record::Url).collect()).await;
    urls.sort_by_key(|url| (url.health.failing_since.unwrap_or(url.health.since), url.id.clone()));
    let page = h.store().query_index(in_state(StateIndex::UrlFrozen, Order::Ascending, 10)).await.unwrap();
    let ids: Vec<Record> = page.items.into_iter().map(|item| item.record).collect();
    assert_eq!(ids, urls.into_iter().map(Record::Url).collect::<Vec<_>>());
}

pub async fn counting_ends_at_its_limit(h: &dyn Harness) {
    put(h, (0..120).map(|n| Record::Delivery(delivery(n, 1))).collect()).await;
    for (limit, counted, more) in [(200, 120, false), (120, 120, false), (119, 119, true), (1, 1, true)] {
        assert_eq!(count(h, StateIndex::Waiting, None, limit).await, Count { count: counted, more });
    }
    let from = |secs| Some(at(secs).sort_key());
    assert_eq!(count(h, StateIndex::Waiting, from(100), 50).await, Count { count: 20, more: false });
    assert_eq!(count(h, StateIndex::Waiting, from(100), 19).await, Count { count: 19, more: true });
    assert_eq!(count(h, StateIndex::Waiting, from(120), 50).await, Count::default());
    assert_eq!(count(h, StateIndex::Dead, None, 50).await, Count::default());
    let (index, partition) = (ListIndex::ByTenant, DeliveryRecord::tenant_list(&tenant()));
    let all = h.store().count_index(IndexCount { index, partition, from: None, limit: 500 }).await.unwrap();
    assert_eq!(all, Count { count: 120, more: false });
    let (index, partition) = (ListIndex::ByState, StateIndex::Waiting.partition(&"other".into()));
    let none = h.store().count_index(IndexCount { index, partition, from: None, limit: 500 }).await.unwrap();
    assert_eq!(none, Count::default());
}

pub async fn a_query_may_start_where_nothing_is(h: &dyn Harness) {
    let records: Vec<MinuteRecord> = (0..6).map(|n| minute(n / 2, &format!("engine{n}"))).collect();
    put(h, records.iter().cloned().map(Record::Minute).collect()).await;
    put(h, vec![Record::Parked(parked(1, 1, 5))]).await;
    let mut query = Query {
        partition: MinuteRecord::partition(&tenant()),
        prefix: String::new(),
        after: Some(records[2].minute.sort_key()),
        order: Order::Ascending,
        limit: 10,
    };
    let found = h.store().query(query.clone()).await.unwrap();
    let minutes = |of: &[MinuteRecord]| of.iter().cloned().map(Record::Minute).collect::<Vec<_>>();
    let of = |items: Vec<holdfast_core::ports::Versioned>| {
        items.into_iter().map(|item| item.record).collect::<Vec<_>>()
    };
    assert_eq!(of(found.items), minutes(&records[2..]));
    query.order = Order::Descending;
    let mut before = records[..2].to_vec();
    before.reverse();
    assert_eq!(of(h.store().query(query.clone()).await.unwrap().items), minutes(&before));
    query.partition = ParkedPointer::partition(&tenant(), &url_id(2));
    assert!(h.store().query(query).await.unwrap().items.is_empty());
}
