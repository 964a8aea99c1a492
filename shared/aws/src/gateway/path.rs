/// The only ids in paths that may have a `/`: those of events, which producers choose. Nothing follows them in a path.
const EVENT: &str = "/v1/events/";

/// Encodes the path of a request again, so that `?` in an id does not start a query, and a space or a quote does not make the request
/// invalid.
///
/// An HTTP API decodes the percent-encoding of a path before it passes the path on; other sources of the same event, such as the URL of a
/// function, pass it on as it was sent. Both are understood: existing escapes stay, and a `/` within the id of an event is part of the id.
/// An id that has an escape itself, such as `a%2Fb`, cannot be told from the encoded form of `a/b`, and is read as the latter.
pub(super) fn encoded(raw: &str) -> String {
    let bytes = raw.as_bytes();
    let mut path = String::with_capacity(bytes.len());
    if bytes.first() != Some(&b'/') {
        path.push('/');
    }
    let id_starts = if raw.starts_with(EVENT) { EVENT.len() } else { bytes.len() };
    for (at, byte) in bytes.iter().enumerate() {
        let is_in_id = *byte == b'/' && at >= id_starts;
        if (is_plain(*byte) && !is_in_id) || (*byte == b'%' && is_escape(&bytes[at..])) {
            path.push(char::from(*byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

/// The same for a query, which API Gateway passes on as it was sent: encodes only what no URL may contain.
pub(super) fn encoded_query(raw: &str) -> String {
    raw.bytes()
        .map(|byte| match byte {
            b'!'..=b'~' if !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'`' | b'{' | b'}') => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Whether a path may contain this byte unencoded.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

fn is_escape(bytes: &[u8]) -> bool {
    bytes.get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::{encoded, encoded_query};

    #[test]
    fn a_decoded_path_is_encoded_again() {
        let table = [
            ("/v1/events/order-1", "/v1/events/order-1"),
            ("/v1/events/a?b#c", "/v1/events/a%3Fb%23c"),
            ("/v1/events/\"{x}\" y", "/v1/events/%22%7Bx%7D%22%20y"),
            ("/v1/events/é", "/v1/events/%C3%A9"),
            ("/v1/events/100%", "/v1/events/100%25"),
            ("/v1/events/100%25", "/v1/events/100%25"),
            ("/v1/events/a%2Fb", "/v1/events/a%2Fb"),
            ("/v1/events/a/b", "/v1/events/a%2Fb"),
            ("/v1/events//", "/v1/events/%2F"),
            ("/v1/events/", "/v1/events/"),
            ("/v1/events", "/v1/events"),
            ("/v1/events/a+b", "/v1/events/a+b"),
            ("/v1/events/a%2Bb", "/v1/events/a%2Bb"),
            ("/v1/urls/url_x/enable", "/v1/urls/url_x/enable"),
            ("/v1/events/%zz", "/v1/events/%25zz"),
            ("/v1/events/..", "/v1/events/.."),
            ("", "/"),
            ("v1", "/v1"),
        ];
        for (raw, expected) in table {
            assert_eq!(encoded(raw), expected, "{raw}");
            assert!(expected.parse::<http::Uri>().is_ok(), "{expected}");
        }
    }

    #[test]
    fn a_query_stays_as_it_is() {
        assert_eq!(
            encoded_query("state=dead&since=2026-01-01T00:00:00%2B01:00"),
            "state=dead&since=2026-01-01T00:00:00%2B01:00"
        );
        assert_eq!(encoded_query("a=b c&d=é#"), "a=b%20c&d=%C3%A9%23");
    }
}
