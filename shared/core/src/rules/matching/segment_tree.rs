//! A tree whose edges are the segments of dotted names. It is compact where names are long: a node with one child, as most of them
//! are, needs no table.

use std::collections::HashMap;

#[derive(Clone)]
pub(super) struct Node<T> {
    children: Children<T>,
    /// Of the name that ends here.
    pub(super) value: Option<T>,
}

#[derive(Clone)]
enum Children<T> {
    None,
    One(Box<(Box<str>, Node<T>)>),
    #[expect(clippy::box_collection, reason = "most nodes have no table, and should not be as large as one")]
    Many(Box<HashMap<Box<str>, Node<T>>>),
}

impl<T> Default for Node<T> {
    fn default() -> Node<T> {
        Node { children: Children::None, value: None }
    }
}

/// The first segment, and the others if there are any.
pub(super) fn split(dotted: &str) -> (&str, Option<&str>) {
    match dotted.split_once('.') {
        Some((first, others)) => (first, Some(others)),
        None => (dotted, None),
    }
}

impl<T> Node<T> {
    pub(super) fn has_children(&self) -> bool {
        !matches!(self.children, Children::None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.value.is_none() && !self.has_children()
    }

    pub(super) fn child(&self, segment: &str) -> Option<&Node<T>> {
        self.child_with_name(segment).map(|(_, child)| child)
    }

    /// With the segment as the tree has it.
    pub(super) fn child_with_name(&self, segment: &str) -> Option<(&str, &Node<T>)> {
        match &self.children {
            Children::None => None,
            Children::One(only) => (*only.0 == *segment).then_some((&*only.0, &only.1)),
            Children::Many(all) => all.get_key_value(segment).map(|(name, child)| (&**name, child)),
        }
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&str, &Node<T>)> {
        let (one, many) = match &self.children {
            Children::None => (None, None),
            Children::One(only) => (Some((&*only.0, &only.1)), None),
            Children::Many(all) => (None, Some(all.iter().map(|(segment, node)| (&**segment, node)))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Changes the value of this name. Branches grow as they are needed, and go when nothing is left on them.
    pub(super) fn edit<R>(&mut self, name: &str, act: impl FnOnce(&mut Option<T>) -> R) -> R {
        let (first, others) = split(name);
        let child = self.child_mut(first);
        let result = match others {
            Some(others) => child.edit(others, act),
            None => act(&mut child.value),
        };
        if child.is_empty() {
            self.remove(first);
        }
        result
    }

    fn child_mut(&mut self, segment: &str) -> &mut Node<T> {
        if let Children::One(only) = &mut self.children
            && *only.0 != *segment
        {
            let (other, node) = *std::mem::replace(only, Box::new((Box::default(), Node::default())));
            self.children = Children::Many(Box::new(HashMap::from([(other, node)])));
        }
        if !self.has_children() {
            self.children = Children::One(Box::new((segment.into(), Node::default())));
        }
        match &mut self.children {
            Children::One(only) => &mut only.1,
            Children::Many(all) => {
                // Without a copy of the segment, if it is there.
                if !all.contains_key(segment) {
                    all.insert(segment.into(), Node::default());
                }
                all.get_mut(segment).expect("it was inserted")
            }
            Children::None => unreachable!("a child was made"),
        }
    }

    fn remove(&mut self, segment: &str) {
        let Children::Many(all) = &mut self.children else {
            self.children = Children::None;
            return;
        };
        all.remove(segment);
        if all.len() == 1 {
            let last = all.drain().next();
            self.children = last.map_or(Children::None, |last| Children::One(Box::new(last)));
        }
    }
}
