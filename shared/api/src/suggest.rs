//! Texts that show the rejected value, and suggest a known name for an unknown one.

/// Longer values are cut, so that an answer does not repeat a whole request.
const MAX_QUOTED_CHARS: usize = 64;

/// At most so many characters of a value.
pub(crate) fn excerpt(value: &str) -> String {
    match value.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

pub(crate) fn quote(value: &str) -> String {
    format!("{:?}", excerpt(value))
}

/// `kind` is what the name is of: a field or a parameter.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    match closest(name, known) {
        Some(known) => format!("unknown {kind} {}; did you mean {known:?}?", quote(name)),
        None => format!("unknown {kind} {}; leave it out", quote(name)),
    }
}

/// The known name that this one is probably a misspelling of: up to a third of it differs.
fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let candidates = known.iter().filter_map(|known| {
        let max = (known.len().max(name.len()) / 3).max(1);
        // Comparing takes time in proportion to both lengths, so very long names are not compared.
        let comparable = known.len().abs_diff(name.len()) <= max && name.len() <= MAX_QUOTED_CHARS;
        let distance = comparable.then(|| edit_distance(name, known)).filter(|distance| *distance <= max)?;
        Some((distance, *known))
    });
    candidates.min().map(|(_, known)| known)
}

/// How many characters must be inserted, deleted or replaced (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_names_are_suggested() {
        let known = ["state", "since", "until", "limit", "cursor", "event_types", "filters", "id"];
        for (name, suggested) in [
            ("status", Some("state")),
            ("filter", Some("filters")),
            ("limt", Some("limit")),
            ("eventTypes", Some("event_types")),
            ("Cursor", Some("cursor")),
            ("ids", Some("id")),
            ("offset", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(name, &known), suggested, "{name}");
        }
        assert_eq!(closest(&"limit".repeat(100_000), &known), None);
    }

    #[test]
    fn distances_count_single_edits() {
        for (a, b, distance) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("état", "etat", 1)] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (distance, distance), "{a} {b}");
        }
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(quote("a\"b"), r#""a\"b""#);
        assert_eq!(excerpt(&"é".repeat(65)), format!("{}…", "é".repeat(64)));
    }
}
