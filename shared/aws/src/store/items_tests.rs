use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::records::{DeliveryRecord, NewDelivery, StateIndex, TenantVersion};
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
    let version = TenantVersion { tenant: "t".into(), version: u64::MAX, subscriptions: 0, urls: 0 };
    let item = item_of(&Record::TenantVersion(version.clone()), 7, "w").unwrap();
    assert_eq!(names(&item), ["pk", "record", "sk", "version", "writer"]);
    assert_eq!(read(item).unwrap(), Versioned { record: Record::TenantVersion(version), version: 7 });

    let mut record = delivery();
    let live = item_of(&Record::Delivery(record.clone()), 1, "w").unwrap();
    let listed = [LIST_SUBSCRIPTION, LIST_TENANT, LIST_URL, LISTED];
    assert!(listed.iter().all(|name| live.contains_key(*name)));
    assert!(live.contains_key(SWEEP_SHARD) && live.contains_key(LOOK_AT) && !live.contains_key(TTL));
    record.succeed(Timestamp::from_millis(5_000), std::time::Duration::from_millis(1));
    let done = item_of(&Record::Delivery(record), 1, "w").unwrap();
    assert!(!done.contains_key(SWEEP_SHARD) && !done.contains_key(LOOK_AT));
    // What is delivered is in no topic.
    assert!(
        [LIST_TOPIC, TOPIC_SORT].iter().all(|name| live.contains_key(*name) && !done.contains_key(*name))
    );
    // Rounded up: never removed before its time.
    assert_eq!(done[TTL], number(6));
}

#[test]
fn a_list_is_spread_over_shards() {
    let item = item_of(&Record::Delivery(delivery()), 1, "w").unwrap();
    let tenant = "default".into();
    let lists = [
        (LIST_TENANT, DeliveryRecord::tenant_list(&tenant)),
        (LIST_TOPIC, StateIndex::Waiting.partition(&tenant)),
    ];
    for (name, expected) in lists {
        let (list, shard) = item[name].as_s().unwrap().rsplit_once('#').unwrap();
        assert_eq!(list, expected);
        assert!(shard.parse::<u8>().unwrap() < LIST_SHARDS);
    }
}

#[test]
fn what_expressions_need_of_a_url_stands_beside_its_record() {
    let url = UrlRecord::new("t".into(), UrlId::of("u"), "u".into(), Timestamp::from_millis(1));
    let item = item_of(&Record::Url(url.clone()), 1, "w").unwrap();
    let fields = item[RECORD].as_m().unwrap();
    for name in OF_A_URL {
        assert!(!fields.contains_key(name));
        // There was no attempt yet.
        assert_eq!(item.contains_key(name), name != LAST_SUCCESS_AT);
    }
    assert_eq!(read_url(item).unwrap(), Some((url, 1)));
}

#[test]
fn an_item_that_is_no_record_names_its_key_and_nothing_else() {
    let mut item = key_item(&Key::new("p".into(), "s"));
    item.insert(VERSION.to_owned(), number(1));
    item.insert(RECORD.to_owned(), AttributeValue::M([("secret".to_owned(), text("hush"))].into()));
    let error = read(item).unwrap_err().to_string();
    assert_eq!(error, "the item p / s cannot be read");
}
