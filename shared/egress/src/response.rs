use reqwest::Response;

/// How much of a response's body is read before the connection is dropped.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// How much of a response is kept, as text.
pub const MAX_EXCERPT_BYTES: usize = 4 * 1024;

/// A UTF-8 character that starts within the limit may end this many bytes after it.
const MAX_CHAR_REST: usize = 3;

/// Reads the body to its end or to [`MAX_RESPONSE_BYTES`] and returns its beginning.
pub(crate) async fn read_excerpt(mut response: Response) -> Result<String, reqwest::Error> {
    let mut kept = Vec::new();
    let mut read = 0;
    while let Some(chunk) = response.chunk().await? {
        let room = MAX_EXCERPT_BYTES + MAX_CHAR_REST - kept.len();
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        read += chunk.len();
        if read >= MAX_RESPONSE_BYTES {
            break;
        }
    }
    Ok(as_text(&kept))
}

/// At most [`MAX_EXCERPT_BYTES`] bytes of text. Control characters are replaced, because a terminal may interpret them.
fn as_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        let c = if c.is_control() && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c };
        if text.len() + c.len_utf8() > MAX_EXCERPT_BYTES {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_control_characters_but_line_ends_and_tabs() {
        assert_eq!(as_text(b"a\tb\nc\r\x1b[31m\x7f"), "a\tb\nc\u{fffd}\u{fffd}[31m\u{fffd}");
        assert_eq!(as_text("\u{85}ä".as_bytes()), "\u{fffd}ä");
    }

    #[test]
    fn text_is_cut_between_characters() {
        let euros = "€".repeat(2_000);
        assert_eq!(
            as_text(&euros.as_bytes()[..MAX_EXCERPT_BYTES + MAX_CHAR_REST]),
            "€".repeat(MAX_EXCERPT_BYTES / 3)
        );
        assert_eq!(as_text(&vec![b'x'; MAX_EXCERPT_BYTES + 3]).len(), MAX_EXCERPT_BYTES);
    }

    #[test]
    fn text_that_is_not_utf_8_stays_within_the_limit() {
        assert_eq!(as_text(&[0xff; MAX_EXCERPT_BYTES]), "\u{fffd}".repeat(MAX_EXCERPT_BYTES / 3));
    }
}
