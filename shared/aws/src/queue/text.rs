//! Messages as text. SQS rejects some characters, and a message carries any bytes.

use std::borrow::Cow;

use data_encoding::BASE64;
use holdfast_core::records::{Message, Unreadable};

/// The prefix of bytes in base 64. The plain form always begins with `{`.
const ENCODED: char = '~';

/// Plain text if SQS accepts every character of it, base 64 otherwise.
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
    let corrupt = |why: String| Unreadable::Corrupt(why);
    let base64 = text.strip_prefix(ENCODED).ok_or_else(|| corrupt("neither JSON nor base 64".to_owned()))?;
    BASE64.decode(base64.as_bytes()).map(Cow::Owned).map_err(|error| corrupt(format!("base 64: {error}")))
}

/// Reads the message in a text from a queue.
pub fn read_message(text: &str) -> Result<Message, Unreadable> {
    Message::decode(&from_text(text)?)
}

/// The characters that SQS accepts. A `char` is never a surrogate, so the first range needs no gap for them.
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
    fn text_that_sqs_accepts_is_sent_as_it_is() {
        for plain in ["{}", "{\"v\":1}\n\t\r \u{7f}\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{1f980}\u{10ffff}"] {
            assert_eq!(to_text(plain.as_bytes().to_vec()), plain);
        }
    }

    #[test]
    fn text_that_sqs_rejects_is_encoded() {
        let rejected: [&[u8]; 7] =
            [b"{\0", b"{\x0b", b"{\x1f", "{\u{fffe}".as_bytes(), "{\u{ffff}".as_bytes(), b"{\xff", b"~{}"];
        for bytes in rejected {
            let text = to_text(bytes.to_vec());
            assert!(text.starts_with(ENCODED) && text.is_ascii(), "{text}");
            assert_eq!(from_text(&text).unwrap(), bytes);
        }
    }

    #[test]
    fn any_other_text_is_corrupt() {
        for text in ["", "hello", "~?", "~e30", " {}"] {
            assert!(matches!(from_text(text), Err(Unreadable::Corrupt(_))), "{text}");
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
