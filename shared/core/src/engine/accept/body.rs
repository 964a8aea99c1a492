use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::NewEvent;
use crate::ids::fingerprint;
use crate::time::Timestamp;

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    r#type: &'a str,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    data: &'a RawValue,
}

/// The body of every attempt. Made once, at acceptance, and the same bytes each time.
pub(crate) fn encode_body(event: &NewEvent, id: &str, accepted_at: Timestamp) -> Bytes {
    let body = Body {
        id,
        r#type: &event.event_type,
        timestamp: accepted_at.to_string(),
        subject: event.subject.as_deref(),
        data: &event.data,
    };
    serde_json::to_vec(&body).expect("validated JSON can be written").into()
}

/// Tells a repeated post from another event under the same id.
pub(super) fn fingerprint_of(event: &NewEvent) -> String {
    let parts = (&event.event_type, &event.subject, &event.data);
    fingerprint(&serde_json::to_vec(&parts).expect("validated JSON can be written"))
}
