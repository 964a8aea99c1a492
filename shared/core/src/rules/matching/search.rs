use std::sync::Arc;

use super::condition::Condition;
use super::leaf::Leaf;
use super::paths::{Event, Walk};
use super::segment_tree::{Node, split};
use super::{Member, STAR, SubscriptionIndex};
use crate::rules::event_type;
use crate::rules::filter::Connector;

/// A subscription may be found by each of its patterns. More candidates than this are made distinct while they are collected.
const MIN_COMPACTED: usize = 4_096;

/// A search for the subscriptions that want an event. It first follows the event's type through the tree, then collects those that may want
/// the event, and then asks each of them. It is done in steps, because patterns with many `*` have very many branches, and ten thousand
/// subscriptions may have fifty filters each.
pub struct Search<'i, 'e> {
    index: &'i SubscriptionIndex,
    body: &'e [u8],
    /// What is left of the tree, each with the rest of the event's type.
    branches: Vec<(&'i Node<Box<Leaf>>, &'e str)>,
    /// Those whose pattern matches the event's type, as far as they were found.
    leaves: Vec<&'i Leaf>,
    /// Leaves before this one have been collected.
    next_leaf: usize,
    /// While the event is looked into.
    walk: Option<Walk<'i, 'e>>,
    /// `None`: the event was not looked into yet.
    event: Option<Event<'e>>,
    /// In the order of their ids once all leaves were collected.
    pub(super) candidates: Vec<&'i Arc<Member>>,
    compact_at: usize,
    /// Candidates before this one have been asked.
    next: usize,
    matched: Vec<Arc<Member>>,
}

impl<'i, 'e> Search<'i, 'e> {
    pub(super) fn new(index: &'i SubscriptionIndex, event_type: &'e str, body: &'e [u8]) -> Search<'i, 'e> {
        let matches_all = event_type::matches(STAR, event_type);
        Search {
            index,
            body,
            branches: vec![(&index.types, event_type)],
            leaves: if matches_all { vec![&index.all] } else { Vec::new() },
            next_leaf: 0,
            walk: None,
            event: None,
            candidates: Vec::new(),
            compact_at: MIN_COMPACTED,
            next: 0,
            matched: Vec::new(),
        }
    }

    /// Goes on until the work is used up, which is counted in comparisons of short values. `true`: the search is over.
    pub fn step(&mut self, work: &mut usize) -> bool {
        self.follow_branches(work) && self.collect_candidates(work) && self.ask_candidates(work)
    }

    /// Whether filters have kept the event from every subscription that wants its type, once the search is over.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.matched.is_empty() && self.leaves.iter().any(|leaf| leaf.has_filters())
    }

    /// Those that select the event, in the order of their ids, once the search is over.
    #[must_use]
    pub fn matched(self) -> Vec<Arc<Member>> {
        debug_assert!(self.branches.is_empty() && self.next == self.candidates.len(), "the search is over");
        self.matched
    }

    fn follow_branches(&mut self, work: &mut usize) -> bool {
        while let Some((node, name)) = self.branches.pop() {
            if *work == 0 {
                self.branches.push((node, name));
                return false;
            }
            take(work, 2);
            let (first, others) = split(name);
            for child in [node.child(first), node.child(STAR)].into_iter().flatten() {
                match others {
                    Some(others) => self.branches.push((child, others)),
                    None => self.leaves.extend(child.value.as_deref()),
                }
            }
        }
        true
    }

    fn collect_candidates(&mut self, work: &mut usize) -> bool {
        if self.event.is_none() {
            // The body is only looked into if there are filters.
            let walk = self.walk.get_or_insert_with(|| {
                let has_filters = self.leaves.iter().any(|leaf| leaf.has_filters());
                if has_filters { self.index.paths.walk(self.body) } else { Walk::default() }
            });
            if !walk.step(work) {
                return false;
            }
        }
        let walk = &mut self.walk;
        let event = self.event.get_or_insert_with(|| walk.take().unwrap_or_default().found());
        if self.next_leaf == self.leaves.len() {
            return true;
        }
        while let Some(&leaf) = self.leaves.get(self.next_leaf) {
            if *work == 0 {
                return false;
            }
            let before = self.candidates.len();
            leaf.collect(event, &mut self.candidates);
            let fields = if leaf.has_values() { event.fields().count() } else { 0 };
            take(work, 1 + fields + (self.candidates.len() - before) / 4);
            self.next_leaf += 1;
            if self.candidates.len() > self.compact_at {
                take(work, self.candidates.len());
                compact(&mut self.candidates);
                self.compact_at = MIN_COMPACTED.max(2 * self.candidates.len());
            }
        }
        compact(&mut self.candidates);
        true
    }

    fn ask_candidates(&mut self, work: &mut usize) -> bool {
        let Some(event) = &self.event else { return false };
        while let Some(candidate) = self.candidates.get(self.next) {
            if *work == 0 {
                return false;
            }
            take(work, 1);
            let mut ask = |condition: &Condition| {
                take(work, condition.cost(event));
                condition.passes(event)
            };
            let passes = match candidate.connector {
                Connector::And => candidate.conditions.iter().all(&mut ask),
                Connector::Or => candidate.conditions.is_empty() || candidate.conditions.iter().any(&mut ask),
            };
            if passes {
                self.matched.push(Arc::clone(candidate));
            }
            self.next += 1;
        }
        true
    }
}

pub(super) fn take(work: &mut usize, done: usize) {
    *work = work.saturating_sub(done);
}

/// Distinct, in the order of their ids. Each leaf is in order, so this merges a few runs.
fn compact(candidates: &mut Vec<&Arc<Member>>) {
    candidates.sort_by(|a, b| a.id.cmp(&b.id));
    candidates.dedup_by(|a, b| a.id == b.id);
}
