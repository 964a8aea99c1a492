use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::messages::Message;
use holdfast_core::ports::{
    Clock, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, Received, SendError,
};
use holdfast_core::records::Now;
use holdfast_core::time::Timestamp;

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
    /// The group that was served last: the next receive starts behind it.
    served: String,
}

#[derive(Clone)]
struct Held {
    payload: Vec<u8>,
    group: String,
    /// On the schedule's clock.
    deliver_at: Timestamp,
    /// On the real clock.
    visible_at: Timestamp,
    received: u32,
}

impl Held {
    fn new(payload: Vec<u8>, deliver_at: Timestamp) -> Held {
        let group = Message::decode(&payload).map_or_else(|_| String::new(), |m| m.group().to_owned());
        Held { payload, group, deliver_at, visible_at: Timestamp::ZERO, received: 0 }
    }

    fn is_ready(&self, now: Now) -> bool {
        self.deliver_at <= now.schedule && self.visible_at <= now.real
    }
}

impl Messages {
    /// The next ready messages: one of each group in turn, oldest first within a group.
    fn next_ready(&self, now: Now, max: usize) -> Vec<u64> {
        let mut groups: BTreeMap<&str, VecDeque<u64>> = BTreeMap::new();
        for (id, held) in self.by_id.iter().filter(|(_, held)| held.is_ready(now)) {
            groups.entry(&held.group).or_default().push_back(*id);
        }
        let (served, behind): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(group, _)| *group <= self.served.as_str());
        let mut turns: VecDeque<VecDeque<u64>> =
            behind.into_iter().chain(served).map(|(_, ids)| ids).collect();
        let mut picked = Vec::new();
        while picked.len() < max
            && let Some(mut ids) = turns.pop_front()
        {
            if let Some(id) = ids.pop_front() {
                picked.push(id);
                turns.push_back(ids);
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
            let visible_at = now.schedule + self.clock.stretch(held.visible_at.since(now.real));
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
            return Err(SendError::Partly { unsent: messages, why: "told to refuse".to_owned() });
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
                messages.served.clone_from(&held.group);
                received.push(Received {
                    message: Message::decode(&held.payload),
                    receipt: Receipt(format!("{id}.{}", held.received)),
                    receive_count: held.received,
                });
            }
            received
        }))
    }

    async fn delete(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        self.on(queue, |messages| {
            for receipt in receipts {
                if let Some((id, _)) = messages.named(&receipt) {
                    messages.by_id.remove(&id);
                }
            }
        });
        Ok(())
    }

    async fn postpone(&self, queue: QueueName, receipt: Receipt, wait: Duration) -> Result<(), QueueError> {
        let visible_at = self.clock.now_real() + wait;
        self.on(queue, |messages| {
            if let Some((_, held)) = messages.named(&receipt) {
                held.visible_at = visible_at;
            }
        });
        Ok(())
    }
}
