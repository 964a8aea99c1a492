//! Standard Webhooks signatures.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::time::Timestamp;

const PREFIX: &str = "whsec_";

/// A signing secret. Shown once, never logged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// `whsec_` and base64.
    pub value: String,
    /// Until when a replaced secret stays valid for signing, in real time. `None`: the current one.
    pub until_real: Option<Timestamp>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A fresh secret, as it is shown once to the subscriber.
#[must_use]
pub fn new_secret(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", BASE64.encode(&random))
}

/// How many bytes a secret may have that a subscriber brings along.
const SECRET_BYTES: RangeInclusive<usize> = 24..=64;

/// Whether this can be a secret: as others make them, in the form of a fresh one.
#[must_use]
pub fn is_secret(text: &str) -> bool {
    let decoded = text.strip_prefix(PREFIX).and_then(|encoded| BASE64.decode(encoded.as_bytes()).ok());
    decoded.is_some_and(|bytes| SECRET_BYTES.contains(&bytes.len()))
}

/// Every secret makes another signature on every attempt.
const MAX_SECRETS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a subscription has at most {MAX_SECRETS} live secrets")]
pub struct TooManySecrets;

/// Puts a new secret first. The one before stays valid for signing for `overlap`; expired ones are removed.
pub fn rotate(
    secrets: &mut Vec<Secret>,
    fresh: String,
    now_real: Timestamp,
    overlap: Duration,
) -> Result<(), TooManySecrets> {
    for secret in secrets.iter_mut() {
        secret.until_real.get_or_insert(now_real + overlap);
    }
    secrets.retain(|secret| is_live(secret, now_real));
    if secrets.len() >= MAX_SECRETS {
        return Err(TooManySecrets);
    }
    secrets.insert(0, Secret { value: fresh, until_real: None });
    Ok(())
}

fn is_live(secret: &Secret, now_real: Timestamp) -> bool {
    secret.until_real.is_none_or(|until| until > now_real)
}

/// Makes the value of `webhook-signature`: one `v1` signature for each secret that is live at `now_real`, the newest first. Piece by piece,
/// because ten signatures of a large body take many milliseconds.
pub struct Signer {
    /// What is signed before the body.
    head: String,
    body: Bytes,
    /// Of the secrets that have not signed yet, the newest last.
    keys: Vec<Vec<u8>>,
    /// The signature that is being made, and how many bytes of the body it has.
    current: Option<(Hmac<Sha256>, usize)>,
    made: Vec<String>,
}

impl Signer {
    #[must_use]
    pub fn new(secrets: &[Secret], id: &str, now_real: Timestamp, body: Bytes) -> Signer {
        let live = secrets.iter().rev().filter(|secret| is_live(secret, now_real));
        Signer {
            head: format!("{id}.{}.", now_real.as_secs()),
            body,
            keys: live.map(|secret| key(&secret.value)).collect(),
            current: None,
            made: Vec::new(),
        }
    }

    /// Signs at most this many bytes more. Returns whether everything is signed.
    pub fn step(&mut self, max_bytes: usize) -> bool {
        let mut left = max_bytes;
        loop {
            let (mut mac, signed) = match (self.current.take(), self.keys.pop()) {
                (Some(current), key) => {
                    self.keys.extend(key);
                    current
                }
                (None, Some(key)) => (self.start(&key), 0),
                (None, None) => return true,
            };
            let upto = self.body.len().min(signed.saturating_add(left));
            mac.update(&self.body[signed..upto]);
            left -= upto - signed;
            if upto < self.body.len() {
                self.current = Some((mac, upto));
                return false;
            }
            self.made.push(format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())));
        }
    }

    /// The signatures that are complete.
    #[must_use]
    pub fn finish(self) -> String {
        self.made.join(" ")
    }

    fn start(&self, key: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(self.head.as_bytes());
        mac
    }
}

fn key(secret: &str) -> Vec<u8> {
    // Secrets are made by us, as base64; a damaged one still signs, with its text, and the receiver refuses it.
    let text = secret.strip_prefix(PREFIX).unwrap_or(secret);
    BASE64.decode(text.as_bytes()).unwrap_or_else(|_| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(secrets: &[Secret], id: &str, now_real: Timestamp, body: &'static [u8]) -> String {
        let mut signer = Signer::new(secrets, id, now_real, Bytes::from_static(body));
        assert!(signer.step(usize::MAX));
        signer.finish()
    }

    fn secret(value: &str, until_real: Option<Timestamp>) -> Secret {
        Secret { value: value.to_owned(), until_real }
    }

    #[test]
    fn agrees_with_the_official_library() {
        let value = new_secret([7; 32]);
        let now = Timestamp::from_millis(1_700_000_000_000);
        let ours = sign(&[secret(&value, None)], "dlv_1", now, b"{\"a\":1}");
        let official = standardwebhooks::Webhook::new(&value).unwrap();
        let theirs = official.sign("dlv_1", now.as_secs(), b"{\"a\":1}").unwrap();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_secret_of_the_subscriber_has_24_to_64_bytes_in_base64() {
        let of = |bytes: usize| format!("{PREFIX}{}", BASE64.encode(&vec![7; bytes]));
        for (secret, is_one) in [
            (new_secret([1; 32]), true),
            (of(23), false),
            (of(24), true),
            (of(64), true),
            (of(65), false),
            (BASE64.encode(&[7; 32]), false),
            (of(32).replace('=', ""), false),
            (format!("{} ", of(32)), false),
            (format!("{PREFIX}{}", "-_".repeat(16)), false),
            (PREFIX.to_owned(), false),
        ] {
            assert_eq!(is_secret(&secret), is_one, "{secret}");
        }
    }

    #[test]
    fn a_new_secret_has_32_bytes_in_base64_and_is_not_shown() {
        let value = new_secret([7; 32]);
        assert_eq!(value, "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        assert_eq!(key(&value), [7; 32]);
        assert_eq!(format!("{:?}", secret(&value, None)), "Secret(…)");
    }

    /// As published with Standard Webhooks: secret, `webhook-id`, `webhook-timestamp`, body, signature.
    #[test]
    fn agrees_with_the_published_vectors() {
        let vectors = [
            (
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
            (
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#,
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
            ),
        ];
        for (value, id, at_secs, body, expected) in vectors {
            let at = Timestamp::from_millis(at_secs * 1_000);
            assert_eq!(sign(&[secret(value, None)], id, at, body.as_bytes()), expected);
        }
    }

    #[test]
    fn pieces_make_the_same_signatures() {
        let now = Timestamp::from_millis(1_000_000);
        let secrets: Vec<Secret> = (1..=3).map(|n| secret(&new_secret([n; 32]), None)).collect();
        let body = b"0123456789";
        let whole = sign(&secrets, "x", now, body);
        for bytes in 1..=31 {
            let mut signer = Signer::new(&secrets, "x", now, Bytes::from_static(body));
            let mut steps = 1;
            while !signer.step(bytes) {
                steps += 1;
                assert!(steps <= 31, "it does not end");
            }
            assert!(steps * bytes >= 30 && (steps - 1) * bytes <= 30, "{steps} of {bytes} bytes");
            assert_eq!(signer.finish(), whole);
        }
        let mut nothing = Signer::new(&[], "x", now, Bytes::from_static(body));
        assert!(nothing.step(1));
        assert_eq!(nothing.finish(), "");
    }

    #[test]
    fn old_secrets_stay_valid_until_they_expire() {
        let now = Timestamp::from_millis(1_000_000);
        let before = Timestamp::from_millis(999_999);
        let new = secret(&new_secret([2; 32]), None);
        let old = secret(&new_secret([1; 32]), Some(now));
        assert_eq!(sign(&[new.clone(), old.clone()], "x", before, b"").split(' ').count(), 2);
        assert_eq!(sign(&[new, old], "x", now, b"").split(' ').count(), 1);
    }

    #[test]
    fn a_new_secret_comes_first_and_lapsed_ones_go() {
        let day = Duration::from_secs(86_400);
        let at = |days: u32| Timestamp::from_millis(1_000_000) + day * days;
        let mut secrets = vec![secret("first", None)];
        rotate(&mut secrets, "second".to_owned(), at(0), day * 2).unwrap();
        rotate(&mut secrets, "third".to_owned(), at(1), day * 2).unwrap();
        let expected = [secret("third", None), secret("second", Some(at(3))), secret("first", Some(at(2)))];
        assert!(secrets == expected);
        rotate(&mut secrets, "fourth".to_owned(), at(2), Duration::ZERO).unwrap();
        assert!(secrets == [secret("fourth", None), secret("second", Some(at(3)))]);
        for _ in 2..MAX_SECRETS {
            rotate(&mut secrets, "more".to_owned(), at(2), day).unwrap();
        }
        assert_eq!(rotate(&mut secrets, "too many".to_owned(), at(2), day), Err(TooManySecrets));
        assert_eq!(secrets.len(), MAX_SECRETS);
    }

    /// Some receivers look at the first one only.
    #[test]
    fn the_newest_signature_comes_first() {
        let now = Timestamp::from_millis(1_000_000);
        let mut secrets = vec![secret(&new_secret([1; 32]), None)];
        for number in 2..=3 {
            rotate(&mut secrets, new_secret([number; 32]), now, Duration::from_secs(60)).unwrap();
        }
        let alone = |number| sign(&[secret(&new_secret([number; 32]), None)], "x", now, b"{}");
        assert_eq!(sign(&secrets, "x", now, b"{}"), [alone(3), alone(2), alone(1)].join(" "));
    }
}
