mod entry;
mod group;
mod jobs;
mod mirror;
mod mirrors;
mod share;
mod slow;
mod ticket;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    Clock, Delay, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, Received, SendError, Settlement,
    UnreadableMessage,
};
use holdfast_core::records::{Message, Unreadable};
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::checksum;
use crate::error::Failure;
use crate::lane::{Lane, MAX_JOB_COST, ROWS_PER_JOB, row_cost};
use crate::readers::Readers;
use crate::writer::Writer;
use entry::{Decoded, Place, Taken, Wait};
use group::GroupId;
pub(crate) use jobs::CloseJob;
use jobs::{DeleteJob, NewMessage, ResendJob, SendJob, body_of, inline_body_bytes};
pub(crate) use mirrors::{Mirrors, queue_of};
use ticket::TicketId;

/// One machine has no dead-letter queue. A message that no release can read stays in the file and is received again after this
/// long (real time), so that it keeps appearing in the log. `list_unreadable` finds it.
const DEAD_LETTER_INTERVAL: Duration = Duration::from_secs(3600);

/// How long messages that could not be received completely are left alone.
const FAILED_RECEIVE_WAIT: Duration = Duration::from_secs(1);

/// Messages that were taken from a queue and are not complete yet.
pub struct TakenBatch {
    taken: Taken,
    queue: QueueName,
}

impl TakenBatch {
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken.received.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Both queues, in the file and in memory. Fair by tenant and group: the tenants with ready messages take turns, then their groups.
/// Each receive serves one group. A group has no more than a limited number of messages in flight, and a tenant no more than its
/// share once others want some.
pub struct EmbeddedQueue {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) mirrors: Mirrors,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) visibility: Duration,
    pub(crate) keep_bodies: Option<Duration>,
    pub(crate) next_id: AtomicI64,
}

impl EmbeddedQueue {
    /// Waits until there may be something to receive: a new message, one whose delay or invisibility is over, or one of a
    /// group that was at its limit.
    pub async fn ready(&self, queue: QueueName) {
        loop {
            if self.readers.is_intact().is_err() {
                // Receiving fails from now on: a caller that tried again at once would spin.
                std::future::pending::<()>().await;
            }
            // Listens before it looks, so that it misses nothing in between.
            let mut news = std::pin::pin!(self.mirrors.news(queue).notified());
            news.as_mut().enable();
            let wait = self.mirrors.lock(queue).wait(self.clock.both());
            match wait {
                Wait::Over => return,
                Wait::News => news.await,
                Wait::Until { schedule, real } => {
                    let wait = self.in_real_time(schedule).min(real);
                    // The end of the wait and news are both reasons to look again.
                    let _ = tokio::time::timeout(wait, news).await;
                }
            }
        }
    }

    /// When the next message can be received, on the schedule's clock: for hosts that do not wait in real time. `None`: not before there is
    /// news.
    #[must_use]
    pub fn next_ready_at(&self, queue: QueueName) -> Option<Timestamp> {
        let now = self.clock.both();
        match self.mirrors.lock(queue).wait(now) {
            Wait::Over => Some(now.schedule),
            Wait::News => None,
            Wait::Until { schedule, real } => Some(now.schedule + schedule.min(self.clock.to_schedule(real))),
        }
    }

    /// How many messages the queue has, in memory or not.
    #[must_use]
    pub fn messages(&self, queue: QueueName) -> u64 {
        self.mirrors.lock(queue).messages()
    }

    /// The size of the tenant's bodies on the first-attempt queue.
    pub(crate) fn queued_bytes(&self, tenant: &Tenant) -> u64 {
        self.mirrors.lock(QueueName::First).body_bytes(tenant.as_str())
    }

    /// The same by URL.
    pub(crate) fn queued_bytes_by_url(&self, tenant: &Tenant) -> impl Iterator<Item = (UrlId, u64)> {
        let by_url = self.mirrors.lock(QueueName::First).body_bytes_by_group(tenant.as_str());
        by_url.into_iter().map(|(url_id, bytes)| (UrlId(url_id.as_ref().to_owned()), bytes))
    }

    /// How long a duration of the schedule clock takes. Never zero: a wait that is rounded down to zero would spin.
    fn in_real_time(&self, schedule: Duration) -> Duration {
        let speed = self.clock.to_schedule(Duration::from_secs(1)).as_secs_f64();
        let real = if speed > 0.0 { schedule.as_secs_f64() / speed } else { schedule.as_secs_f64() };
        Duration::try_from_secs_f64(real).unwrap_or(Duration::MAX).max(Duration::from_millis(1))
    }

    /// Sends any bytes, even if they are not a message: for tests.
    pub async fn send_raw(&self, queue: QueueName, payload: Vec<u8>) -> Result<(), QueueError> {
        let message = decode(&payload);
        let group = message.as_ref().map_or(GroupId::UNREADABLE, GroupId::of);
        let row = NewMessage {
            group,
            place: self.place(Delay::NONE),
            payload,
            message,
            body: None,
            body_bytes: 0,
            ticket: None,
        };
        Ok(self.insert(Lane::own(), queue, vec![row]).await?)
    }

    async fn insert(&self, lane: Lane, queue: QueueName, rows: Vec<NewMessage>) -> Result<(), Failure> {
        let mirrors = self.mirrors.clone();
        self.writer.submit(lane, |reply| Box::new(SendJob::new(mirrors, queue, rows, reply))).await
    }

    async fn resend(
        &self,
        queue: QueueName,
        receipt: &Receipt,
        message: UnreadableMessage,
        delay: Delay,
    ) -> Result<(), Failure> {
        let (id, group, lane) = {
            let mirror = self.mirrors.lock(queue);
            let Some(id) = mirror.find(receipt) else { return Ok(()) };
            let Some(group) = mirror.group_of(id) else { return Ok(()) };
            (id, group, Lane::of_tenant(&mirror.tenant_of(id)))
        };
        let (mirrors, place) = (self.mirrors.clone(), self.place(delay));
        let job = |reply| {
            Box::new(ResendJob { mirrors, queue, id, group, place, message, found: false, reply }) as _
        };
        self.writer.submit(lane, job).await
    }

    /// The place of a message that is sent now.
    fn place(&self, delay: Delay) -> Place {
        Place {
            deliver_at: self.clock.now() + delay.as_duration(),
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The rows of the first messages, as many as are one job, and what they cost.
    fn next_rows(&self, messages: &[Outgoing]) -> (Vec<NewMessage>, u64) {
        let (mut rows, mut cost) = (Vec::new(), 0);
        for Outgoing { message, delay } in messages.iter().take(ROWS_PER_JOB) {
            let body = self.keep_bodies.and_then(|keep| body_of(message, self.clock.now() + keep));
            let payload = if body.is_some() { message.encode_without_body() } else { message.encode() };
            cost += row_cost(payload.len()) + body.as_ref().map_or(0, |body| row_cost(body.bytes.len()));
            rows.push(NewMessage {
                group: GroupId::of(message),
                place: self.place(*delay),
                payload,
                message: Ok(message.clone()),
                body,
                body_bytes: inline_body_bytes(message),
                ticket: TicketId::of(message),
            });
            if cost >= MAX_JOB_COST {
                break;
            }
        }
        (rows, cost)
    }

    /// Takes the next messages, without waiting. They must be completed before they are handled.
    pub fn take(&self, queue: QueueName, max: usize) -> Result<TakenBatch, QueueError> {
        self.readers.is_intact()?;
        let now = self.clock.both();
        let (taken, wants_more) = {
            let mut mirror = self.mirrors.lock(queue);
            (mirror.receive(now, max, now.real + self.visibility), mirror.wants_more())
        };
        if wants_more {
            self.writer.nudge();
        }
        Ok(TakenBatch { taken, queue })
    }

    /// Reads what is only in the file, and stores what must be known after a crash. It waits for the disk, but not for messages of
    /// others.
    pub async fn complete(&self, batch: TakenBatch) -> Result<Vec<Received>, QueueError> {
        let TakenBatch { mut taken, queue } = batch;
        match self.make_ready(&mut taken).await {
            Ok(()) => Ok(taken.received),
            Err(failure) => {
                // They must not keep their slots as if they were being handled.
                let until = self.clock.now_real() + FAILED_RECEIVE_WAIT;
                let mut mirror = self.mirrors.lock(queue);
                for received in &taken.received {
                    mirror.postpone(&received.receipt, until);
                }
                Err(failure.into())
            }
        }
    }

    async fn make_ready(&self, taken: &mut Taken) -> Result<(), Failure> {
        // All are of one group, and so of one tenant.
        let first = taken.received.first().and_then(|received| received.message.as_ref().ok());
        let lane = first.map_or_else(Lane::own, |message| Lane::of_tenant(message.tenant().as_str()));
        self.read_bodies(&lane, taken).await?;
        if taken.counts.is_empty() {
            return Ok(());
        }
        let lane = lane.costing(taken.counts.len() as u64);
        self.store_counts(lane, std::mem::take(&mut taken.counts)).await
    }

    /// Reads the bodies that did not fit in memory. Each may be large, and those of other tenants come in between.
    async fn read_bodies(&self, lane: &Lane, taken: &mut Taken) -> Result<(), Failure> {
        for (index, id) in std::mem::take(&mut taken.without_body) {
            let read = move |connection: &Connection| {
                let mut statement =
                    connection.prepare_cached("SELECT payload, checksum FROM messages WHERE id = ?1")?;
                statement.query_row([id], |row| Ok(decode_stored(row.get_ref(0)?.as_blob()?, row.get(1)?)))
            };
            taken.received[index].message = self.readers.read(&lane.tenant, read).await?;
        }
        Ok(())
    }

    /// Stores receive counts, for messages whose count would be too low after a crash.
    async fn store_counts(&self, lane: Lane, counts: Vec<(i64, u32)>) -> Result<(), Failure> {
        let opens = self.mirrors.opens();
        let update = move |connection: &Connection| {
            let mut statement =
                connection.prepare_cached("UPDATE messages SET received = ?2, opened = ?3 WHERE id = ?1")?;
            counts
                .iter()
                .try_for_each(|(id, received)| statement.execute(params![id, received, opens]).map(drop))
        };
        self.writer.run(lane, update).await
    }
}

fn decode(payload: &[u8]) -> Decoded {
    Message::decode(payload).map_err(|why| unreadable(why, payload))
}

/// Decodes a message from the file, if it is still what was sent.
pub(crate) fn decode_stored(payload: &[u8], checksum: i64) -> Decoded {
    checksum::check(checksum, &[], payload).map_err(|why| unreadable(why, payload))?;
    decode(payload)
}

fn unreadable(why: Unreadable, payload: &[u8]) -> UnreadableMessage {
    UnreadableMessage { why, payload: Bytes::copy_from_slice(payload), group: None }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        let mut inserts = Vec::new();
        let mut done = 0;
        while done < messages.len() {
            if done > 0 {
                // Encoding takes a while too.
                tokio::task::yield_now().await;
            }
            let (rows, cost) = self.next_rows(&messages[done..]);
            let lane = Lane::of_tenant(messages[done].message.tenant().as_str()).costing(cost);
            let (reply, inserted) = oneshot::channel();
            inserts.push((done, inserted));
            done += rows.len();
            let job = SendJob::new(self.mirrors.clone(), queue, rows, reply);
            self.writer.submit_only(lane, Box::new(job));
        }
        for (first, inserted) in inserts {
            // A job that is dropped undone drops its sender: the thread has ended.
            if let Err(failure) = inserted.await.map_err(|_| Failure::Closed).flatten() {
                // Those after it may have been sent. They are sent again, and a repeat does no harm.
                let unsent = messages.into_iter().skip(first).collect();
                return Err(SendError { unsent, source: failure.into() });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Inbox for EmbeddedQueue {
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        self.complete(self.take(queue, max)?).await
    }

    /// Waits for the disk only to resend. A deletion that is lost in a crash only repeats an attempt.
    async fn settle(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>> {
        let mut results = vec![Ok(()); settlements.len()];
        let (mut deleted, mut resent) = (HashMap::<Arc<str>, Vec<i64>>::new(), Vec::new());
        let now = self.clock.now_real();
        {
            let mut mirror = self.mirrors.lock(queue);
            for (index, (receipt, settlement)) in settlements.into_iter().enumerate() {
                mirror.note_held(&receipt, now);
                match settlement {
                    Settlement::Delete => {
                        if let Some((id, tenant)) = mirror.delete(&receipt) {
                            deleted.entry(tenant).or_default().push(id);
                        }
                    }
                    Settlement::RetryAfter(wait) => mirror.postpone(&receipt, now + wait),
                    Settlement::DeadLetter(_) => mirror.postpone(&receipt, now + DEAD_LETTER_INTERVAL),
                    Settlement::Resend { message, delay } => resent.push((index, receipt, message, delay)),
                }
            }
        }
        for (tenant, ids) in deleted {
            let job = DeleteJob { mirrors: self.mirrors.clone(), queue, ids };
            let lane = Lane::of_tenant(&tenant).costing(job.ids.len() as u64);
            self.writer.submit_only(lane, Box::new(job));
        }
        if self.mirrors.lock(queue).wants_more() {
            self.writer.nudge();
        }
        // Groups may have room now, and waiting receivers must see the new times.
        self.mirrors.news(queue).notify_waiters();
        for (index, receipt, message, delay) in resent {
            results[index] = self.resend(queue, &receipt, message, delay).await.map_err(QueueError::from);
        }
        results
    }
}
