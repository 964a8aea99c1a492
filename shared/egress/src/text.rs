//! Text of receivers, made safe to show.

/// At most `max_bytes` bytes. Control characters are replaced, because a terminal may interpret them. Characters that change the
/// direction of text or take no room are escaped, because with them a text reads differently from what it is.
pub(crate) fn to_visible(text: &str, max_bytes: usize) -> String {
    let mut visible = String::new();
    for c in text.chars() {
        let length = visible.len();
        if is_invisible(c) {
            visible.extend(c.escape_unicode());
        } else if c.is_control() && !matches!(c, '\n' | '\t') {
            visible.push(char::REPLACEMENT_CHARACTER);
        } else {
            visible.push(c);
        }
        if visible.len() > max_bytes {
            visible.truncate(length);
            break;
        }
    }
    visible
}

/// Bidirectional controls, and characters without a width or a form of their own (of Unicode's "default ignorable" ones, and the
/// separators and annotations that are drawn as nothing).
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_control_characters_but_line_ends_and_tabs() {
        assert_eq!(to_visible("a\tb\nc\r\x1b[31m\x7f", 99), "a\tb\nc\u{fffd}\u{fffd}[31m\u{fffd}");
        assert_eq!(to_visible("\u{85}ä", 99), "\u{fffd}ä");
    }

    #[test]
    fn bidirectional_and_zero_width_characters_are_escaped() {
        for (name, text, visible) in [
            ("right-to-left override", "paid \u{202e}on", r"paid \u{202e}on"),
            ("left-to-right embedding", "\u{202a}", r"\u{202a}"),
            ("isolates", "\u{2066}a\u{2069}", r"\u{2066}a\u{2069}"),
            ("direction marks", "\u{200e}\u{200f}\u{61c}", r"\u{200e}\u{200f}\u{61c}"),
            ("zero-width space and joiners", "o\u{200b}k\u{200c}\u{200d}", r"o\u{200b}k\u{200c}\u{200d}"),
            ("word joiner", "\u{2060}", r"\u{2060}"),
            ("byte order mark", "\u{feff}ok", r"\u{feff}ok"),
            ("soft hyphen", "o\u{ad}k", r"o\u{ad}k"),
            ("line and paragraph separators", "\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("fillers", "\u{3164}\u{ffa0}\u{115f}", r"\u{3164}\u{ffa0}\u{115f}"),
            ("tags", "\u{e0041}", r"\u{e0041}"),
            ("variation selectors", "\u{fe0f}\u{e0100}", r"\u{fe0f}\u{e0100}"),
            ("text from right to left", "שלום العربية", "שלום العربية"),
            ("other scripts and symbols", "né 日本 🎉 — “ok”", "né 日本 🎉 — “ok”"),
            ("the replacement character", "\u{fffd}", "\u{fffd}"),
        ] {
            assert_eq!(to_visible(text, 99), visible, "{name}");
        }
    }

    #[test]
    fn text_is_cut_between_characters_and_escapes() {
        assert_eq!(to_visible("€€€", 8), "€€");
        assert_eq!(to_visible("a\u{202e}b", 8), "a");
        assert_eq!(to_visible("a\u{202e}b", 9), r"a\u{202e}");
    }
}
