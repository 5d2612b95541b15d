//! Topics with a value in the order of the tree, and how many stand below each branch.
//!
//! The order is that of the levels: `/` sorts before every other character, so that all that stands below `a/b` is one
//! span, with `a/b` before it and `a/b-c` after it. In plain text order `a/b-c` would stand between them.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::ops::Bound;
use hashbrown::HashMap;
use tieline_core::Topic;

/// What a branch costs besides its path.
const BRANCH_BYTES: usize = 48;

/// A path compared level by level, borrowed or owned.
trait Path {
    fn path(&self) -> &str;
}

#[derive(Debug)]
struct Key(Topic);

impl Path for Key {
    fn path(&self) -> &str {
        &self.0
    }
}

impl Path for &str {
    fn path(&self) -> &str {
        self
    }
}

impl<'a> Borrow<dyn Path + 'a> for Key {
    fn borrow(&self) -> &(dyn Path + 'a) {
        self
    }
}

impl Ord for dyn Path + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.path(), other.path())
    }
}

impl PartialOrd for dyn Path + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Path + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for dyn Path + '_ {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        <dyn Path>::cmp(self, other)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Key {}

/// Topics that hold a value.
#[derive(Debug, Default)]
pub(crate) struct Order {
    topics: BTreeMap<Key, u32>,
    /// Path of each branch → topics with a value below it, itself not counted.
    branches: HashMap<Box<str>, u32>,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.topics.len()
    }

    /// Bytes that [`Order::insert`] will add.
    pub(crate) fn cost(&self, path: &str) -> usize {
        branches_of(path).filter(|branch| !self.branches.contains_key(*branch)).map(branch_bytes).sum()
    }

    pub(crate) fn insert(&mut self, topic: Topic, id: u32) {
        for branch in branches_of(&topic) {
            match self.branches.get_mut(branch) {
                Some(count) => *count += 1,
                None => {
                    self.branches.insert(branch.to_owned().into_boxed_str(), 1);
                }
            }
        }
        self.topics.insert(Key(topic), id);
    }

    /// Removes a topic that is here and returns the bytes that its last branches gave back.
    pub(crate) fn remove(&mut self, topic: &Topic) -> usize {
        self.topics.remove(&topic.as_str() as &dyn Path);
        let mut freed = 0;
        for branch in branches_of(topic) {
            let Some(count) = self.branches.get_mut(branch) else { continue };
            *count -= 1;
            if *count == 0 {
                self.branches.remove(branch);
                freed += branch_bytes(branch);
            }
        }
        freed
    }

    /// Topics with a value below `branch`.
    pub(crate) fn count_below(&self, branch: &str) -> u32 {
        self.branches.get(branch).copied().unwrap_or(0)
    }

    pub(crate) fn range<'a>(&'a self, from: Bound<&str>) -> impl Iterator<Item = (&'a Topic, u32)> + use<'a> {
        let path = match from {
            Bound::Included(path) | Bound::Excluded(path) => path,
            Bound::Unbounded => "",
        };
        let start: Bound<&dyn Path> =
            if matches!(from, Bound::Excluded(_)) { Bound::Excluded(&path) } else { Bound::Included(&path) };
        let range = self.topics.range::<dyn Path, _>((start, Bound::Unbounded));
        range.map(|(key, id)| (&key.0, *id))
    }

    /// The same backwards, from the last that is within `to`.
    pub(crate) fn range_back<'a>(&'a self, to: Bound<&str>) -> impl Iterator<Item = (&'a Topic, u32)> + use<'a> {
        let path = match to {
            Bound::Included(path) | Bound::Excluded(path) => path,
            Bound::Unbounded => "",
        };
        let end: Bound<&dyn Path> = match to {
            Bound::Included(_) => Bound::Included(&path),
            Bound::Excluded(_) => Bound::Excluded(&path),
            Bound::Unbounded => Bound::Unbounded,
        };
        let range = self.topics.range::<dyn Path, _>((Bound::Unbounded, end)).rev();
        range.map(|(key, id)| (&key.0, *id))
    }
}

/// The order of the tree. No path holds U+0000 (MQTT-1.5.4-2), so `/` may take its rank.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

fn branches_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

const fn branch_bytes(branch: &str) -> usize {
    BRANCH_BYTES + branch.len()
}
