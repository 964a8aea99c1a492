//! Which connection makes room for a new one when there are as many as there may be.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    /// Since when the body of its request is arriving. `None`: it has no request, or one that is complete.
    pub(super) body_since: Option<u64>,
}

/// Of all open connections.
#[derive(Debug, Default)]
pub(super) struct Counts {
    all: usize,
    strangers_by_peer: HashMap<IpAddr, usize>,
    by_holder: HashMap<NonZeroU64, usize>,
}

impl Counts {
    pub(super) fn add(&mut self, peer: IpAddr, holder: Option<NonZeroU64>) {
        self.all += 1;
        match holder {
            None => *self.strangers_by_peer.entry(peer).or_insert(0) += 1,
            Some(holder) => *self.by_holder.entry(holder).or_insert(0) += 1,
        }
    }

    pub(super) fn remove(&mut self, peer: IpAddr, holder: Option<NonZeroU64>) {
        self.all -= 1;
        match holder {
            None => decrement(self.strangers_by_peer.entry(peer)),
            Some(holder) => decrement(self.by_holder.entry(holder)),
        }
    }

    /// What each holder would have if they and one more had the same number. One that has more makes room for others.
    fn share(&self) -> usize {
        (self.all / (self.by_holder.len() + 1)).max(1)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all == 0 && self.strangers_by_peer.is_empty() && self.by_holder.is_empty()
    }
}

pub(super) fn decrement<T>(count: Entry<'_, T, usize>) {
    if let Entry::Occupied(mut count) = count {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// Returns which of these connections to close, so that a new one has a place. `None`: none of them.
///
/// As long as strangers have idle connections, one of these is closed: of the peer that has most strangers' connections, the one that has
/// been idle longest. A peer with many gains nothing by opening more, and one with a new address for each is no better off. Otherwise the holder of keys that has most connections, and more than its share
/// of all, loses the one that it has not used for longest, or if it uses all, the one whose body has been arriving for longest. A holder
/// that is busy on all of its connections keeps them, and the next one loses one.
pub(super) fn choose(candidates: &[Candidate], counts: &Counts) -> Option<u64> {
    let strangers = candidates.iter().filter(|connection| connection.holder.is_none());
    let longest_idle = |connection: &&Candidate| connection.idle_since.map(Reverse);
    let count_of = |peer: IpAddr| counts.strangers_by_peer.get(&peer).copied().unwrap_or(0);
    let mut idle = strangers.filter(|connection| connection.idle_since.is_some()).peekable();
    let closed = if idle.peek().is_some() {
        idle.max_by_key(|connection| (count_of(connection.peer), longest_idle(connection)))
    } else {
        let rank = |connection: &Candidate| {
            let holder = connection.holder?;
            let count = counts.by_holder.get(&holder).filter(|count| **count > counts.share())?;
            let idle = connection.idle_since.map(Reverse);
            let body = connection.body_since.map(Reverse);
            // The holder decides between two that have as many.
            (idle.is_some() || body.is_some()).then_some((*count, holder, idle, body))
        };
        let ranked = candidates.iter().filter_map(|connection| Some((rank(connection)?, connection)));
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, connection)| connection)
    };
    closed.map(|connection| connection.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Peer, holder (0: none) and since when it is idle, or if negative since when its body is arriving (0: neither) of each; its id is its
    /// place in the list.
    fn choose_of(open: &[(u8, u64, i64)]) -> Option<u64> {
        let of = |(id, (address, holder, since)): (usize, &(u8, u64, i64))| Candidate {
            id: id as u64,
            peer: peer(*address),
            holder: NonZeroU64::new(*holder),
            idle_since: u64::try_from(*since).ok().filter(|since| *since > 0),
            body_since: u64::try_from(-*since).ok().filter(|since| *since > 0),
        };
        let open: Vec<_> = open.iter().enumerate().map(of).collect();
        let mut counts = Counts::default();
        open.iter().for_each(|connection| counts.add(connection.peer, connection.holder));
        choose(&open, &counts)
    }

    #[test]
    fn the_longest_idle_connection_of_the_peer_with_most_strangers_makes_room() {
        for (what, open, expected) in [
            ("none is open", &[][..], None),
            ("the longest idle one of the peer with most", &[(1, 0, 1), (2, 0, 5), (2, 0, 3)], Some(2)),
            ("each has one", &[(1, 0, 7), (2, 0, 6), (3, 0, 8)], Some(1)),
            ("busy ones count and stay", &[(1, 0, 0), (1, 0, 0), (1, 0, 9), (2, 0, 1)], Some(2)),
            ("the next peer, if all of the first are busy", &[(1, 0, 0), (1, 0, 0), (2, 0, 4)], Some(2)),
            ("all are busy", &[(1, 0, 0), (1, 0, 0)], None),
            ("of two that have as many", &[(1, 0, 2), (2, 0, 1)], Some(1)),
            ("those with a key do not count", &[(1, 7, 1), (1, 7, 2), (1, 0, 4), (2, 0, 3)], Some(3)),
        ] {
            assert_eq!(choose_of(open), expected, "{what}");
        }
    }

    /// Each of seven other holders has one connection, and is busy.
    const OTHERS: [(u8, u64, i64); 7] =
        [(3, 11, 0), (3, 12, 0), (3, 13, 0), (3, 14, 0), (3, 15, 0), (3, 16, 0), (3, 17, 0)];

    #[test]
    fn the_holder_with_most_makes_room_when_no_stranger_can() {
        for (what, first, expected) in [
            ("its longest idle one", &[(1, 7, 5), (2, 7, 4)][..], Some(1)),
            ("the only one it has", &[(1, 7, 1)], None),
            ("of the holder with most", &[(1, 7, 1), (1, 7, 2), (2, 8, 9), (2, 8, 5), (2, 8, 7)], Some(3)),
            ("not while a stranger is idle", &[(1, 7, 1), (1, 7, 2), (1, 7, 3), (9, 0, 4)], Some(3)),
            ("busy strangers do not protect it", &[(1, 7, 3), (1, 7, 2), (1, 7, 1), (9, 0, 0)], Some(2)),
            ("all of it are busy", &[(1, 7, 0), (1, 7, 0)], None),
            ("then the next", &[(1, 7, 0), (1, 7, 0), (1, 7, 0), (2, 8, 2), (2, 8, 1)], Some(4)),
            ("the body that arrives longest", &[(1, 7, 0), (1, 7, -5), (1, 7, -4)], Some(2)),
            ("an idle one before a body", &[(1, 7, -1), (1, 7, 6), (1, 7, -2)], Some(1)),
            (
                "bodies of the holder with most first",
                &[(1, 7, -4), (1, 7, -5), (1, 7, 0), (2, 8, 1), (2, 8, 2)],
                Some(0),
            ),
            ("the only one, whose body arrives", &[(1, 7, -1)], None),
        ] {
            let open: Vec<_> = first.iter().chain(&OTHERS).copied().collect();
            assert_eq!(choose_of(&open), expected, "{what}");
        }
    }

    #[test]
    fn however_many_holders_share_all_connections_one_makes_room() {
        for holders in [1, 2, 8, 9, 41] {
            let open: Vec<_> = (0..holders * 4).map(|n| (1, 1 + n % holders, 1 + n as i64)).collect();
            assert!(choose_of(&open).is_some(), "{holders} holders with 4 each");
        }
    }

    #[test]
    fn the_body_of_a_stranger_stays() {
        assert_eq!(choose_of(&[(1, 0, -1), (1, 0, -2)]), None);
    }
}
