//! The fields that a tenant's filters look at, found in one walk through an event.
//!
//! The walk follows the event, not the filters: it descends only where some filter looks, and skips the rest. Each level is
//! scanned once, and nothing is parsed but what a filter asks for, so an event may hold numbers, texts or depths that cannot be
//! represented, and its other fields are still found.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::found::Found;
use super::search::take;
use super::segment_tree::Node;

/// A field, by number.
pub(super) type Slot = u32;

#[derive(Clone, Default)]
pub(super) struct Paths {
    root: Node<Used>,
    next: Slot,
    /// Numbers that are free again.
    free: Vec<Slot>,
}

#[derive(Clone)]
struct Used {
    slot: Slot,
    by: u32,
}

/// What an event has at the fields that filters look at.
#[derive(Default)]
pub(super) struct Event<'e>(HashMap<Slot, Found<'e>>);

impl<'e> Event<'e> {
    pub(super) fn get(&self, slot: Slot) -> Option<&Found<'e>> {
        self.0.get(&slot)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (Slot, &Found<'e>)> {
        self.0.iter().map(|(slot, found)| (*slot, found))
    }
}

impl Paths {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// The number of a field, for one more filter.
    pub(super) fn add(&mut self, path: &str) -> Slot {
        let Paths { root, next, free } = self;
        root.edit(path, |used| {
            let used = used.get_or_insert_with(|| {
                let slot = free.pop().unwrap_or_else(|| {
                    let slot = *next;
                    *next += 1;
                    slot
                });
                Used { slot, by: 0 }
            });
            used.by += 1;
            used.slot
        })
    }

    /// One filter less looks at this field.
    pub(super) fn remove(&mut self, path: &str) {
        let freed = self.root.edit(path, |used| {
            let last = used.as_mut().is_some_and(|used| {
                used.by -= 1;
                used.by == 0
            });
            if last { used.take() } else { None }
        });
        self.free.extend(freed.map(|used| used.slot));
    }

    /// A walk through this event, which finds the fields.
    pub(super) fn walk<'e>(&self, event: &'e [u8]) -> Walk<'_, 'e> {
        let whole = self.root.has_children().then_some((&self.root, event));
        Walk { whole, levels: Vec::new(), found: Event::default() }
    }
}

/// How many bytes are scanned in the time of a comparison of short values.
const BYTES_PER_WORK: usize = 64;

/// A walk through an event, one object or list at a time: a large event may have many that are nearly as large as itself.
#[derive(Default)]
pub(super) struct Walk<'t, 'e> {
    /// The event, until it was looked at.
    whole: Option<(&'t Node<Used>, &'e [u8])>,
    /// Objects and lists in which some filter looks.
    levels: Vec<(&'t Node<Used>, &'e RawValue)>,
    found: Event<'e>,
}

impl<'e> Walk<'_, 'e> {
    /// Goes on until the work is used up. `true`: the walk is over.
    pub(super) fn step(&mut self, work: &mut usize) -> bool {
        if let Some((root, event)) = self.whole.take() {
            take(work, event.len() / BYTES_PER_WORK);
            self.levels.extend(serde_json::from_slice(event).ok().map(|whole| (root, whole)));
        }
        while let Some((node, raw)) = self.levels.pop() {
            if *work == 0 {
                self.levels.push((node, raw));
                return false;
            }
            take(work, 1 + raw.get().len() / BYTES_PER_WORK);
            for (child, raw) in look_inside(node, raw) {
                if let Some(used) = &child.value {
                    self.found.0.insert(used.slot, Found::new(raw));
                }
                if child.has_children() {
                    self.levels.push((child, raw));
                }
            }
        }
        true
    }

    pub(super) fn found(self) -> Event<'e> {
        self.found
    }
}

/// What is in this object or list and some filter looks at.
fn look_inside<'t, 'e>(
    node: &'t Node<Used>,
    raw: &'e RawValue,
) -> impl Iterator<Item = (&'t Node<Used>, &'e RawValue)> {
    let text = raw.get();
    let mut inside = Inside { node, wanted: HashMap::new() };
    let read = match text.as_bytes().first() {
        Some(b'{') => serde_json::Deserializer::from_str(text).deserialize_map(&mut inside),
        Some(b'[') => serde_json::Deserializer::from_str(text).deserialize_seq(&mut inside),
        _ => Ok(()),
    };
    debug_assert!(read.is_ok(), "a posted event is valid JSON: {read:?}");
    inside.wanted.into_values()
}

/// One object or list, and what in it some filter looks at. Of keys that are given twice the last one counts.
struct Inside<'t, 'e> {
    node: &'t Node<Used>,
    wanted: HashMap<&'t str, (&'t Node<Used>, &'e RawValue)>,
}

impl<'e> Visitor<'e> for &mut Inside<'_, 'e> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'e>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(step) = map.next_key_seed(Step(self.node))? {
            match step {
                Some((segment, child)) => {
                    self.wanted.insert(segment, (child, map.next_value()?));
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'e>>(self, mut list: A) -> Result<(), A::Error> {
        let steps = self.node.children().filter_map(|(step, node)| Some((step.parse().ok()?, (step, node))));
        let mut steps: Vec<(usize, _)> = steps.collect();
        steps.sort_by_key(|(place, _)| *place);
        let mut place = 0;
        for (wanted, (step, node)) in steps {
            while place < wanted {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(());
                }
                place += 1;
            }
            // A place may be written in several ways, such as 1 and 01: the value is that of the first.
            if place == wanted {
                let Some(raw) = list.next_element()? else { return Ok(()) };
                place += 1;
                self.wanted.insert(step, (node, raw));
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// A key of an object, as the segment of a path. As bytes, because a key may hold half of a surrogate pair.
struct Step<'t>(&'t Node<Used>);

impl<'t, 'e> DeserializeSeed<'e> for Step<'t> {
    type Value = Option<(&'t str, &'t Node<Used>)>;

    fn deserialize<D: Deserializer<'e>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_bytes(self)
    }
}

impl<'t> Visitor<'_> for Step<'t> {
    type Value = Option<(&'t str, &'t Node<Used>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(std::str::from_utf8(key).ok().and_then(|key| self.0.child_with_name(key)))
    }
}
