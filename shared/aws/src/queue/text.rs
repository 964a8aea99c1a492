//! Messages as text. SQS takes only some characters, and a message carries any bytes.

use std::borrow::Cow;

use data_encoding::BASE64;
use holdfast_core::records::{Message, Unreadable};

/// Stands before bytes in base 64. The plain form always begins with `{`.
const ENCODED: char = '~';

/// As it is wherever SQS lets every character through, in base 64 otherwise.
#[must_use]
pub fn to_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(plain) if plain.starts_with('{') && plain.chars().all(is_allowed) => plain,
        Ok(other) => encoded(other.as_bytes()),
        Err(error) => encoded(error.as_bytes()),
    }
}

/// The reverse of [`to_text`].
pub fn from_text(text: &str) -> Result<Cow<'_, [u8]>, Unreadable> {
    if text.starts_with('{') {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let poison = |why: String| Unreadable::Poison(why);
    let base64 =
        text.strip_prefix(ENCODED).ok_or_else(|| poison("neither plain nor in base 64".to_owned()))?;
    BASE64.decode(base64.as_bytes()).map(Cow::Owned).map_err(|error| poison(format!("base 64: {error}")))
}

/// The message in a text that came out of a queue.
pub fn read_message(text: &str) -> Result<Message, Unreadable> {
    Message::decode(&from_text(text)?)
}

/// What SQS takes. Chars are never surrogates, so the range between the first two limits is left out by itself.
pub(super) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(1 + BASE64.encode_len(bytes.len()));
    text.push(ENCODED);
    BASE64.encode_append(bytes, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_sqs_takes_is_sent_as_it_is() {
        for plain in ["{}", "{\"v\":1}\n\t\r \u{7f}\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{1f980}\u{10ffff}"] {
            assert_eq!(to_text(plain.as_bytes().to_vec()), plain);
        }
    }

    #[test]
    fn what_sqs_does_not_take_is_encoded() {
        let refused: [&[u8]; 7] =
            [b"{\0", b"{\x0b", b"{\x1f", "{\u{fffe}".as_bytes(), "{\u{ffff}".as_bytes(), b"{\xff", b"~{}"];
        for bytes in refused {
            let text = to_text(bytes.to_vec());
            assert!(text.starts_with(ENCODED) && text.is_ascii(), "{text}");
            assert_eq!(from_text(&text).unwrap(), bytes);
        }
    }

    #[test]
    fn anything_else_is_poison() {
        for text in ["", "hello", "~?", "~e30", " {}"] {
            assert!(matches!(from_text(text), Err(Unreadable::Poison(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_survives(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = to_text(bytes.clone());
            prop_assert!(text.chars().all(is_allowed));
            prop_assert_eq!(from_text(&text).unwrap(), bytes);
        }

        #[test]
        fn every_character_survives(body in ".{0,100}", odd in prop::option::of(prop::char::range('\0', '\u{ffff}'))) {
            let bytes = format!("{{\"v\":1}}\n{body}{}", odd.map(String::from).unwrap_or_default()).into_bytes();
            let text = to_text(bytes.clone());
            prop_assert!(text.chars().all(is_allowed));
            prop_assert_eq!(from_text(&text).unwrap(), bytes);
        }
    }
}
