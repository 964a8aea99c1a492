//! Patterns of event types as a tree of segments.

use std::collections::HashMap;

use super::leaf::Leaf;
use crate::rules::event_type;

/// Stands alone for all types, and in a pattern for any one segment.
const STAR: &str = "*";

#[derive(Clone, Default)]
pub(super) struct TypeTree {
    /// Of `*` alone, which means names of any length.
    all: Leaf,
    root: Node,
}

#[derive(Clone, Default)]
struct Node {
    literal: HashMap<String, Node>,
    star: Option<Box<Node>>,
    /// Of the patterns that end here.
    leaf: Leaf,
}

impl TypeTree {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.root.is_empty()
    }

    /// Changes the leaf of this pattern. Branches grow as they are needed, and go when nothing is left on them.
    pub(super) fn edit<T>(&mut self, pattern: &str, act: impl FnOnce(&mut Leaf) -> T) -> T {
        if pattern == STAR {
            return act(&mut self.all);
        }
        self.root.edit(Some(pattern), act)
    }

    /// Every leaf whose pattern matches this name.
    pub(super) fn visit<'a>(&'a self, name: &str, look: &mut impl FnMut(&'a Leaf)) {
        if event_type::matches(STAR, name) {
            look(&self.all);
        }
        self.root.visit(Some(name), look);
    }
}

/// The first segment, and the others if there are any.
fn split(dotted: &str) -> (&str, Option<&str>) {
    match dotted.split_once('.') {
        Some((first, others)) => (first, Some(others)),
        None => (dotted, None),
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.star.is_none() && self.leaf.is_empty()
    }

    fn edit<T>(&mut self, pattern: Option<&str>, act: impl FnOnce(&mut Leaf) -> T) -> T {
        let Some(pattern) = pattern else { return act(&mut self.leaf) };
        let (first, others) = split(pattern);
        if first == STAR {
            let node = self.star.get_or_insert_default();
            let answer = node.edit(others, act);
            if node.is_empty() {
                self.star = None;
            }
            return answer;
        }
        let node = self.literal.entry(first.to_owned()).or_default();
        let answer = node.edit(others, act);
        if node.is_empty() {
            self.literal.remove(first);
        }
        answer
    }

    fn visit<'a>(&'a self, name: Option<&str>, look: &mut impl FnMut(&'a Leaf)) {
        let Some(name) = name else { return look(&self.leaf) };
        let (first, others) = split(name);
        let branches = self.literal.get(first).into_iter().chain(self.star.as_deref());
        for node in branches {
            node.visit(others, look);
        }
    }
}
