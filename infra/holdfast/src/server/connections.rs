//! Which connections are accepted: so many in total, and so many of one peer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::activity::Activity;
use super::displace::{self, Candidate};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: usize,
    pub(crate) per_peer: usize,
}

/// So many connections that made room may still be open. Usually they end within microseconds; a request that arrived on one at the last
/// moment is still answered.
const MAX_CLOSING: usize = 32;

/// The open connections of the API.
pub(crate) struct Connections {
    bounds: Bounds,
    open: Mutex<Open>,
    /// See [`Activity`].
    steps: Arc<AtomicU64>,
    refused: AtomicU64,
    displaced: AtomicU64,
    /// A connection ended, and its file is free.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    by_id: HashMap<u64, (IpAddr, Arc<Activity>)>,
    by_peer: HashMap<IpAddr, usize>,
    next_id: u64,
    /// Those that made room and have not ended.
    closing: usize,
}

impl Open {
    fn insert(&mut self, peer: IpAddr, activity: Arc<Activity>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.by_id.insert(id, (peer, activity));
        *self.by_peer.entry(peer).or_insert(0) += 1;
        id
    }

    /// `None`: it made room before.
    fn remove(&mut self, id: u64) -> Option<Arc<Activity>> {
        let (peer, activity) = self.by_id.remove(&id)?;
        if let Entry::Occupied(mut count) = self.by_peer.entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(activity)
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(id, (peer, activity)): (&u64, &(IpAddr, Arc<Activity>))| Candidate {
            id: *id,
            peer: *peer,
            holder: activity.holder(),
            idle_since: activity.idle_since(),
            body_since: activity.body_since(),
        };
        self.by_id.iter().map(candidate).collect()
    }
}

/// The place of one connection, free again when it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Connections {
    pub(crate) fn new(bounds: Bounds) -> Connections {
        Connections {
            bounds,
            open: Mutex::default(),
            steps: Arc::new(AtomicU64::new(1)),
            refused: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
            ended: Notify::new(),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(crate) fn open(&self) -> usize {
        self.lock().by_id.len()
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    /// `None`: there are too many of this peer, or of all peers and none makes room.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = peer_of(address);
        let mut open = self.lock();
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or(0);
        let is_full = open.by_id.len() >= self.bounds.connections;
        if of_peer >= self.bounds.per_peer || (is_full && !self.make_room(&mut open, peer)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let activity = Arc::new(Activity::new(&self.steps));
        let id = open.insert(peer, Arc::clone(&activity));
        Some(Place { connections: Arc::clone(self), id, activity })
    }

    fn make_room(&self, open: &mut Open, newcomer: IpAddr) -> bool {
        if open.closing >= MAX_CLOSING {
            return false;
        }
        let closed = displace::choose(&open.candidates(), newcomer).and_then(|id| open.remove(id));
        if let Some(activity) = &closed {
            open.closing += 1;
            self.displaced.fetch_add(1, Ordering::Relaxed);
            activity.displace();
        }
        closed.is_some()
    }

    /// How many wait for the bodies of their requests.
    #[cfg(test)]
    pub(super) fn receiving(&self) -> usize {
        self.lock().by_id.values().filter(|(_, activity)| activity.body_since().is_some()).count()
    }

    /// As if each made room, whatever it is doing.
    #[cfg(test)]
    pub(super) fn displace_all(&self) {
        let mut open = self.lock();
        let ids: Vec<u64> = open.by_id.keys().copied().collect();
        for activity in ids.into_iter().filter_map(|id| open.remove(id)).collect::<Vec<_>>() {
            open.closing += 1;
            activity.displace();
        }
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
        if open.remove(self.id).is_none() {
            open.closing -= 1;
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
        let admit_busy = |peer| {
            let place = connections.admit(peer)?;
            place.activity.head_complete();
            Some(place)
        };
        let (first, _second) = (admit_busy(a).unwrap(), admit_busy(a).unwrap());
        assert!(admit_busy(a).is_none(), "two of one peer");
        let _third = admit_busy(b).unwrap();
        assert!(admit_busy(c).is_none(), "three in total");
        drop(first);
        assert!(admit_busy(c).is_some());
        assert!(admit_busy(a).is_some());
        assert_eq!((connections.open(), connections.refused(), connections.displaced()), (2, 2, 0));
    }

    #[test]
    fn an_idle_connection_makes_room_and_is_counted_until_it_ends() {
        let connections = Arc::new(Connections::new(Bounds { connections: 40, per_peer: 40 }));
        let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut idle: Vec<Place> = (0..40).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let mut new: Vec<Place> =
            (0..MAX_CLOSING as u8).map(|n| connections.admit(peer(100 + n)).unwrap()).collect();
        assert_eq!((connections.open(), connections.displaced()), (40, MAX_CLOSING as u64));
        assert!(
            idle[..MAX_CLOSING].iter().all(|place| place.activity.is_displaced()),
            "the first were idle longest"
        );
        assert!(connections.admit(peer(2)).is_none(), "too many have not ended");
        drop(idle.remove(0));
        assert_eq!(connections.open(), 40, "its place was free before");
        new.push(connections.admit(peer(2)).unwrap());
        drop((idle, new));
        let open = connections.lock();
        assert_eq!((open.by_id.len(), open.by_peer.len(), open.closing), (0, 0, 0));
    }
}
