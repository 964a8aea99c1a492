//! Records as the file has them. Those of events and deliveries, which are most of the file, are compressed: they repeat their keys, and field
//! names are longer than most values. One alone is too short to find its repetitions, so that it is compressed as if it followed its key and
//! some text that has the field names.

use std::borrow::Cow;

use holdfast_core::records::{Key, Unreadable};
use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// What a compressed record begins with. A JSON document, which others are, begins with `{`.
const LZ4: u8 = 1;
/// How long that byte and the length of the document are.
const HEAD_BYTES: usize = 5;

/// The field names in the order of the records. It must never change, because records are stored that cannot be read without it: another one
/// needs another first byte.
const FIELD_NAMES: &str = concat!(
    r#"holdfast.url.enabled","holdfast.url.frozen","connect: could not connect: Connection refused (os error 111)","#,
    r#"{"v":1,"kind":"subject","tenant":"","subject":","event_id":"evt_","#,
    r#"{"v":1,"kind":"parked","key":{"tenant":"","url_id":"url_","due_at":17,"expires_at":17"#,
    r#"{"v":1,"kind":"attempt","key":{"tenant":""outcome":"failure","status":500,"error":"the response has status 500","ms":"#,
    r#""excerpt":"","remove_at":17,"replayed_by":null,"progress":{"state":"waiting","epoch":0,"epoch_began_at":17,"first_attempt_at":17,"#,
    r#""next_attempt":1,"due_at":17,"expires_at":17,"look_at":17,"looks":0}}"state":"parked","state":"delivered","remove_at":17"#,
    r#"{"v":1,"kind":"delivery","key":{"tenant":"{"v":1,"kind":"event","tenant":"","id":"evt_","event_key":"","event_type":"","#,
    r#""subject":null,"accepted_at":17,"deliveries":1,"fingerprint":"","phase":"done","remove_at":17"#,
    r#"{"v":1,"kind":"logged","key":{"tenant":"","event_key":"","subscription_id":"sub_"},"event_id":"evt_","event_type":"","#,
    r#""accepted_at":17,"url_id":"url_","url":"https://","attempt":{"key":{"tenant":"","event_key":"","subscription_id":"sub_"},"#,
    r#""epoch":0,"n":0,"at":17,"outcome":"success","status":200,"error":null,"ms":1,"excerpt":null,"remove_at":17}}"#,
);

/// Whether there are many of these. Others are few and are written often, mostly by the one writing thread.
fn is_one_of_many(key: &Key) -> bool {
    ["event#", "deliveries#", "parked#", "subject#"].iter().any(|kind| key.partition.starts_with(kind))
}

/// What the record is compressed with.
fn before(key: &Key) -> Vec<u8> {
    [FIELD_NAMES, &key.partition, "#", &key.sort].concat().into_bytes()
}

/// A record, given as a JSON document, as the file has it.
pub(crate) fn pack(key: &Key, document: Vec<u8>) -> Vec<u8> {
    if !is_one_of_many(key) {
        return document;
    }
    let compressed = compress_prepend_size_with_dict(&document, &before(key));
    if compressed.len() < document.len() { [&[LZ4], compressed.as_slice()].concat() } else { document }
}

/// The JSON document of a record.
pub(crate) fn unpack<'a>(key: &Key, packed: &'a [u8]) -> Result<Cow<'a, [u8]>, Unreadable> {
    let Some((&LZ4, compressed)) = packed.split_first() else { return Ok(Cow::Borrowed(packed)) };
    let corrupt =
        |why: &dyn std::fmt::Display| Unreadable::Corrupt(format!("it cannot be decompressed: {why}"));
    let document =
        decompress_size_prepended_with_dict(compressed, &before(key)).map_err(|error| corrupt(&error))?;
    if document.len() != document_bytes(packed) {
        return Err(corrupt(&"it is too short"));
    }
    Ok(Cow::Owned(document))
}

/// How long the JSON document of a record is.
pub(crate) fn document_bytes(packed: &[u8]) -> usize {
    match packed.first_chunk::<HEAD_BYTES>() {
        Some([LZ4, bytes @ ..]) => u32::from_le_bytes(*bytes) as usize,
        _ => packed.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] = br#"{"v":1,"kind":"event","tenant":"acme","id":"evt_1","event_key":"k","event_type":"a.b","subject":null,"accepted_at":1795026548349,"deliveries":1,"fingerprint":"","phase":"done","remove_at":1796423348349}"#;

    fn key() -> Key {
        Key::new("event#acme#evt_1".to_owned(), "event")
    }

    #[test]
    fn records_of_events_and_deliveries_are_compressed_and_others_are_not() {
        let packed = pack(&key(), DOCUMENT.to_vec());
        assert!(packed.len() < DOCUMENT.len() / 2, "{} of {}", packed.len(), DOCUMENT.len());
        assert_eq!(document_bytes(&packed), DOCUMENT.len());
        assert_eq!(&*unpack(&key(), &packed).unwrap(), DOCUMENT);
        let other = Key::new("url#acme#url_1".to_owned(), "health");
        assert_eq!(pack(&other, DOCUMENT.to_vec()), DOCUMENT);
    }

    #[test]
    fn a_document_that_was_stored_as_it_is_can_be_read() {
        assert_eq!(&*unpack(&key(), DOCUMENT).unwrap(), DOCUMENT);
        assert_eq!(document_bytes(DOCUMENT), DOCUMENT.len());
        assert_eq!(document_bytes(b""), 0);
        let odd = b"no repetition";
        assert_eq!(pack(&key(), odd.to_vec()), odd, "it would be longer");
    }

    /// If this fails, files of earlier builds cannot be read any more.
    #[test]
    fn what_was_compressed_before_can_be_read() {
        let stored = "01ca0000000b700101b900081a024861636d651e021b31de00156b1000034e0132612e62f200019104038b000b6001c439353032363534383334392cb7020f2e0222c039363432333334383334397d";
        let stored: Vec<u8> = (0..stored.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&stored[at..at + 2], 16).unwrap())
            .collect();
        assert_eq!(&*unpack(&key(), &stored).unwrap(), DOCUMENT);
    }

    #[test]
    fn damage_is_an_error() {
        let packed = pack(&key(), DOCUMENT.to_vec());
        for end in 1..packed.len() {
            assert!(unpack(&key(), &packed[..end]).is_err(), "cut at {end}");
        }
    }
}
