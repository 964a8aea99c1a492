//! Inputs that are nearly valid, for tests of everything that parses what comes from outside.

/// One change of an input: which one, where, how far, and with what. Any four numbers are an edit, so that a test can generate them.
pub type Edit = (u8, u16, u16, u8);

/// What parsers stumble over: odd numbers, halves of things, other scripts, characters that separate or end something.
const TOKENS: &[&[u8]] = &[
    b"null",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"9223372036854775807",
    b"0.1",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"\"",
    b"\\",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"#",
    b"%",
    b"%2F",
    b"%00",
    b"?",
    b"&",
    b"=",
    b"+",
    b"/",
    b"//",
    b"..",
    b".",
    b"*",
    b"@",
    b"-",
    b"_",
    b"~",
    b"\xff",
    b"\xed\xa0\x80",
    "é".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{ffff}".as_bytes(),
    "🎉".as_bytes(),
    "。".as_bytes(),
    b"holdfast.",
    b"data.",
    b"localhost",
    b"127.1",
    b"::ffff:7f00:1",
    b"169.254.169.254",
    b"2026-01-31T12:00:00Z",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// One of the seeds with these edits. Without seeds, the edits make up the whole input.
#[must_use]
pub fn mutate(seeds: &[&[u8]], pick: usize, edits: &[Edit]) -> Vec<u8> {
    let seed = |n: usize| if seeds.is_empty() { b"" } else { seeds[n % seeds.len()] };
    let mut input = seed(pick).to_vec();
    for &(kind, at, length, with) in edits {
        let at = usize::from(at) % (input.len() + 1);
        let end = (at + usize::from(length) % 32).min(input.len());
        match kind % 7 {
            0 => input[at..end].fill(with),
            1 => drop(input.drain(at..end)),
            2 => input.insert(at, with),
            3 => drop(input.splice(at..end, TOKENS[usize::from(with) % TOKENS.len()].iter().copied())),
            4 => drop(input.splice(at..at, TOKENS[usize::from(with) % TOKENS.len()].iter().copied())),
            5 => {
                let piece = input[at..end].repeat(usize::from(with) % 8);
                input.splice(at..at, piece);
            }
            _ => {
                let other = seed(usize::from(with));
                let from = usize::from(length) % (other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
        }
    }
    input
}

/// Property tests of what reads input from outside, as functions of the module where this stands: `name => target` checks the module
/// `target`, which has `seeds` and `check`, with so many inputs that are nearly valid, and now and then with any bytes at all.
///
/// The crate that uses it has `proptest` among its dependencies.
#[macro_export]
macro_rules! test_hostile_input {
    ($cases:literal, $($(#[$attribute:meta])* $name:ident => $target:ident),+ $(,)?) => {
        fn hostile(seeds: Vec<&'static [u8]>) -> impl ::proptest::strategy::Strategy<Value = Vec<u8>> {
            use ::proptest::prelude::*;

            let mutated = (any::<usize>(), prop::collection::vec(any::<$crate::mutate::Edit>(), 0..8));
            prop_oneof![
                9 => mutated.prop_map(move |(pick, edits)| $crate::mutate::mutate(&seeds, pick, &edits)),
                1 => prop::collection::vec(any::<u8>(), 0..200),
            ]
        }

        ::proptest::proptest! {
            #![proptest_config(::proptest::prelude::ProptestConfig {
                cases: $cases,
                failure_persistence: None,
                ..Default::default()
            })]

            $(
                $(#[$attribute])*
                #[test]
                fn $name(input in hostile($target::seeds())) {
                    $target::check(&input);
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_a_seed_wherever_they_point() {
        let seeds: [&[u8]; 2] = [b"0123456789", b"abc"];
        for (edit, expected) in [
            ((0, 1, 2, b'x'), &b"0xx3456789"[..]),
            ((1, 8, 31, 0), b"01234567"),
            ((2, 10, 0, b'x'), b"0123456789x"),
            ((3, 0, 9, 0), b"null9"),
            ((4, 2, 0, 0), b"01null23456789"),
            ((5, 3, 2, 2), b"01234343456789"),
            ((6, 4, 1, 1), b"0123bc"),
            ((7, 12, 2, b'x'), b"0xx3456789"),
        ] {
            assert_eq!(mutate(&seeds, 2, &[edit]), expected, "{edit:?}");
        }
        assert_eq!(mutate(&seeds, 1, &[]), b"abc");
        assert_eq!(mutate(&[], 5, &[(6, 9, 9, 9), (4, 3, 3, 9), (2, 0, 0, b'x')]), b"x{}");
    }
}
