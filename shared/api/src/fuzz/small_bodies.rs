use holdfast_core::ids::{UrlId, is_tenant_name};
use holdfast_core::rules::access::Role;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::event_type;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::quota::MAX_QUOTA;
use holdfast_core::time::Timestamp;

use super::refusal;
use crate::{events, keys, replays, subscription_request, tenants, urls};

/// 2026-01-31T12:00:00Z
const NOW: Timestamp = Timestamp::from_millis(1_769_860_800_000);
const MAX_CHARS: usize = 1_024;

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        br#"{"tenant":"shop-1","role":"admin","description":"d","expires_at":"2027-01-31T12:00:00+01:00"}"#,
        br#"{"role":"operator","expires_at":"2020-01-31T12:00:00Z"}"#,
        br#"{"since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z","states":["dead","delivered"]}"#,
        br#"{"since":"2099-01-01T00:00:00Z","states":[]}"#,
        br#"{"reason":"because","replay_expired":true}"#,
        br#"{"events_per_second":5.0,"subscriptions":null,"waiting_bytes":9007199254740993,"stored_bytes":null}"#,
        br#"{"force":true}"#,
        br#"{"type":"holdfast.url.frozen","data":{"a":[1,null]},"subject":"s"}"#,
        b"",
    ]
}

/// The bodies that create keys, set quotas, start replays, change URLs, ping and try an event: each is read within its limits, or refused with the field that
/// is wrong.
pub fn check(input: &[u8]) {
    match keys::parse_new_key(input, NOW) {
        Ok(key) => {
            assert!(key.role == Role::Operator || key.tenant.is_some());
            assert!(key.tenant.is_none_or(|tenant| is_tenant_name(tenant.as_str())));
            assert!(key.description.is_none_or(|text| text.chars().count() <= MAX_CHARS));
            assert!(key.expires_at_real.is_none_or(|at| at > NOW));
        }
        Err(problem) => refusal::check(&problem, &["tenant", "role", "description", "expires_at"]),
    }
    match tenants::parse_patch(input) {
        Ok(patch) => {
            let quotas =
                [patch.events_per_second, patch.subscriptions, patch.waiting_bytes, patch.stored_bytes];
            assert!(quotas.into_iter().flatten().flatten().all(|quota| (1..=MAX_QUOTA).contains(&quota)));
        }
        Err(problem) => {
            refusal::check(&problem, &["events_per_second", "subscriptions", "waiting_bytes", "stored_bytes"])
        }
    }
    match replays::parse_request(input, UrlId::of("https://example.com/"), NOW) {
        Ok(replay) => {
            let replayable = [DeliveryState::Dead, DeliveryState::Delivered];
            assert!(
                !replay.states.is_empty() && replay.states.iter().all(|state| replayable.contains(state))
            );
            assert!(replay.since.is_none_or(|since| since <= replay.until.unwrap_or(NOW)));
        }
        Err(problem) => refusal::check(&problem, &["since", "until", "states"]),
    }
    if let Err(problem) = subscription_request::parse_ping(input) {
        refusal::check(&problem, &["force"]);
    }
    match events::parse_sample(input) {
        Ok(event) => assert!(event.id.is_none() && event_type::is_name(&event.event_type)),
        Err(problem) => refusal::check(&problem, &["type", "data", "subject"]),
    }
    for action in [OperatorAction::Enable, OperatorAction::Freeze, OperatorAction::Disable] {
        match urls::parse_request(input, action) {
            Ok((reason, replay_expired)) => {
                assert!(reason.is_none_or(|reason| reason.chars().count() <= MAX_CHARS));
                assert!(!replay_expired || action == OperatorAction::Enable);
            }
            Err(problem) => refusal::check(&problem, &["reason", "replay_expired"]),
        }
    }
}
