//! Topics whose values have changed and that nobody waits for.

use std::collections::VecDeque;
use tieline_topics::TopicId;

/// Each topic once, in the order in which they changed first: never more than there are topics.
#[derive(Debug, Default)]
pub struct Lazy {
    /// By the topic's number, which the tree gives again when a topic has gone.
    known: Vec<State>,
    order: VecDeque<TopicId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    NotListed,
    /// In the order, and its value need not be written any more.
    Written,
    /// In the order.
    Due,
}

impl Lazy {
    /// A value has changed.
    pub fn insert(&mut self, topic: TopicId) {
        let at = topic.0 as usize;
        if at >= self.known.len() {
            self.known.resize(at + 1, State::NotListed);
        }
        if let Some(state) = self.known.get_mut(at)
            && std::mem::replace(state, State::Due) == State::NotListed
        {
            self.order.push_back(topic);
        }
    }

    /// The value need not be written any more.
    pub fn remove(&mut self, topic: TopicId) {
        if let Some(state) = self.known.get_mut(topic.0 as usize).filter(|state| **state == State::Due) {
            *state = State::Written;
        }
    }

    /// The next topic whose value is to be written.
    pub fn pop(&mut self) -> Option<TopicId> {
        while let Some(topic) = self.order.pop_front() {
            if self.known.get_mut(topic.0 as usize).map(std::mem::take) == Some(State::Due) {
                return Some(topic);
            }
        }
        None
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_stands_there_once_however_often_it_changes() {
        let [a, b, c] = [1, 2, 3].map(TopicId);
        let mut lazy = Lazy::default();
        for _ in 0..1000 {
            lazy.insert(a);
            lazy.insert(b);
            lazy.remove(a);
        }
        assert_eq!(lazy.order.len(), 2);
        lazy.insert(c);
        lazy.insert(a);
        assert_eq!(std::iter::from_fn(|| lazy.pop()).collect::<Vec<_>>(), [a, b, c]);
        lazy.insert(b);
        lazy.remove(b);
        assert_eq!((lazy.pop(), lazy.is_empty()), (None, true));
        lazy.insert(b);
        assert_eq!(lazy.pop(), Some(b));
    }
}
