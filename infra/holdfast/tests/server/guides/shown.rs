//! Compares an answer with the excerpt that a page shows.

use serde_json::Value;

/// A page may show only some fields. `…` in a string matches any text, and `"…"` at the end of a list matches any further items.
pub(super) fn agrees(shown: &Value, actual: &Value) -> bool {
    match (shown, actual) {
        (Value::Object(shown), Value::Object(actual)) => {
            shown.iter().all(|(name, value)| actual.get(name).is_some_and(|actual| agrees(value, actual)))
        }
        (Value::Array(shown), Value::Array(actual)) => {
            let (shown, more) = match shown.split_last() {
                Some((last, before)) if last == "…" => (before, true),
                _ => (shown.as_slice(), false),
            };
            (more && actual.len() >= shown.len() || actual.len() == shown.len())
                && shown.iter().zip(actual).all(|(shown, actual)| agrees(shown, actual))
        }
        (Value::String(shown), Value::String(actual)) => text_agrees(shown, actual),
        _ => shown == actual,
    }
}

fn text_agrees(shown: &str, actual: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == actual };
    let Some(mut left) = actual.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[test]
fn an_excerpt_of_an_answer_agrees_with_it() {
    let actual =
        serde_json::json!({ "items": [{ "id": "dlv_12", "n": 1 }, { "id": "dlv_34" }], "next": null });
    let cases = [
        (r#"{"next": null}"#, true),
        (r#"{"next": "…"}"#, false),
        (r#"{"items": [{"id": "dlv_…"}, "…"]}"#, true),
        (r#"{"items": [{"id": "dlv_…"}]}"#, false),
        (r#"{"items": [{"id": "dlv_…"}, {"id": "d…3…"}]}"#, true),
        (r#"{"items": [{"id": "dlv_1"}, "…"]}"#, false),
        (r#"{"items": [{"id": "url_…"}, "…"]}"#, false),
        (r#"{"items": [{"n": 2}, "…"]}"#, false),
        (r#"{"more": "…"}"#, false),
    ];
    for (shown, expected) in cases {
        assert_eq!(agrees(&serde_json::from_str(shown).unwrap(), &actual), expected, "{shown}");
    }
}
