//! Names of things. Ids that are derived (event keys, delivery ids, URL ids) are hashes, so that the same input always
//! leads to the same record, wherever and however often it is processed.

use std::fmt;

use data_encoding::{BASE32HEX_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::time::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(s: &str) -> Self {
                $name(s.to_owned())
            }
        }
    };
}

id!(/// Whose things these are. Everything is kept apart by tenant.
    Tenant);
id!(/// `sub_` and 26 characters.
    SubscriptionId);
id!(/// `url_` and 26 characters, derived from the normalised URL.
    UrlId);
id!(/// 26 characters derived from event id and acceptance time: an id used again a day later is another event.
    EventKey);
id!(/// `job_` and 26 characters.
    JobId);
id!(/// Names one step of the release of a URL, or of a bulk replay.
    StepId);
id!(/// `key_` and 26 characters, derived from the key's hash.
    KeyId);
id!(/// `aud_` and 26 characters, in the order of time.
    AuditId);

/// 128 bits as 26 lower-case letters and digits: safe in headers, paths, shells and keys, and in the order of the bytes.
fn short(bytes: [u8; 16]) -> String {
    BASE32HEX_NOPAD.encode(&bytes).to_ascii_lowercase()
}

/// Puts a time in front, so that keys of the same time are neighbours in an ordered store: a commit then touches a few pages instead
/// of one for every key.
fn timed(at: Timestamp, mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[..6].copy_from_slice(&at.as_millis().to_be_bytes()[2..]);
    bytes
}

const SHORT_LEN: usize = 26;

fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length goes first so that no two lists of parts read the same.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let full = hasher.finalize();
    let mut half = [0; 16];
    half.copy_from_slice(&full[..16]);
    half
}

/// A SHA-256 in hex, for comparing bodies and keeping keys without their text.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

impl SubscriptionId {
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        SubscriptionId(format!("sub_{}", short(random)))
    }
}

impl JobId {
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        JobId(format!("job_{}", short(random)))
    }

    /// The same work always gets the same job, so that starting it twice is starting it once.
    #[must_use]
    pub fn derived(parts: &[&str]) -> Self {
        let parts: Vec<&[u8]> = parts.iter().map(|p| p.as_bytes()).collect();
        JobId(format!("job_{}", short(hash(&parts))))
    }
}

const MAX_TENANT_LEN: usize = 64;

/// Whether a tenant can have this name. Keys of records hold it between `#`, so it must not contain one.
#[must_use]
pub fn is_tenant_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=MAX_TENANT_LEN).contains(&text.len())
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|b| plain(b) || b == b'_' || b == b'-')
}

impl Tenant {
    /// `None`: no tenant can have this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        is_tenant_name(name).then(|| Tenant(name.to_owned()))
    }
}

impl KeyId {
    /// `hash`: the key's [`fingerprint`].
    #[must_use]
    pub fn of(hash: &str) -> Self {
        KeyId(format!("key_{}", short(self::hash(&[b"key", hash.as_bytes()]))))
    }
}

impl AuditId {
    #[must_use]
    pub fn new(at: Timestamp, random: [u8; 16]) -> Self {
        AuditId(format!("aud_{}", short(timed(at, random))))
    }
}

impl UrlId {
    #[must_use]
    pub fn of(normalised_url: &str) -> Self {
        UrlId(format!("url_{}", short(hash(&[normalised_url.as_bytes()]))))
    }
}

impl EventKey {
    #[must_use]
    pub fn of(event_id: &str, accepted_at: Timestamp) -> Self {
        let hash = hash(&[event_id.as_bytes(), &accepted_at.as_millis().to_be_bytes()]);
        EventKey(short(timed(accepted_at, hash)))
    }
}

/// An event id for a producer that gave none.
#[must_use]
pub fn new_event_id(now: Timestamp, random: [u8; 16]) -> String {
    format!("evt_{}", short(timed(now, random)))
}

/// The id of the event that tells of one change of a URL's state.
#[must_use]
pub fn change_event_id(url_id: &UrlId, generation: u64, at: Timestamp) -> String {
    let hash = hash(&[b"change", url_id.as_str().as_bytes(), &generation.to_be_bytes()]);
    format!("evt_{}", short(timed(at, hash)))
}

/// The id of the event that tells of the trouble of a URL, by the number of its note.
#[must_use]
pub fn trouble_event_id(url_id: &UrlId, number: u64, at: Timestamp) -> String {
    let hash = hash(&[b"trouble", url_id.as_str().as_bytes(), &number.to_be_bytes()]);
    format!("evt_{}", short(timed(at, hash)))
}

/// The id of the event that tells of the deliveries that died at a URL in one period.
#[must_use]
pub fn deaths_event_id(url_id: &UrlId, period: Timestamp) -> String {
    format!("evt_{}", short(timed(period, hash(&[b"deaths", url_id.as_str().as_bytes()]))))
}

/// When a generated id was made, which is when its event was accepted: such an event is found without a record of its own.
#[must_use]
pub fn generated_at(event_id: &str) -> Option<Timestamp> {
    let tail = event_id.strip_prefix("evt_").filter(|tail| tail.len() == SHORT_LEN)?;
    let bytes = BASE32HEX_NOPAD.decode(tail.to_ascii_uppercase().as_bytes()).ok()?;
    let mut millis = [0; 8];
    millis[2..].copy_from_slice(bytes.get(..6)?);
    Some(Timestamp::from_millis(i64::from_be_bytes(millis)))
}

/// Which delivery: one event on its way to one subscription. The public id can be read back into this, so a delivery is
/// found by its id without an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeliveryKey {
    pub tenant: Tenant,
    pub event_key: EventKey,
    pub subscription_id: SubscriptionId,
}

impl DeliveryKey {
    #[must_use]
    pub fn id(&self) -> String {
        let tail = self.subscription_id.0.strip_prefix("sub_").unwrap_or(&self.subscription_id.0);
        format!("dlv_{}{tail}", self.event_key)
    }

    #[must_use]
    pub fn parse(tenant: &Tenant, id: &str) -> Option<Self> {
        let rest = id.strip_prefix("dlv_")?;
        let plain = rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !plain || rest.len() != 2 * SHORT_LEN {
            return None;
        }
        let (event, subscription) = rest.split_at(SHORT_LEN);
        Some(DeliveryKey {
            tenant: tenant.clone(),
            event_key: EventKey(event.to_owned()),
            subscription_id: SubscriptionId(format!("sub_{subscription}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_id_reads_back() {
        let key = DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of("evt_1", Timestamp::from_millis(5)),
            subscription_id: SubscriptionId::new([7; 16]),
        };
        assert_eq!(DeliveryKey::parse(&key.tenant, &key.id()), Some(key.clone()));
        assert_eq!(DeliveryKey::parse(&key.tenant, "dlv_nonsense"), None);
        assert_eq!(DeliveryKey::parse(&key.tenant, &format!("dlv_{}", "é".repeat(26))), None);
    }

    #[test]
    fn tenants_have_plain_names() {
        for good in ["a", "0", "default", "shop-1", "a_b", &"x".repeat(64)] {
            assert!(is_tenant_name(good), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "a#b", "#", "a/b", "a.b", "é", "a\n", "*", &"x".repeat(65)] {
            assert!(!is_tenant_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_generated_id_tells_its_time() {
        let at = Timestamp::from_millis(1_767_225_600_123);
        assert_eq!(generated_at(&new_event_id(at, [9; 16])), Some(at));
        for other in ["evt_", "evt_1", "order-1", "evt_zzzzzzzzzzzzzzzzzzzzzzzzzz", "evt_é"] {
            assert_eq!(generated_at(other), None);
        }
    }

    #[test]
    fn the_same_id_at_another_time_is_another_event() {
        let a = EventKey::of("evt_1", Timestamp::from_millis(5));
        assert_ne!(a, EventKey::of("evt_1", Timestamp::from_millis(6)));
        assert_ne!(a, EventKey::of("evt_2", Timestamp::from_millis(5)));
    }
}
