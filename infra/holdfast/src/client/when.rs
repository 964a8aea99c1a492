//! Times as people type them.

use std::time::Duration;

use holdfast_core::time::Timestamp;

/// Reads a time in RFC 3339, or how long ago it was: `90s`, `30m`, `2h`, `3d`.
pub(super) fn parse(input: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Some(time) = Timestamp::parse(input) {
        return Ok(time);
    }
    let ago = input.split_at_checked(input.len().saturating_sub(1)).and_then(|(number, unit)| {
        let secs = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        Some(Duration::from_secs(number.parse::<u32>().ok()?.into()) * secs)
    });
    ago.map(|ago| now - ago).ok_or_else(|| {
        "write a time such as 2026-01-31T09:30:00Z, or how long ago, such as 30m, 2h or 3d".to_owned()
    })
}

/// For a flag.
pub(super) fn parse_argument(input: &str) -> Result<Timestamp, String> {
    parse(input, holdfast_host::machine_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_relative() {
        let now = Timestamp::parse("2026-01-31T12:00:00Z").unwrap();
        for (input, expected) in [
            ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
            ("90s", "2026-01-31T11:58:30Z"),
            ("30m", "2026-01-31T11:30:00Z"),
            ("2h", "2026-01-31T10:00:00Z"),
            ("3d", "2026-01-28T12:00:00Z"),
        ] {
            assert_eq!(parse(input, now), Ok(Timestamp::parse(expected).unwrap()), "{input}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_examples() {
        let now = Timestamp::parse("2026-01-31T12:00:00Z").unwrap();
        for input in ["", "d", "2 h", "-2h", "2w", "yesterday", "99999999999d", "ü"] {
            assert!(parse(input, now).unwrap_err().contains("30m"), "{input}");
        }
    }
}
