//! Which connections are accepted: so many in total, and so many of one peer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: usize,
    pub(crate) per_peer: usize,
}

/// The open connections of the API, counted by peer.
pub(crate) struct Connections {
    bounds: Bounds,
    open: Mutex<Open>,
    refused: AtomicU64,
    /// A connection ended, and its file is free.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// The place of one connection, free again when it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    peer: IpAddr,
}

impl Connections {
    pub(crate) fn new(bounds: Bounds) -> Connections {
        Connections { bounds, open: Mutex::default(), refused: AtomicU64::new(0), ended: Notify::new() }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(crate) fn open(&self) -> usize {
        self.lock().total
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// `None`: there are too many, of all peers or of this one.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = peer_of(address);
        let mut open = self.lock();
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or(0);
        if open.total >= self.bounds.connections || of_peer >= self.bounds.per_peer {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        open.total += 1;
        open.by_peer.insert(peer, of_peer + 1);
        Some(Place { connections: Arc::clone(self), peer })
    }

    pub(super) async fn one_ended(&self) {
        self.ended.notified().await;
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.total -= 1;
        if let Entry::Occupied(mut count) = open.by_peer.entry(self.peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        drop(open);
        self.connections.ended.notify_waiters();
    }
}

/// Providers give each customer a whole /64 network of IPv6, so its addresses count as one peer.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_address_or_a_network_of_ipv6() {
        let same = [
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ];
        for (one, other, expected) in same {
            let [a, b] = [one, other].map(|text| peer_of(text.parse().unwrap()));
            assert_eq!(a == b, expected, "{one} {other}");
        }
    }

    #[test]
    fn both_bounds_hold_and_places_become_free() {
        let connections = Arc::new(Connections::new(Bounds { connections: 3, per_peer: 2 }));
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|text| text.parse().unwrap());
        let (first, _second) = (connections.admit(a).unwrap(), connections.admit(a).unwrap());
        assert!(connections.admit(a).is_none(), "two of one peer");
        let _third = connections.admit(b).unwrap();
        assert!(connections.admit(c).is_none(), "three in total");
        drop(first);
        assert!(connections.admit(c).is_some());
        assert!(connections.admit(a).is_some());
        assert_eq!((connections.open(), connections.refused()), (2, 2));
    }
}
