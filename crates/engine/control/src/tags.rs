//! Tags: what a person places on a device, a point, or all that is below a topic, so that it is not operated.

use crate::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use tieline_core::{Refusal, Timestamp, Topic};

/// What a tag forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagKind {
    /// Only its owner commands.
    Hold,
    /// Nobody commands, and nothing is reverted.
    DoNotOperate,
    /// Nothing: it tells others something.
    Note,
}

impl TagKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hold, Self::DoNotOperate, Self::Note];

    /// The word in requests, answers and the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::DoNotOperate => "do_not_operate",
            Self::Note => "note",
        }
    }

    /// The kind of a word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether any command is refused because of it.
    #[must_use]
    pub const fn blocks(self) -> bool {
        matches!(self, Self::Hold | Self::DoNotOperate)
    }
}

/// A tag to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTag {
    /// A device, a point, or what both are below.
    pub topic: Topic,
    /// What it forbids.
    pub kind: TagKind,
    /// Why, for people.
    pub why: Arc<str>,
    /// Whose it is: the requester whom a hold lets command.
    pub owner: Arc<str>,
    /// Who asks, for the audit log.
    pub who: Arc<str>,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRecord {
    /// Its number, which no other tag of the node has had.
    pub id: u64,
    /// A device, a point, or what both are below.
    pub topic: Topic,
    /// What it forbids.
    pub kind: TagKind,
    /// Why, for people.
    pub why: Arc<str>,
    /// Whose it is.
    pub owner: Arc<str>,
    /// When it was placed.
    pub placed: Timestamp,
}

impl TagRecord {
    /// The refusal of a command, or of a revert, because of this tag.
    pub(crate) fn refusal(&self) -> Refusal {
        let Self { id, topic, kind, why, owner, placed } = self;
        let kind = kind.name();
        Refusal::new("tagged", format!("{topic} has the {kind} tag {id} of {owner} since {placed}: {why}"))
    }

    /// Whether the requester of a command is refused; without one it is a revert by the node.
    fn stops(&self, requester: Option<&str>) -> bool {
        match self.kind {
            TagKind::Hold => requester.is_none_or(|requester| *requester != *self.owner),
            TagKind::DoNotOperate => true,
            TagKind::Note => false,
        }
    }
}

/// All tags.
#[derive(Debug, Default)]
pub struct Tags {
    by_id: BTreeMap<u64, TagRecord>,
    by_topic: HashMap<Topic, Vec<u64>>,
    /// The highest number that a tag has had.
    last: u64,
    entries: VecDeque<Entry>,
}

impl Tags {
    pub(crate) fn place(&mut self, placed: Timestamp, asked: &NewTag) -> TagRecord {
        let NewTag { topic, kind, why, owner, who: _ } = asked.clone();
        let record = TagRecord { id: self.last + 1, topic, kind, why, owner, placed };
        self.put(record.clone());
        self.entries.push_back(Entry::Tag(record.clone()));
        record
    }

    /// Lifts a tag; none where there is none of the number.
    pub(crate) fn lift(&mut self, id: u64) -> Option<TagRecord> {
        let record = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_topic.get_mut(&record.topic) {
            ids.retain(|of| *of != id);
            if ids.is_empty() {
                self.by_topic.remove(&record.topic);
            }
        }
        self.entries.push_back(Entry::TagLifted { id });
        Some(record)
    }

    /// Places a tag again whose lifting was not written down.
    pub(crate) fn put_back(&mut self, record: TagRecord) {
        self.entries.push_back(Entry::Tag(record.clone()));
        self.put(record);
    }

    pub(crate) fn restore(&mut self, records: impl IntoIterator<Item = TagRecord>, last: u64) {
        records.into_iter().for_each(|record| self.put(record));
        self.last = self.last.max(last);
    }

    fn put(&mut self, record: TagRecord) {
        self.last = self.last.max(record.id);
        self.by_topic.entry(record.topic.clone()).or_default().push(record.id);
        self.by_id.insert(record.id, record);
    }

    pub(crate) fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// What must outlive a restart. The highest number is among it, so that none is used twice.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = Entry> {
        let is_lifted = self.last > 0 && !self.by_id.contains_key(&self.last);
        let last = is_lifted.then_some(Entry::TagLifted { id: self.last });
        last.into_iter().chain(self.by_id.values().cloned().map(Entry::Tag))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All, by their numbers.
    pub fn all(&self) -> impl Iterator<Item = &TagRecord> {
        self.by_id.values()
    }

    /// The tag of a number.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&TagRecord> {
        self.by_id.get(&id)
    }

    /// The tags that hold for a topic: its own, and those of what it is below.
    pub fn of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a TagRecord> {
        let above = |topic: &&'a str| topic.rsplit_once('/').map(|(above, _)| above);
        let levels = core::iter::successors(Some(topic).filter(|_| !self.is_empty()), above);
        levels.filter_map(|level| self.by_topic.get(level)).flatten().filter_map(|id| self.by_id.get(id))
    }

    /// Whether a point may be commanded, by the tags of its device and its own; without a requester, whether the node may
    /// revert it.
    pub(crate) fn check(&self, device: &str, point: &str, requester: Option<&str>) -> Result<(), Refusal> {
        let mut tags = self.of(point).chain(self.of(device));
        tags.find(|tag| tag.stops(requester)).map_or(Ok(()), |tag| Err(tag.refusal()))
    }
}
