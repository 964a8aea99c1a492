use std::collections::{BTreeMap, HashMap, VecDeque};
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

    fn is_ready(&self, now: Now) -> bool {
        self.deliver_at <= now.schedule && self.visible_at <= now.real
    }
}

impl Messages {
    /// The next ready messages: one of each tenant in turn, of its groups in turn, oldest first within a group.
    fn next_ready(&self, now: Now, max: usize) -> Vec<u64> {
        let mut tenants: BTreeMap<&str, BTreeMap<&str, VecDeque<u64>>> = BTreeMap::new();
        for (id, held) in self.by_id.iter().filter(|(_, held)| held.is_ready(now)) {
            let groups = tenants.entry(&held.tenant).or_default();
            groups.entry(&held.group).or_default().push_back(*id);
        }
        let (tenant, group) = &self.served;
        let groups_in_turn = |groups: BTreeMap<&str, VecDeque<u64>>| in_turn(groups, group);
        let mut turns: VecDeque<VecDeque<VecDeque<u64>>> =
            in_turn(tenants, tenant).into_iter().map(groups_in_turn).collect();
        let mut picked = Vec::new();
        while picked.len() < max
            && let Some(mut groups) = turns.pop_front()
        {
            if let Some(mut ids) = groups.pop_front() {
                picked.extend(ids.pop_front());
                if !ids.is_empty() {
                    groups.push_back(ids);
                }
                turns.push_back(groups);
            }
        }
        picked
    }

    /// The message that a receipt names, unless it was received again since.
    fn named(&mut self, receipt: &Receipt) -> Option<(u64, &mut Held)> {
        let (id, received) = receipt.0.split_once('.')?;
        let (id, received) = (id.parse().ok()?, received.parse::<u32>().ok()?);
        let held = self.by_id.get_mut(&id)?;
        (held.received == received).then_some((id, held))
    }
}

/// Those behind the one that was served last, then the others.
fn in_turn<T>(by_name: BTreeMap<&str, T>, served: &str) -> VecDeque<T> {
    let (served, behind): (Vec<_>, Vec<_>) = by_name.into_iter().partition(|(name, _)| *name <= served);
    behind.into_iter().chain(served).map(|(_, value)| value).collect()
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
        self.on(queue, |messages| messages.by_id.clear());
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
        let ready_at = |held: &Held| {
            let visible_at = now.schedule + self.clock.to_schedule(held.visible_at.since(now.real));
            held.deliver_at.max(visible_at)
        };
        self.on(queue, |messages| messages.by_id.values().map(ready_at).min())
    }

    fn put(&self, queue: QueueName, held: Held) {
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.queues.entry(queue).or_default().by_id.insert(id, held);
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
            let mut received = Vec::new();
            for id in messages.next_ready(now, max) {
                let Some(held) = messages.by_id.get_mut(&id) else { continue };
                held.received += 1;
                held.visible_at = now.real + self.visibility;
                messages.served = (held.tenant.clone(), held.group.clone());
                received.push(Received {
                    message: Message::decode(&held.payload).map_err(|why| UnreadableMessage {
                        why,
                        payload: held.payload.clone().into(),
                        group: Some(held.group.clone()),
                    }),
                    receipt: Receipt(format!("{id}.{}", held.received)),
                    receive_count: held.received,
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
            let (id, held) = messages.named(receipt)?;
            match settlement {
                Settlement::RetryAfter(wait) => held.visible_at = now.real + wait,
                // Kept for a person, and never received again.
                Settlement::DeadLetter(_) => held.visible_at = Timestamp::MAX,
                Settlement::Delete => drop(messages.by_id.remove(&id)),
                Settlement::Resend { delay, .. } => {
                    let held = messages.by_id.remove(&id)?;
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
