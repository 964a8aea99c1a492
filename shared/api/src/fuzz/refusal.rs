//! What every refusal of a request has in common.

use axum::http::StatusCode;

use crate::Problem;

const MAX_FIELD_BYTES: usize = 300;
const MAX_DETAIL_BYTES: usize = 1_500;

/// A refusal is the client's fault, is short whatever was sent, and names the field that is wrong: one of these, or one that is unknown,
/// repeated or empty.
pub(super) fn check(problem: &Problem, known: &[&str]) {
    assert_eq!(problem.status, StatusCode::BAD_REQUEST, "{problem:?}");
    assert!((1..=MAX_DETAIL_BYTES).contains(&problem.detail.len()), "{} bytes", problem.detail.len());
    for error in &problem.errors {
        assert!(error.field.len() <= MAX_FIELD_BYTES, "{} bytes: {error:?}", error.field.len());
        assert!((1..=MAX_DETAIL_BYTES).contains(&error.detail.len()), "{} bytes", error.detail.len());
        let of_any_name = ["unknown ", "is given more than once", "is empty"];
        let is_unknown = of_any_name.iter().any(|start| error.detail.starts_with(start));
        assert!(is_unknown || known.contains(&without_indexes(&error.field).as_str()), "{error:?}");
    }
    let names_a_field = problem.detail.starts_with('`');
    assert_eq!(names_a_field, !problem.errors.is_empty(), "{problem:?}");
}

/// `filters[3].op` is `filters[].op`.
fn without_indexes(field: &str) -> String {
    let mut inside = false;
    let kept = field.chars().filter(|c| {
        inside = (inside || *c == '[') && *c != ']';
        !inside || *c == '['
    });
    kept.collect()
}
