//! Conditional writes.

use std::collections::HashSet;

use holdfast_core::ports::{Expect, MAX_WRITES, Write, WriteError};
use holdfast_core::records::{Key, Record, UrlRecord};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{
    GENERATION, Item, LIST_STATE, LOOK_AT, PK, RECORD, STATE, STATE_SORT, SWEEP_SHARD, VERSION, WRITER,
    item_of, read_url, text_of, version_of,
};
use super::request::{Action, Refusal, Request, send_all};
use super::terms::Terms;
use super::values::number;

/// How often a write is tried while another transaction writes the same record.
const MAX_BUSY_TRIES: u32 = 6;
/// How often while it is throttled: for about five seconds. What an attempt led to is written in this way, and giving up would repeat the
/// attempt.
const MAX_THROTTLED_TRIES: u32 = 14;

/// A write and what is assumed about the stored record.
struct Draft {
    write: Write,
    /// Whether a URL record is assumed to have another generation than the stored one: then its own counters are stored.
    new_generation: bool,
    /// The assumption was wrong once and has been reversed.
    reversed: bool,
}

impl Draft {
    /// A URL record and the version that it is expected to have. Such a write leaves the counters to counting.
    fn url_over_version(&self) -> Option<(&UrlRecord, u64)> {
        match &self.write {
            Write::Put { record: Record::Url(url), expect: Expect::Version(version) } => {
                Some((url, *version))
            }
            _ => None,
        }
    }

    fn expect(&self) -> Expect {
        let (Write::Put { expect, .. } | Write::Delete { expect, .. }) = &self.write;
        *expect
    }

    fn request(&self, version_if_any: u64, mark: &str) -> Request {
        let mut terms = Terms::default();
        let mut condition = match self.expect() {
            Expect::Any => None,
            Expect::Absent => Some(terms.absent(PK)),
            Expect::Version(version) => Some(terms.compare(VERSION, "=", "of_version", number(version))),
        };
        let record = match &self.write {
            Write::Delete { key, .. } => {
                return Request { action: Action::Delete(key.clone()), condition, terms };
            }
            Write::Put { record, .. } => record,
        };
        let version = version_after(self.expect()).unwrap_or(version_if_any);
        let mut keeps_counters = false;
        if let Some((url, _)) = self.url_over_version() {
            keeps_counters = !self.new_generation;
            let operator = if keeps_counters { "=" } else { "<>" };
            let generation = number(url.health.generation);
            let generation = terms.compare(GENERATION, operator, "of_generation", generation);
            condition = condition.map(|condition| format!("{condition} AND {generation}"));
        }
        let action = if keeps_counters {
            Action::Update { key: record.key(), change: all_but_counters(record, version, mark, &mut terms) }
        } else {
            Action::Put(item_of(record, version, mark))
        };
        Request { action, condition, terms }
    }

    /// Whether this write made this item: its response was lost and the SDK sent it again.
    fn is_mine(&self, found: &Item, mark: &str) -> bool {
        let version = version_after(self.expect());
        version.is_some() && version_of(found) == version && text_of(found, WRITER) == Some(mark)
    }

    /// Reverses the assumption about the generation, once, if only that was wrong.
    fn reverse(&mut self, found: &Item) -> bool {
        let expected = self.url_over_version().map(|(_, version)| version);
        let reverses = !self.reversed && expected.is_some() && version_of(found) == expected;
        if reverses {
            self.reversed = true;
            self.new_generation = !self.new_generation;
        }
        reverses
    }
}

/// The version that a put makes; `None` if it is random.
fn version_after(expect: Expect) -> Option<u64> {
    match expect {
        Expect::Any => None,
        Expect::Absent => Some(1),
        Expect::Version(version) => Some(version.saturating_add(1)),
    }
}

/// Sets everything of a URL record except the counters, so that no outcome is lost.
fn all_but_counters(record: &Record, version: u64, mark: &str, terms: &mut Terms) -> String {
    let mut item = item_of(record, version, mark);
    let (mut sets, mut removes) = (Vec::new(), Vec::new());
    for name in [RECORD, VERSION, WRITER, STATE, SWEEP_SHARD, LOOK_AT, LIST_STATE, STATE_SORT] {
        match item.remove(name) {
            Some(value) => sets.push(terms.compare(name, "=", name, value)),
            None => removes.push(terms.name(name)),
        }
    }
    let mut change = format!("SET {}", sets.join(", "));
    if !removes.is_empty() {
        change = format!("{change} REMOVE {}", removes.join(", "));
    }
    change
}

fn check(writes: &[Write]) -> Result<(), Fault> {
    if writes.len() > MAX_WRITES {
        return Err(Fault::Invalid(format!("{} writes are more than {MAX_WRITES}", writes.len())));
    }
    let keys: HashSet<Key> = writes.iter().map(Write::key).collect();
    if keys.len() < writes.len() {
        return Err(Fault::Invalid("a transaction writes a key twice".to_owned()));
    }
    Ok(())
}

/// What to do after a refusal that is not final.
enum Next {
    /// It was made: only its response was lost.
    Done,
    Retry,
    RetryAfterPause,
}

impl DynamoStore {
    pub(super) async fn write_all(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        check(&writes).map_err(failed)?;
        let mut drafts: Vec<Draft> = writes.into_iter().map(|write| self.draft(write)).collect();
        let mark = self.random.mark();
        let mut tries = 0;
        loop {
            let requests = drafts.iter().map(|draft| draft.request(self.random.version(), &mark)).collect();
            let Err(refused) = send_all(requests, &self.client, &self.table).await else { break };
            match self.judge(&mut drafts, refused, &mark, tries)? {
                Next::Done => break,
                Next::Retry => {}
                Next::RetryAfterPause => {
                    self.random.pause(tries).await;
                    tries += 1;
                }
            }
        }
        for draft in drafts {
            // The stored counters may be ahead of the written ones, which is fine for a hint.
            if let Write::Put { record: Record::Url(url), expect } = draft.write
                && let Some(version) = version_after(expect)
            {
                self.hints.remember(&url, version);
            }
        }
        Ok(())
    }

    fn draft(&self, write: Write) -> Draft {
        let mut draft = Draft { write, new_generation: false, reversed: false };
        if let Some((url, version)) = draft.url_over_version() {
            let known = self.hints.get(&draft.write.key());
            draft.new_generation = known.is_some_and(|(known, known_version)| {
                known_version == version && known.health.generation != url.health.generation
            });
        }
        draft
    }

    fn judge(
        &self,
        drafts: &mut [Draft],
        mut refused: Vec<(usize, Refusal)>,
        mark: &str,
        tries: u32,
    ) -> Result<Next, WriteError> {
        // A failed condition is final, and the others may pass.
        refused.sort_by_key(|(_, refusal)| !matches!(refusal, Refusal::Condition(_)));
        let alone = drafts.len() == 1;
        let mut next = Next::Retry;
        for (place, refusal) in refused {
            let draft = &mut drafts[place];
            let key = draft.write.key();
            match refusal {
                Refusal::Condition(Some(found)) if alone && draft.is_mine(&found, mark) => {
                    return Ok(Next::Done);
                }
                Refusal::Condition(Some(found)) if draft.reverse(&found) => {}
                Refusal::Condition(found) => {
                    self.remember_found(&draft.write, found);
                    return Err(WriteError::Conflict(key));
                }
                Refusal::Busy if tries + 1 < MAX_BUSY_TRIES => next = Next::RetryAfterPause,
                Refusal::Throttled if tries + 1 < MAX_THROTTLED_TRIES => next = Next::RetryAfterPause,
                // Not a conflict: the condition was not checked.
                Refusal::Busy => return Err(failed(Fault::Contended(key))),
                Refusal::Throttled => return Err(failed(Fault::Throttled(key))),
                Refusal::Fault(fault) => return Err(failed(fault)),
            }
        }
        Ok(next)
    }

    fn remember_found(&self, write: &Write, found: Option<Item>) {
        if let (Write::Put { record: Record::Url(_), .. }, Some(found)) = (write, found)
            && let Ok(Some((url, version))) = read_url(found)
        {
            self.hints.remember(&url, version);
        }
    }
}

fn failed(fault: Fault) -> WriteError {
    WriteError::Store(fault.into())
}
