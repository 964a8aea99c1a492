use std::time::Duration;

use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::records::{DeliveryRecord, NewDelivery, StateIndex, TenantVersion};
use holdfast_core::rules::last_failure::{AttemptError, LastFailure};
use holdfast_core::rules::quota::{MAX_QUOTA, Quotas};
use holdfast_core::rules::schedule::Schedule;

use super::*;

fn delivery() -> DeliveryRecord {
    let accepted_at = Timestamp::from_millis(1_700_000_000_001);
    let new = NewDelivery {
        key: DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of("evt", accepted_at),
            subscription_id: SubscriptionId::new([1; 16]),
        },
        event_id: "evt".into(),
        event_type: "t".into(),
        accepted_at,
        url_id: UrlId::of("https://example.com"),
        url: "https://example.com".into(),
        trace: None,
    };
    DeliveryRecord::new(new, &Schedule::default())
}

fn names(item: &Item) -> Vec<&str> {
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn indexes_are_sparse() {
    let quotas = Quotas { waiting_bytes: Some(MAX_QUOTA), ..Quotas::default() };
    let version = TenantVersion { version: u64::MAX, quotas, ..TenantVersion::new(&"t".into()) };
    let item = item_of(&Record::TenantVersion(version.clone()), 7, "w");
    assert_eq!(names(&item), ["pk", "record", "sk", "version", "writer"]);
    assert_eq!(read(item).unwrap(), Versioned { record: Record::TenantVersion(version), version: 7 });

    let mut record = delivery();
    let live = item_of(&Record::Delivery(record.clone()), 1, "w");
    let listed = [LIST_SUBSCRIPTION, LIST_TENANT, LIST_URL, LISTED];
    assert!(listed.iter().all(|name| live.contains_key(*name)));
    assert!(live.contains_key(SWEEP_SHARD) && live.contains_key(LOOK_AT) && !live.contains_key(TTL));
    record.progress.succeed(Timestamp::from_millis(5_000), Duration::from_millis(1));
    let done = item_of(&Record::Delivery(record), 1, "w");
    assert!(!done.contains_key(SWEEP_SHARD) && !done.contains_key(LOOK_AT));
    // Delivered ones are not listed by state.
    assert!(
        [LIST_STATE, STATE_SORT].iter().all(|name| live.contains_key(*name) && !done.contains_key(*name))
    );
    // Rounded up: never removed before its time.
    assert_eq!(done[TTL], number(6));
}

#[test]
fn a_list_is_spread_over_shards() {
    let item = item_of(&Record::Delivery(delivery()), 1, "w");
    let tenant = "default".into();
    let lists = [
        (LIST_TENANT, DeliveryRecord::tenant_list(&tenant)),
        (LIST_STATE, StateIndex::Waiting.partition(&tenant)),
    ];
    for (name, expected) in lists {
        let (list, shard) = item[name].as_s().unwrap().rsplit_once('#').unwrap();
        assert_eq!(list, expected);
        assert!(shard.parse::<u8>().unwrap() < LIST_SHARDS);
    }
}

#[test]
fn url_fields_that_expressions_need_are_attributes() {
    let new = UrlRecord::new("t".into(), UrlId::of("u"), "u".into(), Timestamp::from_millis(1));
    let mut failing = new.clone();
    let (at, error) = (Timestamp::from_millis(2), AttemptError::of_status(500));
    let health = &mut failing.health;
    (health.failing, health.failing_since, health.first_attempt_at) = (true, Some(at), Some(at));
    (health.last_success_at, health.recovered_at) = (Some(at), Some(at));
    health.last_failure = Some(LastFailure { at, error });
    // Without an attempt there is none of these.
    let of_attempts = [LAST_SUCCESS_AT, FIRST_ATTEMPT_AT, LAST_FAILURE, FAILING_SINCE, FAILING, RECOVERED_AT];
    for (url, was_attempted) in [(new, false), (failing, true)] {
        let item = item_of(&Record::Url(url.clone()), 1, "w");
        let fields = item[RECORD].as_m().unwrap();
        for name in URL_ATTRIBUTES {
            assert!(!fields.contains_key(name));
            assert_eq!(item.contains_key(name), was_attempted || !of_attempts.contains(&name), "{name}");
        }
        assert_eq!(read_url(item).unwrap(), Some((url, 1)));
    }
}

#[test]
fn a_url_of_the_time_before_first_attempts_were_counted_has_none() {
    let mut url = UrlRecord::new("t".into(), UrlId::of("u"), "u".into(), Timestamp::from_millis(1));
    (url.health.window_attempts, url.health.window_failures) = (12, 7);
    let mut item = item_of(&Record::Url(url.clone()), 1, "w");
    for name in [WINDOW_FIRST_ATTEMPTS, WINDOW_FIRST_FAILURES] {
        assert!(item.remove(name).is_some());
    }
    assert_eq!(read_url(item).unwrap(), Some((url, 1)));
}

#[test]
fn an_error_about_a_corrupt_item_names_its_key_and_no_values() {
    let mut item = key_item(&Key::new("p".into(), "s"));
    item.insert(VERSION.to_owned(), number(1));
    item.insert(RECORD.to_owned(), AttributeValue::M([("secret".to_owned(), text("hush"))].into()));
    let error = holdfast_core::ports::chain(&read(item).unwrap_err());
    assert_eq!(error, "the item p / s cannot be read: it cannot be decoded: it has no version");
}

/// A URL as a newer release may store it, with attributes that this release cannot read.
fn newer_url() -> Item {
    let url = UrlRecord::new("t".into(), UrlId::of("u"), "u".into(), Timestamp::from_millis(1));
    let mut item = item_of(&Record::Url(url), 3, "w");
    let Some(AttributeValue::M(fields)) = item.get_mut(RECORD) else { panic!("no record") };
    fields.insert(FORMAT.to_owned(), number(FORMAT_VERSION + 1));
    fields.insert("flags".to_owned(), AttributeValue::Ss(vec!["a".to_owned()]));
    fields.insert("filters".to_owned(), text("not JSON"));
    item
}

#[test]
fn an_item_of_a_newer_release_is_recognised() {
    let item = newer_url();
    let key = key_of(&item).unwrap();
    let version = FORMAT_VERSION + 1;
    let expected = Versioned { record: Record::Newer { key, version }, version: 3 };
    assert_eq!(read(item.clone()).unwrap(), expected);
    let fault = read_url(item).unwrap_err();
    assert!(matches!(fault, Fault::Unreadable { source: Unreadable::Newer(found), .. } if found == version));
}
