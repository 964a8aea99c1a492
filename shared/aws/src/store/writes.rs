//! Conditional writes.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast_core::ports::{Expect, MAX_WRITES, Write, WriteError};
use holdfast_core::records::{Key, Record, UrlRecord};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{
    GENERATION, Item, LIST_STATE, LOOK_AT, PK, RECORD, STATE, STATE_SORT, SWEEP_SHARD, VERSION, WRITER,
    fields_of, is_marked, item_of, read_url, state_entry, sweep_entry, version_of,
};
use super::request::{Action, Refusal, Request, transact};
use super::terms::Terms;
use super::values::{number, text};

/// How often a write is tried while another transaction writes the same record or the table is throttled.
const MAX_TRIES: u32 = 6;

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

    fn request(&self, version_if_any: u64, mark: &str) -> Request {
        let mut terms = Terms::default();
        let condition = condition(self.write_expect(), &mut terms);
        let action = match &self.write {
            Write::Delete { key, .. } => Action::Delete(key.clone()),
            Write::Put { record, expect } => {
                let version = match expect {
                    Expect::Any => version_if_any,
                    Expect::Absent => 1,
                    Expect::Version(version) => version.saturating_add(1),
                };
                if let Some((url, _)) = self.url_over_version() {
                    return self.url_request(record, url, version, mark, terms, condition);
                }
                Action::Put(item_of(record, version, mark))
            }
        };
        Request { action, condition, terms }
    }

    fn url_request(
        &self,
        record: &Record,
        url: &UrlRecord,
        version: u64,
        mark: &str,
        mut terms: Terms,
        condition: Option<String>,
    ) -> Request {
        let operator = if self.new_generation { "<>" } else { "=" };
        let generation = terms.compare(GENERATION, operator, "of_generation", number(url.health.generation));
        let condition = condition.map(|condition| format!("{condition} AND {generation}"));
        let action = if self.new_generation {
            Action::Put(item_of(record, version, mark))
        } else {
            let change = all_but_counters(record, url, version, mark, &mut terms);
            Action::Update { key: record.key(), change }
        };
        Request { action, condition, terms }
    }

    fn write_expect(&self) -> Expect {
        let (Write::Put { expect, .. } | Write::Delete { expect, .. }) = &self.write;
        *expect
    }

    /// Whether this write made this item: its response was lost and the SDK sent it again.
    fn is_mine(&self, found: &Item, mark: &str) -> bool {
        let version = match self.write_expect() {
            Expect::Any => return false,
            Expect::Absent => 1,
            Expect::Version(version) => version.saturating_add(1),
        };
        version_of(found) == Some(version) && is_marked(found, WRITER, mark)
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

fn condition(expect: Expect, terms: &mut Terms) -> Option<String> {
    match expect {
        Expect::Any => None,
        Expect::Absent => Some(terms.absent(PK)),
        Expect::Version(version) => Some(terms.compare(VERSION, "=", "of_version", number(version))),
    }
}

/// Sets everything of a URL record except the counters, so that no outcome is lost.
fn all_but_counters(record: &Record, url: &UrlRecord, version: u64, mark: &str, terms: &mut Terms) -> String {
    let (fields, _) = fields_of(record);
    let mut sets = vec![
        (RECORD.to_owned(), AttributeValue::M(fields)),
        (VERSION.to_owned(), number(version)),
        (WRITER.to_owned(), text(mark)),
        (STATE.to_owned(), text(url.health.state.as_str())),
    ];
    let mut removes = Vec::new();
    let entries = record.index_entries();
    match entries.look_at {
        Some(look_at) => sets.extend(sweep_entry(&record.key(), look_at)),
        None => removes.extend([SWEEP_SHARD, LOOK_AT]),
    }
    match entries.by_state {
        Some(entry) => sets.extend(state_entry(&record.key(), entry)),
        None => removes.extend([LIST_STATE, STATE_SORT]),
    }
    let sets: Vec<String> =
        sets.into_iter().map(|(name, value)| terms.compare(&name, "=", &name, value)).collect();
    let mut change = format!("SET {}", sets.join(", "));
    if !removes.is_empty() {
        let removes: Vec<String> = removes.into_iter().map(|name| terms.name(name)).collect();
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
        while let Err(refused) = self.send_drafts(&drafts, &mark).await {
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
            self.remember_written(draft.write);
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

    async fn send_drafts(&self, drafts: &[Draft], mark: &str) -> Result<(), Vec<(usize, Refusal)>> {
        let mut requests: Vec<Request> =
            drafts.iter().map(|draft| draft.request(self.random.version(), mark)).collect();
        match requests.len() {
            0 => Ok(()),
            1 => {
                let sent = requests.remove(0).send(&self.client, &self.table).await;
                sent.map(|_| ()).map_err(|refusal| vec![(0, refusal)])
            }
            _ => transact(requests, &self.client, &self.table).await,
        }
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
                Refusal::Busy | Refusal::Throttled if tries + 1 < MAX_TRIES => next = Next::RetryAfterPause,
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

    /// The stored counters may be ahead of the written ones, which is fine for a hint.
    fn remember_written(&self, write: Write) {
        let Write::Put { record: Record::Url(url), expect } = write else { return };
        match expect {
            Expect::Any => {}
            Expect::Absent => self.hints.remember(&url, 1),
            Expect::Version(version) => self.hints.remember(&url, version.saturating_add(1)),
        }
    }
}

fn failed(fault: Fault) -> WriteError {
    WriteError::Store(fault.into())
}
