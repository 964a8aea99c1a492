//! Event types are dotted names; a subscription names them or uses `*` for one segment, or alone for all.

/// Events of this prefix are Holdfast's own: producers may not post them, and `*` alone does not mean them.
pub const RESERVED: &str = "holdfast.";
/// All of Holdfast's own events that can be subscribed.
pub const OWN: [&str; 6] = [
    "holdfast.url.disabled",
    "holdfast.url.frozen",
    "holdfast.url.enabled",
    "holdfast.url.failing",
    "holdfast.url.recovered",
    "holdfast.delivery.dead",
];
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

/// Whether an event of this name is Holdfast's own.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Whether a subscription that asks for this could never get an event: it asks for one of Holdfast's own that does not exist.
#[must_use]
pub fn is_unknown_own(pattern: &str) -> bool {
    is_reserved(pattern) && !OWN.iter().any(|name| matches(pattern, name))
}

#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    if pattern == "*" {
        return !is_reserved(name);
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
    fn only_own_events_that_exist_can_be_asked_for() {
        for (pattern, is_unknown) in [
            ("holdfast.url.failing", false),
            ("holdfast.url.*", false),
            ("holdfast.*.recovered", false),
            ("*.url.enabled", false),
            ("*", false),
            ("holdfast", false),
            ("holdfast.url", true),
            ("holdfast.*", true),
            ("holdfast.url.broken", true),
            ("holdfast.ping", true),
        ] {
            assert_eq!(is_unknown_own(pattern), is_unknown, "{pattern}");
        }
    }

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
