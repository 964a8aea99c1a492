//! The data of events, which can be made again from a number, so that nothing has to be kept to compare it.

use std::fmt::Write;

/// A repeated key, an order that is not that of the alphabet, a number of 40 digits, escapes and U+FFFF: none of them may change.
const ODDITIES: &str = r#""zebra":1,"apple":[ 2,3 ],"zebra":  2,"digits":1234567890123456789012345678901234567890,"text":"\u00e4\uFFFF"#;

/// The data of the event with this number, padded to about `size` bytes.
pub(super) fn data(serial: u64, size: usize) -> String {
    let mut data = format!("{{\"serial\":{serial},\"size\":{size},{ODDITIES}\u{FFFF} ");
    while data.len() < size {
        // Infallible. Not the same text over and over, which would compress to nothing.
        let _ = write!(data, "{:x} ", (serial + data.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    data.push_str("\"}");
    data
}

/// The number of the event that this body is about, if its data is exactly what was posted.
pub(super) fn serial_of(body: &[u8]) -> Option<u64> {
    let body = std::str::from_utf8(body).ok()?;
    let (_, data_and_end) = body.split_once("\"data\":")?;
    let arrived = data_and_end.strip_suffix('}')?;
    let (serial, rest) = arrived.strip_prefix("{\"serial\":")?.split_once(",\"size\":")?;
    let (size, _) = rest.split_once(',')?;
    let serial: u64 = serial.parse().ok()?;
    (arrived == data(serial, size.parse().ok()?)).then_some(serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_serial_only_if_every_byte_is_as_posted() {
        for size in [0, 5_000] {
            let body = format!(r#"{{"id":"evt_1","type":"a","data":{}}}"#, data(7, size));
            assert_eq!(serial_of(body.as_bytes()), Some(7));
            for (from, to) in [("\"zebra\":  2", "\"zebra\":2"), ("\\u00e4", "ä"), (":7,", ":8,"), (" ", "")]
            {
                assert_ne!(serial_of(body.replacen(from, to, 1).as_bytes()), Some(7), "{from}");
            }
        }
    }

    #[test]
    fn the_data_is_json() {
        assert_eq!(serde_json::from_str::<serde_json::Value>(&data(7, 900)).unwrap()["serial"], 7);
    }
}
