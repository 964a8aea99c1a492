//! Which connection makes room for a new one when there are as many as there may be.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU64;

/// What matters of an open connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    /// Whose key was used on it. `None`: it is a stranger's, because no request on it had a valid key.
    pub(super) holder: Option<NonZeroU64>,
    /// When it became idle; smaller is longer ago. `None`: a request is in progress.
    pub(super) idle_since: Option<u64>,
}

/// Returns the connection to close, so that a new one of the peer `newcomer` has a place. `None`: it gets none.
///
/// As long as strangers have idle connections, one of these is closed: of the peer that has most strangers' connections, and more than
/// the newcomer has, the one that has been idle longest. Otherwise one holder of keys loses the one that it has not used for longest,
/// if it has more than half of all.
pub(super) fn choose(open: &[Candidate], newcomer: IpAddr) -> Option<u64> {
    let strangers = || open.iter().filter(|connection| connection.holder.is_none());
    let longest_idle = |connection: &&Candidate| connection.idle_since.map(Reverse);
    let by_peer = count(strangers().map(|connection| connection.peer));
    let count_of = |peer: IpAddr| by_peer.get(&peer).copied().unwrap_or(0);
    let mut idle = strangers().filter(|connection| connection.idle_since.is_some()).peekable();
    let closed = if idle.peek().is_some() {
        idle.filter(|connection| count_of(connection.peer) > count_of(newcomer))
            .max_by_key(|connection| (count_of(connection.peer), longest_idle(connection)))
    } else {
        let by_holder = count(open.iter().filter_map(|connection| connection.holder));
        let most =
            by_holder.into_iter().find(|(_, count)| count * 2 > open.len()).map(|(holder, _)| holder)?;
        let of_holder = open.iter().filter(|connection| connection.holder == Some(most));
        of_holder.filter(|connection| connection.idle_since.is_some()).max_by_key(longest_idle)
    };
    closed.map(|connection| connection.id)
}

fn count<T: Eq + Hash>(items: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Peer, holder (0: none) and since when it is idle (0: it is not) of each; its id is its place in the list.
    fn choose_of(open: &[(u8, u64, u64)], newcomer: u8) -> Option<u64> {
        let of = |(id, (address, holder, since)): (usize, &(u8, u64, u64))| Candidate {
            id: id as u64,
            peer: peer(*address),
            holder: NonZeroU64::new(*holder),
            idle_since: Some(*since).filter(|since| *since > 0),
        };
        let open: Vec<_> = open.iter().enumerate().map(of).collect();
        choose(&open, peer(newcomer))
    }

    #[test]
    fn the_longest_idle_connection_of_the_peer_with_most_strangers_makes_room() {
        for (what, open, newcomer, expected) in [
            ("none is open", &[][..], 9, None),
            ("the longest idle one of the peer with most", &[(1, 0, 1), (2, 0, 5), (2, 0, 3)], 9, Some(2)),
            ("each has one", &[(1, 0, 7), (2, 0, 6), (3, 0, 8)], 9, Some(1)),
            ("busy ones count and stay", &[(1, 0, 0), (1, 0, 0), (1, 0, 9), (2, 0, 1)], 9, Some(2)),
            ("the next peer, if all of the first are busy", &[(1, 0, 0), (1, 0, 0), (2, 0, 4)], 9, Some(2)),
            ("all are busy", &[(1, 0, 0), (1, 0, 0)], 9, None),
            ("the newcomer has as many", &[(1, 0, 1), (2, 0, 2)], 1, None),
            ("the newcomer has most", &[(1, 0, 1), (1, 0, 2), (2, 0, 3)], 1, None),
            ("the newcomer has fewer", &[(1, 0, 1), (2, 0, 3), (2, 0, 2)], 1, Some(2)),
            ("those with a key do not count", &[(1, 7, 1), (1, 7, 2), (1, 0, 4), (2, 0, 3)], 9, Some(3)),
            ("nor those of the newcomer", &[(1, 7, 1), (1, 7, 2), (2, 0, 3)], 1, Some(2)),
        ] {
            assert_eq!(choose_of(open, newcomer), expected, "{what}");
        }
    }

    #[test]
    fn a_holder_with_more_than_half_makes_room_when_no_stranger_can() {
        for (what, open, newcomer, expected) in [
            ("its longest idle one", &[(1, 7, 5), (2, 7, 4), (3, 8, 1)][..], 9, Some(1)),
            ("from its own address too", &[(1, 7, 5), (1, 7, 4), (3, 8, 1)], 1, Some(1)),
            ("half is not more than half", &[(1, 7, 1), (1, 7, 2), (2, 8, 3), (3, 9, 4)], 9, None),
            ("not while a stranger is idle", &[(1, 7, 1), (1, 7, 2), (1, 7, 3), (9, 0, 4)], 9, None),
            ("busy strangers do not protect it", &[(1, 7, 3), (1, 7, 2), (1, 7, 1), (9, 0, 0)], 9, Some(2)),
            ("all of it are busy", &[(1, 7, 0), (1, 7, 0), (2, 8, 1)], 9, None),
        ] {
            assert_eq!(choose_of(open, newcomer), expected, "{what}");
        }
    }
}
