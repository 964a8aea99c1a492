//! The distributed trace that an event belongs to, as the headers `traceparent` and `tracestate` carry it
//! (<https://www.w3.org/TR/trace-context/>). Every attempt goes on with it under a span id of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A longer `tracestate` is dropped: the specification asks for no more to be passed on.
pub const MAX_STATE_CHARS: usize = 512;

/// `vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff`
const PARENT_LEN: usize = 55;
/// Of the flags, `sampled` and `random-trace-id` have a meaning. The others must be zero in what is sent.
const KNOWN_FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

/// One span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceParent {
    /// `None`: it is not valid, and the request is handled as one without it.
    #[must_use]
    pub fn parse(text: &str) -> Option<TraceParent> {
        let bytes = text.as_bytes();
        let (head, rest) = bytes.split_at_checked(PARENT_LEN)?;
        let is_separated = [2, 35, 52].iter().all(|at| head[*at] == b'-');
        let version = hex(&head[..2])?;
        // A later version may have more fields, after another separator. Its first four mean the same.
        let is_complete = if version == 0 { rest.is_empty() } else { matches!(rest, [] | [b'-', ..]) };
        if !is_separated || !is_complete || version == 0xff {
            return None;
        }
        let trace_id = hex(&head[3..35]).filter(|id| *id != 0)?;
        let span_id = hex(&head[36..52]).filter(|id| *id != 0)?;
        let flags = hex(&head[53..])?;
        // Each fits: the number of its digits is fixed.
        Some(TraceParent { trace_id, span_id: span_id as u64, flags: flags as u8 & KNOWN_FLAGS })
    }

    /// A new span of the same trace, with the same flags. The span id is `random`, except that it is never zero, which would be invalid.
    #[must_use]
    pub fn child(&self, random: [u8; 8]) -> TraceParent {
        TraceParent { span_id: u64::from_be_bytes(random).max(1), ..*self }
    }

    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    #[must_use]
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the caller records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The id of the trace as logs and tools write it.
    #[must_use]
    pub fn trace_id_text(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    #[must_use]
    pub fn span_id_text(&self) -> String {
        format!("{:016x}", self.span_id)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> String {
        parent.to_string()
    }
}

impl TryFrom<String> for TraceParent {
    type Error = &'static str;

    fn try_from(text: String) -> Result<TraceParent, &'static str> {
        TraceParent::parse(&text).ok_or("not a traceparent")
    }
}

/// What the two headers of a request say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    pub parent: TraceParent,
    /// `tracestate`, passed on as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl TraceContext {
    /// From the values of the two headers, in their order. `None`: there is no `traceparent`, or more than one, or it is invalid.
    #[must_use]
    pub fn parse<'a>(
        mut parents: impl Iterator<Item = &'a str>,
        states: impl Iterator<Item = &'a str>,
    ) -> Option<TraceContext> {
        let parent = TraceParent::parse(parents.next()?)?;
        if parents.next().is_some() {
            return None;
        }
        Some(TraceContext { parent, state: join_states(states) })
    }

    /// The same context, as a new span of the trace passes it on.
    #[must_use]
    pub fn child(&self, random: [u8; 8]) -> TraceContext {
        TraceContext { parent: self.parent.child(random), state: self.state.clone() }
    }
}

/// Several `tracestate` headers mean the same as one with all their entries. `None`: there is none, or it cannot be passed on.
fn join_states<'a>(states: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut joined = String::new();
    for state in states {
        if joined.len() + state.len() >= MAX_STATE_CHARS + usize::from(joined.is_empty()) {
            return None;
        }
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(state);
    }
    let is_printable = joined.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_printable && !joined.trim().is_empty()).then_some(joined)
}

/// Lower-case digits only, as the specification says.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((value << 4) | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn headers_are_read_as_the_specification_says() {
        let passed_on = [
            (VALID, VALID),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            ),
            // Flags without a meaning are zero in what is sent.
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
            ),
            // What is known of a later version is sent as version 00.
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", VALID),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like", VALID),
            ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", VALID),
        ];
        for (given, expected) in passed_on {
            assert_eq!(TraceParent::parse(given).map(|parent| parent.to_string()).as_deref(), Some(expected));
        }
        let ignored = [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what-the-future",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ];
        for given in ignored {
            assert_eq!(TraceParent::parse(given), None, "{given}");
        }
    }

    fn state_of(states: &[&str]) -> Option<String> {
        TraceContext::parse(iter::once(VALID), states.iter().copied()).expect("the parent is valid").state
    }

    #[test]
    fn the_state_is_bounded_and_never_costs_the_parent() {
        let longest = "k=".to_owned() + &"v".repeat(MAX_STATE_CHARS - 2);
        assert_eq!(state_of(&[]), None);
        assert_eq!(state_of(&["", "  "]), None);
        assert_eq!(state_of(&["a=1, b = 2"]).as_deref(), Some("a=1, b = 2"));
        assert_eq!(state_of(&["a=1", "b=2"]).as_deref(), Some("a=1,b=2"));
        assert_eq!(state_of(&[&longest]), Some(longest.clone()));
        assert_eq!(state_of(&[&format!("{longest}v")]), None);
        let (half, rest) = ("h".repeat(256), "r".repeat(255));
        assert_eq!(state_of(&[&half, &rest]).map(|state| state.len()), Some(MAX_STATE_CHARS));
        assert_eq!(state_of(&[&half, &half]), None, "the comma counts too");
        assert_eq!(state_of(&["a=\u{e9}"]), None);
        assert_eq!(state_of(&["a=1\nb=2"]), None);
    }

    #[test]
    fn two_parents_or_none_are_no_context() {
        assert_eq!(TraceContext::parse([VALID, VALID].into_iter(), iter::empty()), None);
        assert_eq!(TraceContext::parse(iter::empty(), iter::once("a=1")), None);
        assert_eq!(TraceContext::parse(iter::once("nonsense"), iter::once("a=1")), None);
    }

    #[test]
    fn a_span_id_is_never_zero() {
        let parent = TraceParent::parse(VALID).unwrap();
        assert_eq!(
            parent.child([0; 8]).to_string(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01"
        );
        assert!(parent.is_sampled() && parent.trace_id_text() == "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    proptest! {
        #[test]
        fn a_child_stays_in_its_trace_and_is_read_as_it_was_written(
            trace_id in 1..=u128::MAX, span_id in 1..=u64::MAX, flags in 0..=KNOWN_FLAGS, random: [u8; 8],
        ) {
            let parent = TraceParent { trace_id, span_id, flags };
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
            let child = parent.child(random);
            prop_assert_eq!((child.trace_id, child.flags), (trace_id, flags));
            prop_assert_eq!(TraceParent::parse(&child.to_string()), Some(child));
            let context = TraceContext { parent: child, state: Some("a=1".to_owned()) };
            let stored = serde_json::to_vec(&context).unwrap();
            prop_assert_eq!(serde_json::from_slice::<TraceContext>(&stored).unwrap(), context);
        }

        #[test]
        fn what_is_read_from_any_text_can_be_sent(parent in "[0-9a-f-]{50,60}|.{0,80}", state in ".{0,600}") {
            let context = TraceContext::parse(iter::once(parent.as_str()), iter::once(state.as_str()));
            if let Some(TraceContext { parent, state }) = context {
                prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
                let fits = |state: &String| state.len() <= MAX_STATE_CHARS && state.is_ascii();
                prop_assert!(state.as_ref().is_none_or(fits));
            }
        }
    }
}
