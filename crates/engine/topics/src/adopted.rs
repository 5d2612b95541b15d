//! Versions of topics of another node: a tree that shows them counts its own, and tells those of the other.
//!
//! The own ones grow by one with each value, which is what deltas count by. The others are that node's words: they may leave some out,
//! fall after a restart there, or not be told at all.

use crate::{TopicId, Tree, View};

/// The version of a value at the node that its topic is of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Adopted {
    /// That version; 0 where the topic is of this node.
    there: u64,
    /// The version of the same value here.
    here: u64,
}

/// The other node does not tell it.
const UNTOLD: u64 = u64::MAX;

impl Tree {
    /// The topic's value has this version at the node that the topic is of; none where that does not tell. It holds until the
    /// value is removed.
    ///
    /// True where counting on from the value before does not lead to it.
    pub fn adopt(&mut self, topic: TopicId, version: Option<u64>) -> bool {
        let Some(here) = self.slot(topic).filter(|slot| slot.held.is_some()).map(|slot| slot.version) else {
            return false;
        };
        let at = place(topic);
        if self.adopted.len() <= at {
            self.adopted.resize(at + 1, Adopted::default());
        }
        let Some(adopted) = self.adopted.get_mut(at) else { return false };
        let after = Adopted { there: version.unwrap_or(UNTOLD), here };
        let before = core::mem::replace(adopted, after);
        let counts_on = match (before.there, after.there) {
            (0, _) => false,
            (UNTOLD, there) | (there, UNTOLD) => there == UNTOLD,
            (before_there, there) => there.wrapping_sub(before_there) == here.wrapping_sub(before.here),
        };
        !counts_on
    }

    /// The version of a value as it is told: at the node that the topic is of. None where that is not known.
    #[must_use]
    pub fn version_told(&self, view: &View<'_>) -> Option<u64> {
        match self.adopted.get(place(view.id)) {
            None | Some(Adopted { there: 0, .. }) => Some(view.version),
            Some(Adopted { there, .. }) => Some(*there).filter(|there| *there != UNTOLD),
        }
    }

    /// The topic has no value any more.
    pub(crate) fn disown(&mut self, id: u32) {
        if let Some(adopted) = self.adopted.get_mut(place(TopicId(id))) {
            *adopted = Adopted::default();
        }
    }
}

fn place(topic: TopicId) -> usize {
    usize::try_from(topic.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;
    use tieline_core::{Body, Now, Topic, Update};

    fn store(tree: &mut Tree, text: &str) -> TopicId {
        let update = Update { topic: Topic::new("a").unwrap(), body: Body::read(text.to_owned().into()) };
        tree.apply(Now::default(), update, true).unwrap().topic
    }

    fn told(tree: &Tree) -> Option<u64> {
        tree.get("a").and_then(|view| tree.version_told(&view))
    }

    /// Each value with its version there, and whether that is more than one more.
    #[test]
    fn the_version_of_another_node_is_told_until_the_value_is_removed() {
        let mut tree = Tree::new(Limits::default());
        let steps = [
            (Some(41), true),
            (Some(42), false),
            (Some(43), false),
            (Some(46), true),
            (Some(47), false),
            (Some(2), true),
            (None, true),
            (None, false),
            (Some(9), true),
        ];
        for (at, (version, is_leap)) in steps.into_iter().enumerate() {
            let id = store(&mut tree, &at.to_string());
            assert_eq!((tree.adopt(id, version), told(&tree)), (is_leap, version), "{at}");
            assert_eq!(tree.get("a").unwrap().version, u64::try_from(at).unwrap() + 1);
        }
        // A value of this node in between does not count there.
        let id = store(&mut tree, "away");
        assert!(told(&tree) == Some(9) && tree.adopt(id, Some(9)) && told(&tree) == Some(9));
        let id = store(&mut tree, "next");
        assert!(!tree.adopt(id, Some(10)));
        let id = store(&mut tree, "");
        assert!(!tree.adopt(id, Some(11)) && told(&tree).is_none());
        store(&mut tree, "own");
        assert_eq!(told(&tree), Some(13));
    }
}
