use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::text;

/// How much of a response's body is read before the connection is dropped.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// In how many pieces. Each is handed over between two tasks, so a response in pieces of one byte would take milliseconds of processor time.
pub const MAX_RESPONSE_PIECES: usize = 64;
/// How much of a response is kept, as text.
pub const MAX_EXCERPT_BYTES: usize = 4 * 1024;

/// A UTF-8 character that starts within the limit may end this many bytes after it.
const MAX_CHAR_REST: usize = 3;

/// Reads the body to its end, to [`MAX_RESPONSE_BYTES`] or to [`MAX_RESPONSE_PIECES`]. Returns its beginning, and whether it was read to its end.
pub(crate) async fn read_excerpt(mut body: Incoming) -> Result<(String, bool), hyper::Error> {
    let mut kept = Vec::new();
    let (mut read, mut pieces) = (0, 0);
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        let room = MAX_EXCERPT_BYTES + MAX_CHAR_REST - kept.len();
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        read += chunk.len();
        pieces += 1;
        if read >= MAX_RESPONSE_BYTES || pieces >= MAX_RESPONSE_PIECES {
            return Ok((as_text(&kept), false));
        }
    }
    Ok((as_text(&kept), true))
}

fn as_text(bytes: &[u8]) -> String {
    text::to_visible(&String::from_utf8_lossy(bytes), MAX_EXCERPT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

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
