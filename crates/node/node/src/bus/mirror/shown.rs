//! Which topics have values of the upstream, and whether these are known to be what is there.
//!
//! A value is kept with the number of doubts before it came: the link was lost, or removals were not told.

use tieline_core::Topic;
use tieline_topics::TopicId;

/// The topics, by their numbers.
#[derive(Debug, Default)]
pub struct ShownTopics {
    slots: Vec<Option<Shown>>,
    doubts: u32,
    topics: usize,
    /// Of these, topics whose value did not come since the last doubt.
    late: usize,
}

/// A value of the upstream.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Whose.
    pub topic: Topic,
    /// Doubts before it came.
    doubts: u32,
}

impl ShownTopics {
    /// How many there are, and of these, how many whose value did not come since the last doubt.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.topics, self.late)
    }

    /// Doubts so far.
    #[must_use]
    pub const fn doubts(&self) -> u32 {
        self.doubts
    }

    /// What is shown may not be what is there: what does not come again is not known to be.
    pub const fn doubt(&mut self) {
        self.doubts = self.doubts.wrapping_add(1);
        self.late = self.topics;
    }

    /// Whether a value did not come since the last doubt.
    #[must_use]
    pub const fn is_late(&self, shown: &Shown) -> bool {
        shown.doubts != self.doubts
    }

    /// Whether the topic has a value that came since the last doubt.
    #[must_use]
    pub fn is_known(&self, id: TopicId) -> bool {
        self.slots.get(place(id)).and_then(Option::as_ref).is_some_and(|shown| !self.is_late(shown))
    }

    /// A value of the upstream is the topic's.
    pub fn show(&mut self, id: TopicId, topic: &Topic) {
        let at = place(id);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
        }
        let doubts = self.doubts;
        let Some(slot) = self.slots.get_mut(at) else { return };
        match slot {
            Some(shown) if shown.topic == *topic => {
                self.late -= usize::from(shown.doubts != doubts && self.late > 0);
                shown.doubts = doubts;
            }
            Some(_) | None => {
                self.topics += usize::from(slot.is_none());
                *slot = Some(Shown { topic: topic.clone(), doubts });
            }
        }
    }

    /// Whether the topic is one of them.
    #[must_use]
    pub fn has(&self, id: TopicId, topic: &Topic) -> bool {
        self.slots.get(place(id)).and_then(Option::as_ref).is_some_and(|shown| shown.topic == *topic)
    }

    /// The topic has none any more.
    pub fn forget(&mut self, id: TopicId) {
        if let Some(shown) = self.slots.get_mut(place(id)).and_then(Option::take) {
            self.topics -= 1;
            self.late -= usize::from(shown.doubts != self.doubts && self.late > 0);
        }
    }

    /// Those of some numbers, from one on; where the next begin, if there are any.
    #[must_use]
    pub fn slice(&self, from: usize, count: usize) -> (Vec<(TopicId, Shown)>, Option<usize>) {
        let end = self.slots.len().min(from + count);
        let id = |at: usize| TopicId(u32::try_from(at).unwrap_or(u32::MAX));
        let some = (from..end).filter_map(|at| Some((id(at), self.slots.get(at)?.clone()?))).collect();
        (some, Some(end).filter(|end| *end < self.slots.len()))
    }
}

fn place(id: TopicId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}
