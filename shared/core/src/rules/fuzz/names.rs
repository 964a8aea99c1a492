use crate::ids::{DeliveryKey, Tenant, generated_at, is_tenant_name, new_event_id};
use crate::rules::access::{KEY_PREFIX, may_be_key};
use crate::rules::event_type::{MAX_SEGMENT_LEN, MAX_SEGMENTS, is_name, is_pattern, matches};
use crate::time::Timestamp;

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        b"order.created\norder.*",
        b"holdfast.url.disabled\n*",
        b"shop-1\n*.*",
        b"dlv_06ccpi2bsc0000000000000000abcdefghijklmnopqrstuv012345",
        b"evt_06ccpi2bsc0000000000000000",
        b"2026-01-31T12:00:00.123+01:00",
        b"hf_abcdefghijklmnopqrstuvwxyz234567",
    ]
}

/// Names, ids, times and keys: what is read is written the same way, and a pattern matches what it says. The first line is any of them, the
/// second a pattern.
pub fn check(input: &[u8]) {
    assert_eq!(may_be_key(input), input.starts_with(KEY_PREFIX.as_bytes()) && input.len() <= 256);
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (name, pattern) = text.split_once('\n').unwrap_or((text, "*"));
    check_type(name, pattern);
    let tenant = Tenant::named(name);
    assert_eq!(tenant.is_some(), is_tenant_name(name));
    // It stands between these in the keys of records.
    assert!(tenant.is_none_or(|tenant| !tenant.0.contains(['#', '/', '.', '*'])), "{name}");
    let of_one: Tenant = "default".into();
    if let Some(key) = DeliveryKey::parse(&of_one, name) {
        assert_eq!((key.id().as_str(), &key.tenant), (name, &of_one));
    }
    if let Some(at) = generated_at(name) {
        assert_eq!(generated_at(&new_event_id(at, [7; 16])), Some(at), "{name}");
    }
    if let Some(time) = Timestamp::parse(name) {
        assert_eq!(Timestamp::parse(&time.to_string()), Some(time), "{name}");
        assert_eq!(time.sort_key().len(), Timestamp::ZERO.sort_key().len(), "{name}");
    }
}

fn check_type(name: &str, pattern: &str) {
    if !is_name(name) || !is_pattern(pattern) {
        return;
    }
    assert!(is_pattern(name) && matches(name, name), "{name}");
    assert!(name.len() <= MAX_SEGMENTS * (MAX_SEGMENT_LEN + 1), "{name}");
    let (wanted, given): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), name.split('.').collect());
    let same = wanted.len() == given.len() && wanted.iter().zip(&given).all(|(w, g)| *w == "*" || w == g);
    let all = pattern == "*" && given[0] != "holdfast";
    let own = pattern == "*" && name == "holdfast";
    assert_eq!(matches(pattern, name), all || own || (same && pattern != "*"), "{pattern} {name}");
}
