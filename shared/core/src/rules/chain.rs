//! How long a chain of tickets may get: a ticket whose handling sends the next one, as the steps of a release do.
//!
//! Lambda would stop such a chain after about 16 links if it were not told that the chain is on purpose, so Holdfast has a bound of its own.
//! A ticket is only a hint: when the chain ends, the sweep finds the record and begins a new one.

/// A release or replay of this many steps takes over an hour.
pub const MAX_LINKS: u32 = 1_000;

/// The place in its chain of a ticket that is sent while the one at `links` is handled. `None`: the chain ends here.
#[must_use]
pub fn next_link(links: u32) -> Option<u32> {
    let next = links.saturating_add(1);
    (next <= MAX_LINKS).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_an_end() {
        assert_eq!(next_link(0), Some(1));
        assert_eq!(next_link(MAX_LINKS - 1), Some(MAX_LINKS));
        for at_the_end in [MAX_LINKS, MAX_LINKS + 1, u32::MAX] {
            assert_eq!(next_link(at_the_end), None);
        }
    }
}
