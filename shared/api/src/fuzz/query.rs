use holdfast_core::ids::Tenant;

use super::refusal;
use crate::auth::{bearer, tenant_param};
use crate::cursor::{CursorCodec, CursorKey};
use crate::deliveries::parse_filter;
use crate::params::{Params, reject_unknown};
use crate::path::PathId;
use crate::urls;

const KNOWN: &[&str] =
    &["event", "url", "subscription", "state", "since", "until", "limit", "cursor", "tenant"];

const KNOWN_FOR_URLS: &[&str] = &["state", "failing", "sort", "order", "url", "limit", "cursor", "tenant"];

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        b"state=dead&since=2026-01-01T00:00:00%2B01:00&limit=100&event=order-1",
        b"url=url_00000000000000000000000000&subscription=sub_00000000000000000000000000&tenant=shop",
        b"limit=0&cursor=AAAA&cursor=&state",
        b"failing=true&sort=last_failure_at&order=desc",
        b"url=https://a.example/b*",
        b"Bearer hf_abcdefghijklmnop",
        b"dlv_0000000000000000000000000000000000000000000000000000",
        // Of the list below, after "x".
        b"cursor=Mof7xK5dFUzoqo8gYmvE13g",
    ]
}

/// Parameters, cursors, ids in paths and the key of a request: only what is valid gets through, and only cursors that were made here.
pub fn check(input: &[u8]) {
    if let Some(key) = bearer(input) {
        assert!(input[..7].eq_ignore_ascii_case(b"bearer ") && !key.is_empty());
        assert_eq!(key, input[7..].trim_ascii());
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let tenant: Tenant = "default".into();
    let key = CursorKey::derive(["a secret"]);
    let mut params = Params::parse(text, key);
    parse_filter(&mut params);
    match params.page("cursor", "deliveries", &tenant) {
        Ok(page) => {
            assert!((1..=100).contains(&page.limit));
            let after = page.after.as_deref().unwrap_or("2026#x");
            assert_eq!(page.cursors.decode(&page.cursors.encode(after)).as_deref(), Some(after));
        }
        Err(problem) => refusal::check(&problem, KNOWN),
    }
    let mut params = Params::parse(text, key);
    urls::parse_filter(&mut params);
    if let Err(problem) = params.page("cursor", "urls", &tenant) {
        refusal::check(&problem, KNOWN_FOR_URLS);
    }
    // A cursor has one form, and belongs to one list.
    let cursors = CursorCodec::new(&key, "deliveries", &tenant, Vec::new());
    if let Some(after) = cursors.decode(text) {
        assert_eq!(cursors.encode(&after), text);
    }
    let made = cursors.encode(text);
    assert_eq!(cursors.decode(&made).as_deref(), Some(text));
    assert_eq!(CursorCodec::new(&key, "urls", &tenant, Vec::new()).decode(&made), None);
    for refused in [tenant_param(text).err(), reject_unknown(Some(text)).err()].into_iter().flatten() {
        refusal::check(&refused, KNOWN);
    }
    check_path(&PathId(text.to_owned()), &tenant);
}

fn check_path(id: &PathId, tenant: &Tenant) {
    let read = [
        id.subscription().ok().map(|id| id.0),
        id.url().ok().map(|id| id.0),
        id.key().ok().map(|id| id.0),
        id.replay().ok().map(|id| id.0),
        id.delivery(tenant).ok().map(|key| key.id()),
    ];
    let read: Vec<_> = read.into_iter().flatten().collect();
    assert!(read.len() <= 1 && read.iter().all(|read| *read == id.0), "{read:?}");
}
