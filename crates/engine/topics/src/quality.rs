//! How good the values are, in all and below each branch, kept up with the tree by the code that reads payloads.
//!
//! A topic counts for every branch above it, and never for itself: `a/b/c` counts for `a` and `a/b`. Topics whose first
//! level begins with `$` are the node's own and count for nothing. A grade that stays as it was costs one comparison; one
//! that changes costs a step a level.

use crate::TopicId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use slab::Slab;

/// How far a value may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grade {
    /// It may be used.
    Good,
    /// It may not be what the field shows.
    Uncertain,
    /// It must not be used.
    Bad,
    /// Its publisher says nothing of its quality.
    Unstated,
}

/// Values by grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Good ones.
    pub good: u32,
    /// Uncertain ones.
    pub uncertain: u32,
    /// Bad ones.
    pub bad: u32,
    /// Those of which nothing is said.
    pub unstated: u32,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.good + self.uncertain + self.bad + self.unstated
    }

    const fn of(&mut self, grade: Grade) -> &mut u32 {
        match grade {
            Grade::Good => &mut self.good,
            Grade::Uncertain => &mut self.uncertain,
            Grade::Bad => &mut self.bad,
            Grade::Unstated => &mut self.unstated,
        }
    }
}

/// What is counted.
#[derive(Debug)]
pub struct QualityCounts {
    /// By the topic's number: its grade and the branch that it stands in.
    leaves: Vec<Option<(Grade, u32)>>,
    /// The first is all topics.
    branches: Slab<Branch>,
    by_path: HashMap<Box<str>, u32>,
    /// Branches whose counts have changed, and those that are gone with the branch above them.
    changed: Vec<u32>,
    gone: Vec<(Box<str>, Box<str>)>,
}

#[derive(Debug)]
struct Branch {
    path: Box<str>,
    parent: u32,
    counts: Counts,
    children: HashSet<u32>,
    is_changed: bool,
}

/// All topics.
const ROOT: u32 = 0;

impl Default for QualityCounts {
    fn default() -> Self {
        let mut branches = Slab::new();
        branches.insert(Branch::new("", ROOT));
        Self { leaves: Vec::new(), branches, by_path: HashMap::new(), changed: Vec::new(), gone: Vec::new() }
    }
}

impl Branch {
    fn new(path: &str, parent: u32) -> Self {
        Self { path: path.into(), parent, counts: Counts::default(), children: HashSet::new(), is_changed: false }
    }
}

impl QualityCounts {
    /// The topic's value is of this grade.
    pub fn set(&mut self, topic: TopicId, path: &str, grade: Grade) {
        if path.starts_with('$') {
            return;
        }
        let at = topic.0 as usize;
        match self.leaves.get(at).copied().flatten() {
            Some((known, _)) if known == grade => {}
            Some((known, branch)) => {
                self.leaves[at] = Some((grade, branch));
                self.count(branch, Some(known), Some(grade));
            }
            None => {
                let branch = path.rsplit_once('/').map_or(ROOT, |(above, _)| self.find_or_insert(above));
                if self.leaves.len() <= at {
                    self.leaves.resize(at + 1, None);
                }
                self.leaves[at] = Some((grade, branch));
                self.count(branch, None, Some(grade));
            }
        }
    }

    /// The topic has no value, or is not to be counted.
    pub fn remove(&mut self, topic: TopicId) {
        let Some((known, branch)) = self.leaves.get_mut(topic.0 as usize).and_then(Option::take) else { return };
        self.count(branch, Some(known), None);
        self.prune(branch);
    }

    /// The grade that a topic is counted with.
    #[must_use]
    pub fn grade(&self, topic: TopicId) -> Option<Grade> {
        self.leaves.get(topic.0 as usize).copied().flatten().map(|(grade, _)| grade)
    }

    /// Of all topics.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.branches.get(ROOT as usize).map_or(Counts::default(), |root| root.counts)
    }

    /// Of the topics below a branch; zeros where it is none.
    #[must_use]
    pub fn below(&self, path: &str) -> Counts {
        let branch = self.by_path.get(path).and_then(|id| self.branches.get(*id as usize));
        branch.map_or(Counts::default(), |branch| branch.counts)
    }

    /// The branches directly below one; `""` is the first level.
    pub fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        let id = if path.is_empty() { Some(ROOT) } else { self.by_path.get(path).copied() };
        let branch = id.and_then(|id| self.branches.get(id as usize));
        let ids = branch.into_iter().flat_map(|branch| branch.children.iter());
        ids.filter_map(|id| self.branches.get(*id as usize)).map(|child| &*child.path)
    }

    /// Some of all branches, from a place on, and where the next begin; none behind the last.
    #[must_use]
    pub fn branches(&self, from: usize, count: usize) -> (Vec<&str>, Option<usize>) {
        let end = from.saturating_add(count).min(self.branches.capacity());
        let some = (from.max(1)..end).filter_map(|at| self.branches.get(at)).map(|branch| &*branch.path);
        (some.collect(), (end < self.branches.capacity()).then_some(end))
    }

    /// Tells each branch whose counts have changed since the last call, and the branch that it stands in.
    pub fn take_changes(&mut self, mut tell: impl FnMut(&str, &str)) {
        for (path, above) in self.gone.drain(..) {
            tell(&path, &above);
        }
        for id in core::mem::take(&mut self.changed) {
            let Some(branch) = self.branches.get_mut(id as usize).filter(|branch| branch.is_changed) else { continue };
            branch.is_changed = false;
            let parent = branch.parent;
            if let (Some(branch), Some(above)) = (self.branches.get(id as usize), self.branches.get(parent as usize)) {
                tell(&branch.path, &above.path);
            }
        }
    }

    fn count(&mut self, mut at: u32, before: Option<Grade>, after: Option<Grade>) {
        while let Some(branch) = self.branches.get_mut(at as usize) {
            if let Some(before) = before {
                *branch.counts.of(before) -= 1;
            }
            if let Some(after) = after {
                *branch.counts.of(after) += 1;
            }
            if at == ROOT {
                return;
            }
            if !core::mem::replace(&mut branch.is_changed, true) {
                self.changed.push(at);
            }
            at = branch.parent;
        }
    }

    fn find_or_insert(&mut self, path: &str) -> u32 {
        if let Some(id) = self.by_path.get(path) {
            return *id;
        }
        let parent = path.rsplit_once('/').map_or(ROOT, |(above, _)| self.find_or_insert(above));
        // Limits of the tree keep the number of topics, and so of branches, below 2^32.
        let id = u32::try_from(self.branches.insert(Branch::new(path, parent))).unwrap_or(ROOT);
        self.by_path.insert(path.into(), id);
        if let Some(above) = self.branches.get_mut(parent as usize) {
            above.children.insert(id);
        }
        id
    }

    /// Removes a branch that nothing is below, and those above it that are empty by that.
    fn prune(&mut self, mut at: u32) {
        while at != ROOT && self.branches.get(at as usize).is_some_and(|branch| branch.counts.total() == 0) {
            let Some(branch) = self.branches.try_remove(at as usize) else { return };
            self.by_path.remove(&branch.path);
            let Some(above) = self.branches.get_mut(branch.parent as usize) else { return };
            above.children.remove(&at);
            self.gone.push((branch.path, above.path.clone()));
            at = branch.parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::string::{String, ToString};
    use proptest::prelude::*;

    const PATHS: [&str; 9] = ["a", "a/b", "a/b/c", "a/b/d", "a/e", "f/g/h", "/x", "f/g", "$SYS/x/y"];
    const GRADES: [Grade; 4] = [Grade::Good, Grade::Uncertain, Grade::Bad, Grade::Unstated];

    /// Counted again from all topics.
    fn model(topics: &BTreeMap<usize, Grade>, below: Option<&str>) -> Counts {
        let mut counts = Counts::default();
        for (at, grade) in topics {
            let path = PATHS[*at];
            let is_in = below.is_none_or(|branch| path.strip_prefix(branch).is_some_and(|rest| rest.starts_with('/')));
            if is_in && !path.starts_with('$') {
                *counts.of(*grade) += 1;
            }
        }
        counts
    }

    fn branches_of(topics: &BTreeMap<usize, Grade>) -> BTreeSet<String> {
        let counted = topics.keys().map(|at| PATHS[*at]).filter(|path| !path.starts_with('$'));
        let above = |path: &'static str| path.match_indices('/').map(|(end, _)| path[..end].to_string());
        counted.flat_map(above).collect()
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_count_anew(steps in prop::collection::vec((0..PATHS.len(), 0..5_usize), 0..60)) {
            let (mut counts, mut topics) = (QualityCounts::default(), BTreeMap::new());
            let mut told: BTreeMap<String, Counts> = BTreeMap::new();
            for (at, step) in steps {
                let id = TopicId(u32::try_from(at).unwrap());
                match GRADES.get(step) {
                    Some(grade) => {
                        topics.insert(at, *grade);
                        counts.set(id, PATHS[at], *grade);
                    }
                    None => {
                        topics.remove(&at);
                        counts.remove(id);
                    }
                }
                if step % 2 == 0 {
                    // A reader that is told changes alone knows all.
                    let mut changed = Vec::new();
                    counts.take_changes(|path, above| changed.push((path.to_string(), above.to_string())));
                    for (path, above) in changed {
                        prop_assert_eq!(path.rsplit_once('/').map_or("", |(above, _)| above), above);
                        match counts.below(&path) {
                            none if none.total() == 0 => drop(told.remove(&path)),
                            some => drop(told.insert(path, some)),
                        }
                    }
                    let expect: BTreeMap<String, Counts> =
                        branches_of(&topics).into_iter().map(|path| (path.clone(), model(&topics, Some(&path)))).collect();
                    prop_assert_eq!(&told, &expect);
                }
                prop_assert_eq!(counts.total(), model(&topics, None));
                let (all, next) = counts.branches(0, 1000);
                prop_assert_eq!(next, None);
                let all: BTreeSet<String> = all.into_iter().map(ToString::to_string).collect();
                prop_assert_eq!(&all, &branches_of(&topics));
                for path in all {
                    prop_assert_eq!(counts.below(&path), model(&topics, Some(&path)));
                }
                let first: BTreeSet<&str> = counts.children("a").collect();
                prop_assert_eq!(first.contains("a/b"), branches_of(&topics).contains("a/b"));
            }
        }
    }
}
