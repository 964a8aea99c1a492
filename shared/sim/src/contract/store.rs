use holdfast_core::ports::{Expect, MAX_KEYS, MAX_WRITES, Order, Query, Versioned, Write, WriteError};
use holdfast_core::records::{
    Job, JobRecord, Key, OperatorGuard, Reassign, Record, SubscriptionChange, SubscriptionGuard,
    TenantRecord, TenantVersion, UrlListEntry, UrlRecord,
};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Now;

use super::Harness;
use super::samples::{
    at, attempt, attempt_summaries, audit_entry, death_note, deaths_job, delivery, event, logged, minute,
    operator_key, outcome, parked, releasing_url, replay, replay_job, step_batch, subject_entry,
    subscription, subscription_record, tenant, tenant_version, url, url_id,
};

const NOW: Now =
    Now { schedule: holdfast_core::time::Timestamp::ZERO, real: holdfast_core::time::Timestamp::ZERO };

fn version_record(name: &str, version: u64) -> Record {
    Record::TenantVersion(tenant_version(name, version))
}

fn key(name: &str) -> Key {
    TenantVersion::key(&name.into())
}

async fn find(h: &dyn Harness, key: &Key) -> Option<Versioned> {
    h.store().get(std::slice::from_ref(key)).await.unwrap().remove(0)
}

async fn put(h: &dyn Harness, record: Record, expect: Expect) -> Result<u64, WriteError> {
    let key = record.key();
    h.store().write(vec![Write::put(record, expect)]).await?;
    Ok(find(h, &key).await.unwrap().version)
}

fn conflict(result: Result<impl Sized, WriteError>) -> Key {
    match result {
        Err(WriteError::Conflict(key)) => key,
        Err(e) => panic!("not a conflict: {e}"),
        Ok(_) => panic!("written"),
    }
}

pub async fn get_answers_in_the_order_of_the_keys(h: &dyn Harness) {
    for name in ["b", "a", "c"] {
        put(h, version_record(name, 1), Expect::Absent).await.unwrap();
    }
    let found = h.store().get(&[key("c"), key("x"), key("a"), key("c")]).await.unwrap();
    let records: Vec<_> = found.into_iter().map(|found| found.map(|f| f.record)).collect();
    let (a, c) = (Some(version_record("a", 1)), Some(version_record("c", 1)));
    assert_eq!(records, [c.clone(), None, a, c]);
    assert!(h.store().get(&[]).await.unwrap().is_empty());
}

pub async fn every_kind_of_record_survives(h: &dyn Harness) {
    let id = holdfast_core::ids::JobId::new([1; 16]);
    let job = Job::Reassign(Reassign {
        subscription_id: subscription(1),
        after: None,
        pass: 1,
        not_before_real: at(1),
    });
    let guard =
        SubscriptionGuard { tenant: tenant(), fingerprint: "f".into(), subscription_id: subscription(1) };
    let change = SubscriptionChange {
        tenant: tenant(),
        version: u64::MAX,
        subscription_id: subscription(1),
        remove_at: at(9),
    };
    let mut acted_on = url(2);
    let history = acted_on.apply_action(OperatorAction::Freeze, "why", "me", NOW).unwrap().unwrap();
    let records = [
        Record::Subscription(subscription_record()),
        Record::History(history),
        Record::Url(acted_on),
        Record::Event(event()),
        Record::Subject(subject_entry()),
        Record::Audit(audit_entry(Some(&tenant()))),
        Record::Audit(audit_entry(None)),
        Record::Delivery(delivery(1, 1)),
        Record::Logged(logged(1, 1)),
        Record::Attempt(attempt(1, 1)),
        Record::Parked(parked(1, 1, 5)),
        Record::Url(url(1)),
        Record::Url(releasing_url()),
        Record::UrlListEntry(UrlListEntry { tenant: tenant(), id: url_id(1) }),
        Record::SubscriptionGuard(guard),
        Record::SubscriptionChange(change),
        Record::TenantVersion(tenant_version("t", u64::MAX)),
        Record::Job(JobRecord { tenant: tenant(), id, job, look_at: at(3), looks: 0 }),
        Record::Minute(minute(1, "engine")),
        Record::AttemptSummaries(attempt_summaries()),
        Record::Replay(replay()),
        Record::Job(replay_job()),
        Record::StepBatch(step_batch()),
        Record::DeathNote(death_note()),
        Record::Job(deaths_job()),
        Record::Key(operator_key()),
        Record::OperatorGuard(OperatorGuard { changes: u64::MAX }),
        Record::Tenant(TenantRecord { tenant: tenant(), created_at_real: at(1) }),
    ];
    for record in records {
        put(h, record.clone(), Expect::Absent).await.unwrap();
        assert_eq!(find(h, &record.key()).await.unwrap().record, record);
    }
}

pub async fn absent_is_expected_in_vain_of_what_is_there(h: &dyn Harness) {
    put(h, version_record("a", 1), Expect::Absent).await.unwrap();
    assert_eq!(conflict(put(h, version_record("a", 2), Expect::Absent).await), key("a"));
    assert_eq!(find(h, &key("a")).await.unwrap().record, version_record("a", 1));
    put(h, version_record("a", 3), Expect::Any).await.unwrap();
    put(h, version_record("b", 3), Expect::Any).await.unwrap();
}

pub async fn a_version_is_expected_in_vain_once_it_changed(h: &dyn Harness) {
    let first = put(h, version_record("a", 1), Expect::Absent).await.unwrap();
    // The same content again is another version.
    let second = put(h, version_record("a", 1), Expect::Version(first)).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(conflict(put(h, version_record("a", 2), Expect::Version(first)).await), key("a"));
    assert_eq!(conflict(put(h, version_record("b", 2), Expect::Version(second)).await), key("b"));
    h.store().put_each(vec![version_record("a", 1)]).await.unwrap();
    assert_eq!(conflict(put(h, version_record("a", 2), Expect::Version(second)).await), key("a"));
}

pub async fn versions_count_from_one(h: &dyn Harness) {
    assert_eq!(put(h, version_record("a", 1), Expect::Absent).await.unwrap(), 1);
    assert_eq!(put(h, version_record("a", 1), Expect::Version(1)).await.unwrap(), 2);
    let known = put(h, version_record("a", 1), Expect::Any).await.unwrap();
    assert!(![1, 2].contains(&known));
    assert_eq!(put(h, version_record("a", 1), Expect::Version(known)).await.unwrap(), known + 1);
    h.store().put_each(vec![version_record("a", 1)]).await.unwrap();
    let version = find(h, &key("a")).await.unwrap().version;
    assert!(![1, 2, known, known + 1].contains(&version));
    h.store().write(vec![Write::Delete { key: key("a"), expect: Expect::Any }]).await.unwrap();
    assert_eq!(put(h, version_record("a", 1), Expect::Absent).await.unwrap(), 1);
}

pub async fn deletes_have_expectations_too(h: &dyn Harness) {
    let delete = async |expect| h.store().write(vec![Write::Delete { key: key("a"), expect }]).await;
    delete(Expect::Any).await.unwrap();
    delete(Expect::Absent).await.unwrap();
    let first = put(h, version_record("a", 1), Expect::Absent).await.unwrap();
    let second = put(h, version_record("a", 2), Expect::Any).await.unwrap();
    assert_eq!(conflict(delete(Expect::Absent).await), key("a"));
    assert_eq!(conflict(delete(Expect::Version(first)).await), key("a"));
    delete(Expect::Version(second)).await.unwrap();
    assert_eq!(find(h, &key("a")).await, None);
    assert_eq!(conflict(delete(Expect::Version(second)).await), key("a"));
}

pub async fn a_transaction_is_made_whole_or_not_at_all(h: &dyn Harness) {
    put(h, version_record("b", 1), Expect::Absent).await.unwrap();
    put(h, version_record("d", 1), Expect::Absent).await.unwrap();
    let writes = |expect| {
        vec![
            Write::put(version_record("a", 9), Expect::Absent),
            Write::put(version_record("b", 9), Expect::Any),
            Write::put(version_record("c", 9), expect),
            Write::Delete { key: key("d"), expect: Expect::Any },
        ]
    };
    assert_eq!(conflict(h.store().write(writes(Expect::Version(1))).await), key("c"));
    assert_eq!(find(h, &key("a")).await, None);
    assert_eq!(find(h, &key("b")).await.unwrap().record, version_record("b", 1));
    assert!(find(h, &key("d")).await.is_some());
    h.store().write(writes(Expect::Absent)).await.unwrap();
    assert_eq!(find(h, &key("b")).await.unwrap().record, version_record("b", 9));
    assert_eq!(find(h, &key("d")).await, None);
}

pub async fn limits_are_enforced(h: &dyn Harness) {
    let names: Vec<String> = (0..=MAX_WRITES.max(MAX_KEYS)).map(|n| format!("t{n}")).collect();
    let writes = |count: usize| {
        names[..count]
            .iter()
            .map(|name| Write::put(version_record(name, 1), Expect::Absent))
            .collect::<Vec<_>>()
    };
    assert!(matches!(h.store().write(writes(MAX_WRITES + 1)).await, Err(WriteError::Store(_))));
    assert_eq!(find(h, &key("t0")).await, None);
    h.store().write(writes(MAX_WRITES)).await.unwrap();
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    assert!(h.store().get(&keys[..=MAX_KEYS]).await.is_err());
    assert!(h.store().get(&keys[..MAX_KEYS]).await.unwrap().iter().all(Option::is_some));
}

pub async fn a_key_is_written_once_in_a_transaction(h: &dyn Harness) {
    let twice = vec![
        Write::put(version_record("a", 1), Expect::Any),
        Write::Delete { key: key("a"), expect: Expect::Any },
    ];
    assert!(matches!(h.store().write(twice).await, Err(WriteError::Store(_))));
    assert_eq!(find(h, &key("a")).await, None);
}

pub async fn put_each_writes_over_what_is_there(h: &dyn Harness) {
    put(h, version_record("a", 1), Expect::Absent).await.unwrap();
    let records: Vec<Record> = (0..250).map(|n| version_record(&format!("t{n}"), 1)).collect();
    assert!(h.store().put_each(records).await.unwrap().is_empty());
    assert!(h.store().put_each(vec![version_record("a", 2)]).await.unwrap().is_empty());
    assert_eq!(find(h, &key("a")).await.unwrap().record, version_record("a", 2));
    assert!(find(h, &key("t249")).await.is_some());
}

pub async fn of_two_records_with_the_same_key_the_last_one_wins(h: &dyn Harness) {
    let records = vec![version_record("a", 1), version_record("b", 1), version_record("a", 2)];
    assert!(h.store().put_each(records).await.unwrap().is_empty());
    assert_eq!(find(h, &key("a")).await.unwrap().record, version_record("a", 2));
    assert_eq!(find(h, &key("b")).await.unwrap().record, version_record("b", 1));
}

pub async fn strange_text_survives(h: &dyn Harness) {
    let strange = "\0 \n \u{ffff} \u{1f980} é \"'\\#";
    let guard = |n: usize| {
        let fingerprint = format!("{strange}{}", "\0".repeat(n));
        Record::SubscriptionGuard(SubscriptionGuard {
            tenant: strange.into(),
            fingerprint,
            subscription_id: subscription(n as u8),
        })
    };
    let records: Vec<Record> = (0..4).map(guard).collect();
    h.store().put_each(records.clone()).await.unwrap();
    let query = Query {
        partition: records[0].key().partition,
        prefix: strange.to_owned(),
        after: Some(records[0].key().sort),
        order: Order::Ascending,
        limit: 2,
    };
    let page = h.store().query(query).await.unwrap();
    let found: Vec<Record> = page.items.into_iter().map(|item| item.record).collect();
    assert_eq!(found, records[1..3]);
    assert_eq!(page.next, Some(records[2].key().sort));
}

pub async fn outcomes_of_an_unknown_url_are_not_counted(h: &dyn Harness) {
    let counted = h.store().count_outcomes(&tenant(), &url_id(1), vec![outcome(true, 0)], NOW).await.unwrap();
    assert_eq!(counted, None);
    assert_eq!(find(h, &UrlRecord::key(&tenant(), &url_id(1))).await, None);
}

pub async fn outcomes_of_another_generation_do_not_count(h: &dyn Harness) {
    put(h, Record::Url(url(1)), Expect::Absent).await.unwrap();
    let outcomes = vec![outcome(false, 0), outcome(false, 7), outcome(false, 0)];
    let (before, after) =
        h.store().count_outcomes(&tenant(), &url_id(1), outcomes, NOW).await.unwrap().unwrap();
    assert_eq!(before, url(1));
    assert_eq!((after.health.window_attempts, after.health.streak), (2, 2));
    let kept = find(h, &UrlRecord::key(&tenant(), &url_id(1))).await.unwrap();
    assert_eq!(kept.record, Record::Url(after));
}
