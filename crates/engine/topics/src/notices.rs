//! Topics that come and go, for one subscriber: which, without their values.
//!
//! What waits is a set of topics, not a queue: one that comes and goes before the subscriber takes anything is not told at
//! all. The topics that a new subscriber is told of are read from the tree step by step. While it goes on, changes of
//! topics that it has not come to are none of the set: the walk will see what is so then.

use crate::order::compare;
use crate::{Snapshot, Tree};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use tieline_core::{Filter, Topic};

/// Topics that wait to be told; beyond them all are told again.
const WAITING_MAX: usize = 65_536;
/// Topics that were asked for and wait to be told; one more is not.
const MISSING_MAX: usize = 1024;
/// Topics of a walk that are read at a time.
const CHUNK: usize = 256;

/// Which topics are watched, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Which.
    pub filter: Filter,
    /// Whether it is told that they come.
    pub added: bool,
    /// Whether it is told that they go.
    pub removed: bool,
    /// Whether it is told that somebody asks for one that is not there.
    pub missing: bool,
}

/// Something to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Whatever was told before is void: the topics that there are follow.
    Anew,
    /// The topic is there; `first` in answer to a new watch, and after [`Notice::Anew`].
    Added {
        /// Which.
        topic: Topic,
        /// Whether it may have been there before.
        first: bool,
    },
    /// The topic has no value any more.
    Removed(Topic),
    /// Somebody asks for the topic, and it has no value.
    Missing(Topic),
}

/// What one subscriber is to be told.
#[derive(Debug, Default)]
pub struct Notices {
    watched: Vec<(Watch, Option<Walk>)>,
    /// Topics that have come (true) or gone (false) since they were told.
    waiting: BTreeMap<Topic, bool>,
    /// What walks have found.
    found: VecDeque<Topic>,
    is_anew: bool,
    /// Topics that somebody asked for.
    missing: BTreeSet<Topic>,
    /// Times that one of these was not told for want of room.
    untold: u64,
    /// Times that more waited than may.
    overruns: u64,
}

/// Topics that there are, being told.
#[derive(Debug)]
struct Walk {
    place: Snapshot,
    /// Whether all of them were told before.
    is_repeat: bool,
}

impl Notices {
    /// Watches topics, or changes what is told of them; where `walk`, those that there are come first. False when the
    /// same was watched before.
    pub fn watch(&mut self, watch: Watch, walk: bool) -> bool {
        let Some(at) = self.watched.iter().position(|(known, _)| *known == watch) else {
            let walk = if walk { Walk::of(&watch, false) } else { None };
            self.watched.push((watch, walk));
            return true;
        };
        match self.watched.get_mut(at) {
            // Some were told, and nobody knows which.
            Some((_, Some(_))) => self.restart(),
            Some((_, known)) if walk => *known = Walk::of(&watch, true),
            Some(_) | None => {}
        }
        false
    }

    /// Watches no longer; false when nothing was.
    pub fn unwatch(&mut self, watch: &Watch) -> bool {
        let before = self.watched.len();
        self.watched.retain(|(known, _)| known != watch);
        if self.watched.iter().any(|(_, walk)| walk.is_some()) {
            // It may have told of topics that the walks of others have not come to.
            self.restart();
        }
        self.watched.len() < before
    }

    /// How many filters are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.watched.len()
    }

    /// Whether nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Times that all had to be told again because too much waited.
    #[must_use]
    pub const fn overruns(&self) -> u64 {
        self.overruns
    }

    /// A topic has a value that had none (`added`), or has none any more.
    pub fn changed(&mut self, topic: &Topic, added: bool) {
        let concerns = |(watch, walk): &(Watch, Option<Walk>)| {
            (watch.added || watch.removed)
                && watch.filter.matches(topic)
                && walk.as_ref().is_none_or(|walk| walk.has_told(topic))
        };
        if !self.watched.iter().any(concerns) {
            return;
        }
        match self.waiting.get(topic) {
            // It is as it was told.
            Some(before) if *before != added => drop(self.waiting.remove(topic)),
            Some(_) => {}
            None if self.waiting.len() < WAITING_MAX => drop(self.waiting.insert(topic.clone(), added)),
            None => {
                self.overruns += 1;
                self.restart();
            }
        }
    }

    /// Somebody asks for a topic that has no value. It is told once, however often that is so until then.
    pub fn missed(&mut self, topic: &Topic) {
        if !self.watched.iter().any(|(watch, _)| watch.missing && watch.filter.matches(topic)) {
            return;
        }
        if self.missing.len() < MISSING_MAX {
            self.missing.insert(topic.clone());
        } else if !self.missing.contains(topic) {
            self.untold += 1;
        }
    }

    /// Topics that somebody asked for, and that were not told for want of room.
    #[must_use]
    pub const fn untold(&self) -> u64 {
        self.untold
    }

    /// Tells everything again: what was told may be lost.
    pub fn restart(&mut self) {
        self.waiting = BTreeMap::new();
        self.found = VecDeque::new();
        self.is_anew = self.watched.iter().any(|(watch, _)| watch.added || watch.removed);
        for (watch, walk) in &mut self.watched {
            *walk = Walk::of(watch, false);
        }
    }

    /// Whether there is something to be told.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let walks = self.watched.iter().any(|(_, walk)| walk.is_some());
        self.is_anew || walks || !self.found.is_empty() || !self.waiting.is_empty() || !self.missing.is_empty()
    }

    /// The next thing to be told. None where there is nothing, or where many topics had to be looked at in vain: ask
    /// [`Notices::has_work`].
    pub fn next(&mut self, tree: &Tree) -> Option<Notice> {
        if core::mem::take(&mut self.is_anew) {
            return Some(Notice::Anew);
        }
        if self.found.is_empty() {
            self.walk(tree);
        }
        if let Some(topic) = self.found.pop_front() {
            return Some(Notice::Added { topic, first: true });
        }
        while let Some((topic, added)) = self.waiting.pop_first() {
            let wanted = |(watch, _): &(Watch, _)| watch.filter.matches(&topic) && watch.wants(added);
            if self.watched.iter().any(wanted) {
                return Some(if added { Notice::Added { topic, first: false } } else { Notice::Removed(topic) });
            }
        }
        while let Some(topic) = self.missing.pop_first() {
            // It may be there by now.
            if tree.get(&topic).is_none() {
                return Some(Notice::Missing(topic));
            }
        }
        None
    }

    fn walk(&mut self, tree: &Tree) {
        let Some(walk) = self.watched.iter_mut().find_map(|(_, walk)| walk.as_mut()) else { return };
        for view in tree.next(&mut walk.place, CHUNK) {
            self.waiting.remove(view.topic);
            self.found.push_back(view.topic.clone());
        }
        for (_, walk) in &mut self.watched {
            walk.take_if(|walk| walk.place.is_done());
        }
    }
}

impl Watch {
    const fn wants(&self, added: bool) -> bool {
        if added { self.added } else { self.removed }
    }
}

impl Walk {
    fn of(watch: &Watch, is_repeat: bool) -> Option<Self> {
        watch.added.then(|| Self { place: Snapshot::new(watch.filter.clone()), is_repeat })
    }

    /// Whether a topic was told if there was one, so that its going is news.
    fn has_told(&self, topic: &str) -> bool {
        self.is_repeat || self.place.is_done() || self.place.place().is_some_and(|at| compare(topic, at).is_le())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use bytes::Bytes;
    use proptest::prelude::*;
    use tieline_core::{Body, Now, Update};

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32),
        Remove(u32),
        Take(usize),
        Watch(usize),
        Unwatch(usize),
        Restart,
    }

    const FILTERS: [&str; 4] = ["#", "a/#", "+/1", "a/2"];

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..12).prop_map(Step::Set),
            4 => (0u32..12).prop_map(Step::Remove),
            4 => (0usize..6).prop_map(Step::Take),
            2 => (0usize..4).prop_map(Step::Watch),
            1 => (0usize..4).prop_map(Step::Unwatch),
            1 => Just(Step::Restart),
        ]
    }

    fn topic(number: u32) -> Topic {
        Topic::new(["a/1", "a/2", "a/3", "b/1", "b/2", "a", "b", "c", "a/1/x", "a-b", "c/1", "$S/1"][number as usize])
            .unwrap()
    }

    fn watch(number: usize) -> Watch {
        Watch { filter: Filter::new(FILTERS[number]).unwrap(), added: true, removed: true, missing: false }
    }

    /// Takes what is to be told; the subscriber's picture of what there is.
    fn take(notices: &mut Notices, tree: &Tree, picture: &mut BTreeSet<Topic>, most: usize) {
        for _ in 0..most {
            match notices.next(tree) {
                Some(Notice::Anew) => picture.clear(),
                Some(Notice::Added { topic, first }) => assert!(picture.insert(topic) || first),
                Some(Notice::Removed(topic)) => assert!(picture.remove(&topic)),
                Some(Notice::Missing(topic)) => panic!("nobody asks for {topic}"),
                None if notices.has_work() => {}
                None => return,
            }
        }
    }

    proptest! {
        #[test]
        fn a_subscriber_knows_the_topics_that_there_are(steps in proptest::collection::vec(any_step(), 0..80)) {
            let (mut tree, mut notices) = (Tree::new(Limits::default()), Notices::default());
            let (mut picture, mut there, mut watched) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for step in steps.into_iter().chain([Step::Take(1000)]) {
                match step {
                    Step::Set(number) | Step::Remove(number) => {
                        let bytes = if matches!(step, Step::Set(_)) { &b"1"[..] } else { b"" };
                        let update = Update { topic: topic(number), body: Body::Opaque(Bytes::from_static(bytes)) };
                        let applied = tree.apply(Now::default(), update, true).unwrap();
                        if applied.is_new || applied.change == crate::Change::Cleared {
                            notices.changed(&topic(number), applied.is_new);
                        }
                        if bytes.is_empty() { there.remove(&topic(number)) } else { there.insert(topic(number)) };
                    }
                    Step::Take(most) => take(&mut notices, &tree, &mut picture, most),
                    Step::Watch(number) => {
                        watched.insert(number);
                        notices.watch(watch(number), true);
                    }
                    Step::Unwatch(number) => {
                        prop_assert_eq!(notices.unwatch(&watch(number)), watched.remove(&number));
                        // What was told by this filter alone is of no interest any more.
                        notices.restart();
                        if watched.is_empty() { picture.clear() }
                    }
                    Step::Restart => notices.restart(),
                }
            }
            let wanted = there.iter().filter(|topic| watched.iter().any(|number| watch(*number).filter.matches(topic)));
            prop_assert!(!notices.has_work() || watched.is_empty());
            prop_assert!(picture.iter().eq(wanted), "{picture:?} {there:?} {watched:?}");
        }
    }

    #[test]
    fn what_comes_and_goes_meanwhile_is_not_told_and_too_much_is_told_anew() {
        let (tree, mut notices) = (Tree::new(Limits::default()), Notices::default());
        notices.watch(watch(0), false);
        let numbered = |number: usize| Topic::new(&alloc::format!("n/{number}")).unwrap();
        for number in 0..WAITING_MAX {
            notices.changed(&numbered(number), true);
        }
        for number in 1..WAITING_MAX {
            notices.changed(&numbered(number), false);
        }
        assert_eq!(notices.next(&tree), Some(Notice::Added { topic: numbered(0), first: false }));
        assert_eq!((notices.next(&tree), notices.has_work()), (None, false));
        for number in 0..=WAITING_MAX {
            notices.changed(&numbered(number), true);
        }
        assert_eq!((notices.next(&tree), notices.overruns()), (Some(Notice::Anew), 1));
        assert_eq!((notices.next(&tree), notices.has_work()), (None, false));
    }

    #[test]
    fn a_topic_that_is_asked_for_is_told_once_unless_it_has_come() {
        let (mut tree, mut notices) = (Tree::new(Limits::default()), Notices::default());
        let topic = |name: &str| Topic::new(name).unwrap();
        notices.watch(Watch { filter: Filter::new("a/#").unwrap(), added: false, removed: false, missing: true }, true);
        assert!(!notices.has_work());
        for name in ["a/1", "a/2", "b/1", "a/1"] {
            notices.missed(&topic(name));
        }
        tree.apply(Now::default(), Update { topic: topic("a/2"), body: Body::read("1".into()) }, true).unwrap();
        notices.changed(&topic("a/2"), true);
        assert_eq!(notices.next(&tree), Some(Notice::Missing(topic("a/1"))));
        assert_eq!((notices.next(&tree), notices.has_work()), (None, false));
        for number in 0..=MISSING_MAX {
            notices.missed(&topic(&alloc::format!("a/b/{number}")));
        }
        assert_eq!(notices.untold(), 1);
        notices.restart();
        assert!(matches!(notices.next(&tree), Some(Notice::Missing(_))), "and not that all come again");
    }
}
