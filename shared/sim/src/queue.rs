use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{
    Clock, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, Received, SendError, Settlement,
    UnreadableMessage,
};
use holdfast_core::records::Message;
use holdfast_core::time::{Now, Timestamp};

/// Both queues in memory. Messages are kept as bytes, so that the wire format is always exercised.
pub struct MemoryQueue {
    clock: Arc<dyn Clock>,
    /// How long a received message stays invisible, in real time.
    visibility: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queues: HashMap<QueueName, Messages>,
    last_id: u64,
    /// The next send to this queue is refused.
    refuses: Option<QueueName>,
}

#[derive(Default)]
struct Messages {
    by_id: BTreeMap<u64, Held>,
    /// What can be received, by tenant and group. Each message is here, in `delayed` or in `invisible`.
    ready: BTreeMap<String, BTreeMap<String, BTreeSet<u64>>>,
    /// By when they can be received, on the schedule's clock.
    delayed: BTreeSet<(Timestamp, u64)>,
    /// By when they can be received again, on the real clock.
    invisible: BTreeSet<(Timestamp, u64)>,
    /// The tenant and group that were served last: the next receive starts behind them.
    served: (String, String),
}

#[derive(Clone)]
struct Held {
    payload: Vec<u8>,
    tenant: String,
    group: String,
    /// On the schedule's clock.
    deliver_at: Timestamp,
    /// On the real clock.
    visible_at: Timestamp,
    received: u32,
}

impl Held {
    fn new(payload: Vec<u8>, deliver_at: Timestamp) -> Held {
        let (tenant, group) = Message::decode(&payload).map_or_else(
            |_| Default::default(),
            |message| (message.tenant().to_string(), message.group().to_owned()),
        );
        Held { payload, tenant, group, deliver_at, visible_at: Timestamp::ZERO, received: 0 }
    }
}

impl Messages {
    fn insert(&mut self, id: u64, held: Held, now: Now) {
        self.by_id.insert(id, held);
        self.place(id, now);
    }

    fn remove(&mut self, id: u64) -> Option<Held> {
        self.displace(id);
        self.by_id.remove(&id)
    }

    fn clear(&mut self) {
        *self = Messages { served: std::mem::take(&mut self.served), ..Messages::default() };
    }

    /// Not before this time, on the real clock.
    fn hide_until(&mut self, id: u64, visible_at: Timestamp, now: Now) {
        self.displace(id);
        if let Some(held) = self.by_id.get_mut(&id) {
            held.visible_at = visible_at;
        }
        self.place(id, now);
    }

    fn place(&mut self, id: u64, now: Now) {
        let Some(held) = self.by_id.get(&id) else { return };
        if held.deliver_at > now.schedule {
            self.delayed.insert((held.deliver_at, id));
        } else if held.visible_at > now.real {
            self.invisible.insert((held.visible_at, id));
        } else {
            let groups = self.ready.entry(held.tenant.clone()).or_default();
            groups.entry(held.group.clone()).or_default().insert(id);
        }
    }

    fn displace(&mut self, id: u64) {
        let Some(held) = self.by_id.get(&id) else { return };
        self.delayed.remove(&(held.deliver_at, id));
        self.invisible.remove(&(held.visible_at, id));
        let Some(groups) = self.ready.get_mut(&held.tenant) else { return };
        let Some(ids) = groups.get_mut(&held.group) else { return };
        ids.remove(&id);
        if ids.is_empty() {
            groups.remove(&held.group);
        }
        if groups.is_empty() {
            self.ready.remove(&held.tenant);
        }
    }

    /// Finds a new place for those whose time has come.
    fn pass(&mut self, now: Now) {
        while let Some((_, id)) = self.delayed.first().copied().filter(|(at, _)| *at <= now.schedule) {
            self.delayed.pop_first();
            self.place(id, now);
        }
        while let Some((_, id)) = self.invisible.first().copied().filter(|(at, _)| *at <= now.real) {
            self.invisible.pop_first();
            self.place(id, now);
        }
    }

    /// The next ready messages: one of each tenant in turn, of its groups in turn, oldest first within a group.
    fn next_ready(&self, max: usize) -> Vec<u64> {
        let (tenant, group) = &self.served;
        let ids_in_turn = |groups| {
            let ids = in_turn(groups, group).into_iter().map(|ids: &BTreeSet<u64>| ids.iter().peekable());
            ids.collect::<VecDeque<_>>()
        };
        let mut turns: VecDeque<_> = in_turn(&self.ready, tenant).into_iter().map(ids_in_turn).collect();
        let mut picked = Vec::new();
        while picked.len() < max
            && let Some(mut groups) = turns.pop_front()
        {
            if let Some(mut ids) = groups.pop_front() {
                picked.extend(ids.next().copied());
                if ids.peek().is_some() {
                    groups.push_back(ids);
                }
                turns.push_back(groups);
            }
        }
        picked
    }

    /// The message that a receipt names, unless it was received again since.
    fn named(&self, receipt: &Receipt) -> Option<u64> {
        let (id, received) = receipt.0.split_once('.')?;
        let (id, received) = (id.parse().ok()?, received.parse::<u32>().ok()?);
        (self.by_id.get(&id)?.received == received).then_some(id)
    }
}

/// Those behind the one that was served last, then the others.
fn in_turn<'a, T>(by_name: &'a BTreeMap<String, T>, served: &str) -> Vec<&'a T> {
    let behind = by_name.range::<str, _>((Bound::Excluded(served), Bound::Unbounded));
    let others = by_name.range::<str, _>((Bound::Unbounded, Bound::Included(served)));
    behind.chain(others).map(|(_, value)| value).collect()
}

impl MemoryQueue {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, visibility: Duration) -> MemoryQueue {
        MemoryQueue { clock, visibility, state: Mutex::default() }
    }

    /// Puts any bytes into a queue, also such as are no message.
    pub fn send_raw(&self, queue: QueueName, payload: Vec<u8>) {
        self.put(queue, Held::new(payload, self.clock.now()));
    }

    /// Everything in the queue is there once more, as at-least-once queues may do at any time.
    pub fn duplicate_all(&self, queue: QueueName) {
        let copies: Vec<Held> = self.on(queue, |messages| messages.by_id.values().cloned().collect());
        for copy in copies {
            self.put(queue, copy);
        }
    }

    /// Everything in the queue is gone, as if it had never been sent.
    pub fn lose_all(&self, queue: QueueName) {
        self.on(queue, Messages::clear);
    }

    /// The next send to this queue fails, and none of its messages is taken.
    pub fn refuse_next(&self, queue: QueueName) {
        self.lock().refuses = Some(queue);
    }

    /// What is in the queue, with the time at which the schedule's clock lets it be received; oldest first.
    #[must_use]
    pub fn messages(&self, queue: QueueName) -> Vec<(Message, Timestamp)> {
        self.on(queue, |messages| {
            let held = messages.by_id.values();
            held.filter_map(|held| Some((Message::decode(&held.payload).ok()?, held.deliver_at))).collect()
        })
    }

    /// How many messages there are: ready, delayed or invisible.
    #[must_use]
    pub fn len(&self, queue: QueueName) -> usize {
        self.on(queue, |messages| messages.by_id.len())
    }

    #[must_use]
    pub fn is_empty(&self, queue: QueueName) -> bool {
        self.len(queue) == 0
    }

    /// When the next message can be received, on the schedule's clock; not in the future if one can be received now.
    #[must_use]
    pub fn next_ready_at(&self, queue: QueueName) -> Option<Timestamp> {
        let now = self.clock.both();
        self.on(queue, |messages| {
            messages.pass(now);
            if !messages.ready.is_empty() {
                return Some(now.schedule);
            }
            let delayed = messages.delayed.first().map(|(at, _)| *at);
            let invisible = messages.invisible.first();
            let visible = invisible.map(|(at, _)| now.schedule + self.clock.to_schedule(at.since(now.real)));
            delayed.into_iter().chain(visible).min()
        })
    }

    fn put(&self, queue: QueueName, held: Held) {
        let now = self.clock.both();
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.queues.entry(queue).or_default().insert(id, held, now);
    }

    fn on<T>(&self, queue: QueueName, act: impl FnOnce(&mut Messages) -> T) -> T {
        act(self.lock().queues.entry(queue).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        let now = self.clock.now();
        if self.lock().refuses.take_if(|refuses| *refuses == queue).is_some() {
            let source = QueueError::Failed(Arc::new(std::io::Error::other("told to refuse")));
            return Err(SendError { unsent: messages, source });
        }
        for Outgoing { message, delay } in messages {
            self.put(queue, Held::new(message.encode(), now + delay.as_duration()));
        }
        Ok(())
    }
}

#[async_trait]
impl Inbox for MemoryQueue {
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let now = self.clock.both();
        Ok(self.on(queue, |messages| {
            messages.pass(now);
            let mut received = Vec::new();
            for id in messages.next_ready(max) {
                messages.hide_until(id, now.real + self.visibility, now);
                let Some(held) = messages.by_id.get_mut(&id) else { continue };
                held.received += 1;
                messages.served = (held.tenant.clone(), held.group.clone());
                received.push(Received {
                    message: Message::decode(&held.payload).map_err(|why| UnreadableMessage {
                        why,
                        payload: held.payload.clone().into(),
                        group: Some(held.group.clone()),
                    }),
                    receipt: Receipt(format!("{id}.{}", held.received)),
                    receive_count: held.received,
                    body_is_stored: false,
                });
            }
            received
        }))
    }

    async fn settle(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>> {
        let settled = settlements.into_iter().map(|(receipt, settlement)| {
            self.settle_one(queue, &receipt, settlement);
            Ok(())
        });
        settled.collect()
    }
}

impl MemoryQueue {
    fn settle_one(&self, queue: QueueName, receipt: &Receipt, settlement: Settlement) {
        let now = self.clock.both();
        let resent = self.on(queue, |messages| {
            let id = messages.named(receipt)?;
            match settlement {
                Settlement::RetryAfter(wait) => messages.hide_until(id, now.real + wait, now),
                // Kept for a person, and never received again.
                Settlement::DeadLetter(_) => messages.hide_until(id, Timestamp::MAX, now),
                Settlement::Delete => drop(messages.remove(id)),
                Settlement::Resend { delay, .. } => {
                    let held = messages.remove(id)?;
                    return Some(Held::new(held.payload, now.schedule + delay.as_duration()));
                }
            }
            None
        });
        if let Some(held) = resent {
            self.put(queue, held);
        }
    }
}
