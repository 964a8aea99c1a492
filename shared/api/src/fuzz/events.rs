use holdfast_core::engine::NewEvent;
use holdfast_core::rules::event_type;
use serde_json::json;
use serde_json::value::RawValue;

use super::refusal;
use crate::events::{is_id, parse_events};

const KNOWN: &[&str] = &["id", "type", "subject", "data", "[]", "[].id", "[].type", "[].subject", "[].data"];

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        br#"{"id":"order-1","type":"order.created","subject":"a","data":{"total":1234567890123456789012345678901234567890}}"#,
        br#"[{"type":"a","data":null},{"type":"a.b-c_1","data":"\ud800","subject":null}]"#,
        br#"{"type":"a","data":{"x":1,"x":2}, "id" : null }"#,
        br#"{"type":"holdfast.x","data":1,"data":2,"unknown":[[[]]]}"#,
        b"[]",
    ]
}

/// Events are taken exactly as they were posted, or refused with the field that is wrong.
pub fn check(input: &[u8]) {
    let (events, is_list) = match parse_events(input) {
        Ok(parsed) => parsed,
        Err(problem) => return refusal::check(&problem, KNOWN),
    };
    assert!((1..=100).contains(&events.len()));
    assert!(is_list || events.len() == 1);
    for event in &events {
        assert!(event.id.as_deref().is_none_or(is_id));
        assert!(event_type::is_name(&event.event_type), "{}", event.event_type);
        assert!(!event.event_type.starts_with(event_type::RESERVED), "{}", event.event_type);
        assert!(event.subject.as_ref().is_none_or(|subject| subject.chars().count() <= 1_024));
        let data = event.data.get().as_bytes();
        assert!(input.windows(data.len()).any(|part| part == data), "the data is not byte for byte");
    }
    let printed = print(&events, is_list);
    let (again, still_list) = parse_events(&printed).expect("what was read can be posted");
    assert_eq!(still_list, is_list);
    assert_eq!(print(&again, is_list), printed);
}

fn print(events: &[NewEvent], is_list: bool) -> Vec<u8> {
    let one = |event: &NewEvent| {
        let (id, kind, subject) = (json!(event.id), json!(event.event_type), json!(event.subject));
        let data: &RawValue = &event.data;
        format!(r#"{{"id":{id},"type":{kind},"subject":{subject},"data":{data}}}"#)
    };
    let printed = events.iter().map(one).collect::<Vec<_>>().join(",");
    if is_list { format!("[{printed}]").into_bytes() } else { printed.into_bytes() }
}
