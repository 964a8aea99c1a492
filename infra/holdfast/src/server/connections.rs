//! Which connections are accepted: so many in total, and so many of one peer.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::Activity;
use super::displace::{self, Candidate, Counts};
use super::holders::Holders;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: usize,
    pub(crate) per_peer: usize,
}

/// As many connections as one part of the bound, of so many, may have made room and still be open. Usually they end within microseconds; a
/// request that arrived on one at the last moment is still answered.
pub(crate) const CLOSING_PARTS: usize = 16;
/// So many connections are looked at for each new one that needs room, those that were not looked at for longest.
const MAX_SAMPLED: usize = 128;
/// If none of these makes room, all are looked at, but not more often than this: it takes as long as accepting many connections.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);

impl Bounds {
    fn max_closing(self) -> usize {
        (self.connections / CLOSING_PARTS).max(1)
    }
}

/// The open connections of the API.
pub(crate) struct Connections {
    bounds: Bounds,
    open: Mutex<Open>,
    /// See [`Activity`].
    steps: Arc<AtomicU64>,
    holders: Arc<Holders>,
    refused: AtomicU64,
    displaced: AtomicU64,
    /// A connection ended, and its file is free.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    by_id: BTreeMap<u64, Connection>,
    by_peer: HashMap<IpAddr, BTreeSet<u64>>,
    counts: Counts,
    next_id: u64,
    /// The next sample begins with this id.
    sample_from: u64,
    /// When all were looked at.
    scanned_at: Option<Instant>,
    /// Those that made room and have not ended.
    closing: usize,
}

struct Connection {
    peer: IpAddr,
    activity: Arc<Activity>,
    /// As it is counted. A key that was used since then is seen when the connection is looked at.
    holder: Option<NonZeroU64>,
}

impl Connection {
    /// What it is doing now. It is counted as whose it has become.
    fn look(&mut self, id: u64, counts: &mut Counts) -> Candidate {
        let Connection { peer, activity, holder } = self;
        if *holder != activity.holder() {
            counts.remove(*peer, *holder);
            *holder = activity.holder();
            counts.add(*peer, *holder);
        }
        let (idle_since, body_since) = (activity.idle_since(), activity.body_since());
        Candidate { id, peer: *peer, holder: *holder, idle_since, body_since }
    }
}

impl Open {
    fn insert(&mut self, peer: IpAddr, activity: Arc<Activity>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.by_id.insert(id, Connection { peer, activity, holder: None });
        self.counts.add(peer, None);
        self.by_peer.entry(peer).or_default().insert(id);
        id
    }

    /// `None`: it made room before.
    fn remove(&mut self, id: u64) -> Option<Arc<Activity>> {
        let Connection { peer, activity, holder } = self.by_id.remove(&id)?;
        if let Entry::Occupied(mut of_peer) = self.by_peer.entry(peer) {
            of_peer.get_mut().remove(&id);
            if of_peer.get().is_empty() {
                of_peer.remove();
            }
        }
        self.counts.remove(peer, holder);
        Some(activity)
    }

    /// The connection of this peer that makes room for a new one of it, as if these were all there are: many clients may be behind one
    /// proxy, and one of them must not keep the others out. `None` for a peer that has not used a valid key: it is a stranger with too many.
    /// Some of its connections stand for all, so that a client that comes back at once each time does not take the turns of the others.
    fn choose_of_peer(&mut self, peer: IpAddr) -> Option<u64> {
        let ids = self.by_peer.get(&peer)?;
        let from = self.sample_from;
        let next: Vec<u64> = ids.range(from..).chain(ids.range(..from)).take(MAX_SAMPLED).copied().collect();
        self.sample_from = next.last().map_or(0, |last| last + 1);
        let Open { by_id, counts, .. } = self;
        let sample: Vec<Candidate> =
            next.iter().filter_map(|id| Some(by_id.get_mut(id)?.look(*id, counts))).collect();
        if sample.iter().all(|candidate| candidate.holder.is_none()) {
            return None;
        }
        let mut counts = Counts::default();
        sample.iter().for_each(|candidate| counts.add(peer, candidate.holder));
        displace::choose(&sample, &counts)
    }

    /// The connection that makes room for a new one of any peer.
    fn choose(&mut self, now: Instant) -> Option<u64> {
        let sample = self.look_at(self.sample_from, MAX_SAMPLED);
        self.sample_from = sample.last().map_or(0, |last| last.id + 1);
        let chosen = displace::choose(&sample, &self.counts);
        let is_recent = self.scanned_at.is_some_and(|at| now.duration_since(at) < SCAN_INTERVAL);
        if chosen.is_some() || is_recent {
            return chosen;
        }
        self.scanned_at = Some(now);
        let all = self.look_at(0, usize::MAX);
        displace::choose(&all, &self.counts)
    }

    /// At most `max`, beginning with the id `from` and going on with the first.
    fn look_at(&mut self, from: u64, max: usize) -> Vec<Candidate> {
        let Open { by_id, counts, .. } = self;
        let mut seen = Vec::with_capacity(max.min(by_id.len()));
        for ids in [from..u64::MAX, 0..from] {
            for (id, connection) in by_id.range_mut(ids).take(max - seen.len()) {
                seen.push(connection.look(*id, counts));
            }
        }
        seen
    }
}

/// The place of one connection, free again when it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    /// An address, or a network of IPv6.
    pub(super) peer: IpAddr,
    pub(super) activity: Arc<Activity>,
}

impl Connections {
    pub(crate) fn new(bounds: Bounds) -> Connections {
        Connections {
            bounds,
            open: Mutex::default(),
            steps: Arc::new(AtomicU64::new(1)),
            holders: Arc::default(),
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
        let of_peer = open.by_peer.get(&peer).map_or(0, BTreeSet::len);
        let is_full = open.by_id.len() >= self.bounds.connections;
        let has_room = if of_peer >= self.bounds.per_peer {
            self.make_room(&mut open, |open| open.choose_of_peer(peer))
        } else {
            !is_full || self.make_room(&mut open, |open| open.choose(Instant::now()))
        };
        if !has_room {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let activity = Arc::new(Activity::new(&self.steps, &self.holders));
        let id = open.insert(peer, Arc::clone(&activity));
        Some(Place { connections: Arc::clone(self), id, peer, activity })
    }

    fn make_room(&self, open: &mut Open, choose: impl FnOnce(&mut Open) -> Option<u64>) -> bool {
        if open.closing >= self.bounds.max_closing() {
            return false;
        }
        let closed = choose(open).and_then(|id| open.remove(id));
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
        self.lock().by_id.values().filter(|connection| connection.activity.body_since().is_some()).count()
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
        const BOUNDS: Bounds = Bounds { connections: 64, per_peer: 64 };
        let max_closing = BOUNDS.max_closing();
        assert_eq!(max_closing, 4);
        let connections = Arc::new(Connections::new(BOUNDS));
        let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut idle: Vec<Place> = (0..64).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let mut new: Vec<Place> =
            (0..max_closing as u8).map(|n| connections.admit(peer(100 + n)).unwrap()).collect();
        assert_eq!((connections.open(), connections.displaced()), (64, max_closing as u64));
        assert!(
            idle[..max_closing].iter().all(|place| place.activity.is_displaced()),
            "the first were idle longest"
        );
        assert!(connections.admit(peer(2)).is_none(), "too many have not ended");
        drop(idle.remove(0));
        assert_eq!(connections.open(), 64, "its place was free before");
        new.push(connections.admit(peer(2)).unwrap());
        drop((idle, new));
        let open = connections.lock();
        assert_eq!((open.by_id.len(), open.by_peer.len(), open.closing), (0, 0, 0));
        assert!(open.counts.is_empty());
    }

    /// 540 slow bodies of one tenant kept all others out that were behind the same proxy.
    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_more_than_its_share_of_an_address_makes_room_for_others_behind_it() {
        let connections = Arc::new(Connections::new(Bounds { connections: 100, per_peer: 10 }));
        let proxy = peer_number(1);
        let elsewhere: Vec<Place> = (0..10).map(|_| connections.admit(peer_number(2)).unwrap()).collect();
        let slow: Vec<Place> = (0..10).map(|_| connections.admit(proxy).unwrap()).collect();
        for place in &slow {
            place.activity.key_use().record(NonZeroU64::MIN);
            place.activity.head_complete();
            place.activity.body_awaited(true);
        }
        let newcomer = connections.admit(proxy);
        assert!(newcomer.is_some() && slow[0].activity.is_displaced(), "its body has been arriving longest");
        assert!(elsewhere.iter().all(|place| !place.activity.is_displaced()), "other addresses lose none");
        drop(slow);
        drop(newcomer);
        // A newcomer is idle until its request has come. One that comes back at once takes no place of those with a request.
        let back: Vec<Place> = (0..10).map(|_| connections.admit(proxy).unwrap()).collect();
        back.iter().for_each(|place| place.activity.head_complete());
        assert!(connections.admit(proxy).is_none(), "no key was used, and all have a request");
    }

    fn peer_number(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_looked_at_for_each_newcomer_and_all_now_and_then() {
        let connections = Arc::new(Connections::new(Bounds { connections: 1_000, per_peer: 1 }));
        let admit = |n: u32| {
            let place = connections.admit(peer_number(n))?;
            place.activity.head_complete();
            Some(place)
        };
        let places: Vec<Place> = (0..1_000).map(|n| admit(n).unwrap()).collect();
        places[400].activity.request_answered();
        places[600].activity.request_answered();
        let mut new = vec![admit(1_000).expect("all are looked at")];
        assert!(places[400].activity.is_displaced());
        for sample in ["128 to 255", "256 to 383", "384 to 512"] {
            assert!(admit(2_000).is_none(), "none of {sample} is idle");
        }
        new.push(admit(1_001).expect("one of the next is idle"));
        assert!(places[600].activity.is_displaced());
        places[50].activity.request_answered();
        assert!(admit(2_000).is_none());
        tokio::time::advance(SCAN_INTERVAL).await;
        new.push(admit(1_002).expect("all are looked at again"));
        assert!(places[50].activity.is_displaced());
    }

    #[test]
    fn connections_with_a_key_do_not_count_against_a_newcomer_of_their_address() {
        let connections = Arc::new(Connections::new(Bounds { connections: 20, per_peer: 20 }));
        let keyed: Vec<Place> = (0..2).map(|_| connections.admit(peer_number(1)).unwrap()).collect();
        let strangers: Vec<Place> = (2..20).map(|n| connections.admit(peer_number(n)).unwrap()).collect();
        keyed.iter().for_each(|place| place.activity.key_use().record(NonZeroU64::MIN));
        let newcomer = connections.admit(peer_number(1));
        assert!(newcomer.is_some() && strangers[0].activity.is_displaced());
        drop((keyed, strangers, newcomer));
        assert!(connections.lock().counts.is_empty());
    }
}
