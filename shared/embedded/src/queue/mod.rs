mod entry;
mod jobs;
mod mirror;
mod mirrors;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{
    Clock, Inbox, Outgoing, Queue, QueueError, QueueName, Receipt, Received, SendError,
};
use holdfast_core::records::Message;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::options::Options;
use crate::readers::Readers;
use crate::writer::Writer;
use entry::{Place, Taken, Wait};
use jobs::{DeleteJob, SendJob};
pub(crate) use mirrors::Mirrors;

/// Both queues, in the file and in memory. Fair by group: the groups with ready messages take turns, each receive serves one
/// of them, and no group has more than a limited number of messages out.
pub struct EmbeddedQueue {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    mirrors: Mirrors,
    clock: Arc<dyn Clock>,
    visibility: Duration,
    next_id: AtomicI64,
}

impl EmbeddedQueue {
    pub(crate) fn new(
        writer: Arc<Writer>,
        readers: Arc<Readers>,
        mirrors: Mirrors,
        clock: Arc<dyn Clock>,
        options: &Options,
        next_id: i64,
    ) -> EmbeddedQueue {
        EmbeddedQueue {
            writer,
            readers,
            mirrors,
            clock,
            visibility: options.visibility,
            next_id: AtomicI64::new(next_id),
        }
    }

    /// Waits until there may be something to receive: a new message, one whose delay or invisibility is over, or one of a
    /// group that was at its limit.
    pub async fn ready(&self, queue: QueueName) {
        loop {
            // Listening begins before looking, so that nothing that happens in between is missed.
            let mut news = std::pin::pin!(self.mirrors.news(queue).notified());
            news.as_mut().enable();
            let wait = self.mirrors.lock(queue).wait(self.clock.both());
            match wait {
                Wait::Over => return,
                Wait::News => news.await,
                Wait::Until { schedule, real } => {
                    let wait = self.in_real_time(schedule).min(real);
                    // Time being over and news are both reasons to look again.
                    let _ = tokio::time::timeout(wait, news).await;
                }
            }
        }
    }

    /// How long a duration of the schedule's clock takes, never zero: a wait that is rounded down would spin.
    fn in_real_time(&self, schedule: Duration) -> Duration {
        let speed = self.clock.to_schedule(Duration::from_secs(1)).as_secs_f64();
        let real = if speed > 0.0 { schedule.as_secs_f64() / speed } else { schedule.as_secs_f64() };
        Duration::try_from_secs_f64(real).unwrap_or(Duration::MAX).max(Duration::from_millis(1))
    }

    /// Puts any bytes into a queue, also such as are no message: for tests of what becomes of them.
    pub async fn send_raw(&self, queue: QueueName, payload: Vec<u8>) -> Result<(), QueueError> {
        let (reply, answer) = oneshot::channel();
        let message = Message::decode(&payload);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let rows =
            vec![jobs::NewMessage { place: Place { deliver_at: self.clock.now(), id }, payload, message }];
        self.writer.submit(Box::new(SendJob { mirrors: self.mirrors.clone(), queue, rows, reply }));
        answer.await.unwrap_or_else(|_| Err("the database is closed".to_owned())).map_err(QueueError)
    }

    /// Reads the bodies that memory had no room for.
    fn read_bodies(&self, taken: &mut Taken) -> Result<(), QueueError> {
        for (index, id) in std::mem::take(&mut taken.without_body) {
            let payload: rusqlite::Result<Vec<u8>> = self.readers.read(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT payload FROM messages WHERE id = ?1")?;
                statement.query_row([id], |row| row.get(0))
            });
            // If it cannot be read now, the message comes again when its invisibility is over.
            let payload = payload.map_err(|e| QueueError(e.to_string()))?;
            taken.received[index].message = Message::decode(&payload);
        }
        Ok(())
    }

    /// Writes down how often messages were received, for those that memory alone would count too low after a crash.
    async fn keep_counts(&self, counts: Vec<(i64, u32)>) -> Result<(), QueueError> {
        let opens = self.mirrors.opens();
        let update = move |connection: &Connection| {
            let mut statement =
                connection.prepare_cached("UPDATE messages SET received = ?2, opened = ?3 WHERE id = ?1")?;
            counts
                .iter()
                .try_for_each(|(id, received)| statement.execute(params![id, received, opens]).map(drop))
        };
        self.writer.ask(update).await.map_err(|e| QueueError(e.to_string()))
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        if messages.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let row = |outgoing: &Outgoing| jobs::NewMessage {
            place: Place {
                deliver_at: now + outgoing.delay.as_duration(),
                id: self.next_id.fetch_add(1, Ordering::Relaxed),
            },
            payload: outgoing.message.encode(),
            message: Ok(outgoing.message.clone()),
        };
        let rows = messages.iter().map(row).collect();
        let (reply, answer) = oneshot::channel();
        self.writer.submit(Box::new(SendJob { mirrors: self.mirrors.clone(), queue, rows, reply }));
        let sent = answer.await.unwrap_or_else(|_| Err("the database is closed".to_owned()));
        sent.map_err(|why| SendError::Partly { unsent: messages, why })
    }
}

#[async_trait]
impl Inbox for EmbeddedQueue {
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let now = self.clock.both();
        let (mut taken, wants_more) = {
            let mut mirror = self.mirrors.lock(queue);
            (mirror.receive(now, max, now.real + self.visibility), mirror.wants_more())
        };
        if wants_more {
            self.writer.nudge();
        }
        self.read_bodies(&mut taken)?;
        if !taken.counts.is_empty() {
            self.keep_counts(taken.counts).await?;
        }
        Ok(taken.received)
    }

    /// Does not wait for the disk: a deletion that is lost in a crash only repeats an attempt.
    async fn delete(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let ids: Vec<i64> = {
            let mut mirror = self.mirrors.lock(queue);
            receipts.iter().filter_map(|receipt| mirror.delete(receipt)).collect()
        };
        if !ids.is_empty() {
            self.writer.submit(Box::new(DeleteJob { mirrors: self.mirrors.clone(), queue, ids }));
            self.mirrors.news(queue).notify_waiters();
        }
        Ok(())
    }

    async fn postpone(&self, queue: QueueName, receipt: Receipt, wait: Duration) -> Result<(), QueueError> {
        let visible_at = self.clock.now_real() + wait;
        self.mirrors.lock(queue).postpone(&receipt, visible_at);
        // Its group may have room now, and whoever waits has to look at the new time.
        self.mirrors.news(queue).notify_waiters();
        Ok(())
    }
}
