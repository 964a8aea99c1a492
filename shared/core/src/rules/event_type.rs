//! Event types are dotted names; a subscription names them or uses `*` for one segment, or alone for all.

/// Events of this prefix are Holdfast's own: producers may not post them, and `*` alone does not mean them.
pub const RESERVED: &str = "holdfast.";
/// A name is a way through a tree in memory, so its length is bounded.
pub const MAX_SEGMENTS: usize = 16;
pub const MAX_SEGMENT_LEN: usize = 64;

fn is_segment(s: &str) -> bool {
    (1..=MAX_SEGMENT_LEN).contains(&s.len())
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether this is a name that an event can have.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.split('.').all(is_segment) && text.split('.').count() <= MAX_SEGMENTS
}

/// Whether this is something that a subscription can ask for.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.split('.').all(|s| s == "*" || is_segment(s)) && text.split('.').count() <= MAX_SEGMENTS
}

#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    if pattern == "*" {
        return !name.starts_with(RESERVED);
    }
    let mut wanted = pattern.split('.');
    let mut given = name.split('.');
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(w), Some(g)) if w == "*" || w == g => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_segment_by_segment() {
        for (pattern, name, expected) in [
            ("order.created", "order.created", true),
            ("order.created", "order.created.late", false),
            ("order.*", "order.created", true),
            ("order.*", "order", false),
            ("order.*", "order.line.added", false),
            ("*.created", "order.created", true),
            ("*", "anything.at.all", true),
            ("*", "holdfast.url.disabled", false),
            ("holdfast.url.*", "holdfast.url.disabled", true),
            ("Order.created", "order.created", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_dotted_segments() {
        for good in ["a", "order.created", "A_b-1.x"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "a.", "a..b", "a b", "é", "a.*"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_pattern("a.*") && !is_pattern("a*"));
        let longest = ["x".repeat(MAX_SEGMENT_LEN).as_str(); MAX_SEGMENTS].join(".");
        assert!(is_name(&longest) && is_pattern(&longest));
        for longer in [format!("{longest}.x"), format!("{longest}x")] {
            assert!(!is_name(&longer) && !is_pattern(&longer), "{longer}");
        }
        assert!(!is_pattern(&["*"; MAX_SEGMENTS + 1].join(".")));
    }
}
