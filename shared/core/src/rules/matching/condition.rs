//! Filters as the index keeps them: fields by number, values parsed.

use std::cmp::Ordering;

use serde_json::Value;

use super::found::{Found, Wanted};
use super::paths::{Event, Paths, Slot};
use crate::rules::filter::{Filter, Op};

#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// `None` if the filter has no value: then only `ne` can pass.
    Compare(Slot, Op, Option<Wanted>),
    Contains(Slot, Option<Wanted>),
    Exists(Slot, bool),
    Changed(Slot, Slot),
}

/// The fields that a filter looks at.
pub(super) fn paths_of(filter: &Filter) -> Vec<String> {
    match filter.op {
        Op::Changed => ["oldState", "newState"].map(|state| format!("data.{state}.{}", filter.field)).into(),
        _ => vec![filter.field.clone()],
    }
}

impl Condition {
    pub(super) fn new(filter: &Filter, paths: &mut Paths) -> Condition {
        let slots: Vec<Slot> = paths_of(filter).iter().map(|path| paths.add(path)).collect();
        let wanted = || filter.value.clone().map(Wanted::new);
        match (filter.op, &slots[..]) {
            (_, &[old, new]) => Condition::Changed(old, new),
            // `value: false` asks for the opposite.
            (Op::Exists, &[slot, ..]) => Condition::Exists(slot, filter.value != Some(Value::Bool(false))),
            (Op::Contains, &[slot, ..]) => Condition::Contains(slot, wanted()),
            (op, &[slot, ..]) => Condition::Compare(slot, op, wanted()),
            (_, []) => unreachable!("every filter looks at a field"),
        }
    }

    /// Which value must stand where, if this is an equality with one that has a hash.
    pub(super) fn demand(&self) -> Option<(Slot, u64)> {
        match self {
            Condition::Compare(slot, Op::Eq, Some(wanted)) => Some((*slot, wanted.hash()?)),
            _ => None,
        }
    }

    /// The field that explains why it does not pass.
    pub(super) fn slot(&self) -> Slot {
        match self {
            Condition::Compare(slot, ..) | Condition::Contains(slot, _) | Condition::Exists(slot, _) => *slot,
            Condition::Changed(_, new) => *new,
        }
    }

    pub(super) fn passes(&self, event: &Event<'_>) -> bool {
        match self {
            Condition::Exists(slot, wanted) => event.get(*slot).is_some() == *wanted,
            Condition::Changed(old, new) => match (event.get(*old), event.get(*new)) {
                (Some(old), Some(new)) => !old.equals(new),
                (old, new) => old.is_some() != new.is_some(),
            },
            Condition::Contains(slot, wanted) => match (event.get(*slot), wanted) {
                (Some(found), Some(wanted)) => found.contains(wanted),
                _ => false,
            },
            Condition::Compare(slot, op, wanted) => {
                let (Some(found), Some(wanted)) = (event.get(*slot), wanted) else { return *op == Op::Ne };
                let order = found.compare(wanted);
                match op {
                    Op::Ne => order != Some(Ordering::Equal),
                    Op::Gt => order == Some(Ordering::Greater),
                    Op::Gte => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                    Op::Lt => order == Some(Ordering::Less),
                    Op::Lte => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    _ => order == Some(Ordering::Equal),
                }
            }
        }
    }

    /// How much work it is to ask, in comparisons of short values.
    pub(super) fn cost(&self, event: &Event<'_>) -> usize {
        let of = |slot| event.get(slot).map_or(1, Found::cost);
        match self {
            Condition::Contains(slot, _) => of(*slot),
            Condition::Changed(old, new) => of(*old) + of(*new),
            Condition::Compare(..) | Condition::Exists(..) => 1,
        }
    }
}
