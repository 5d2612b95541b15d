//! Tags of devices and points.

use super::Coordinator;
use crate::Phase;
use crate::tags::{NewTag, TagRecord, Tags};
use alloc::format;
use alloc::sync::Arc;
use tieline_core::{Now, Refusal, Topic};

impl Coordinator {
    /// The tags.
    #[must_use]
    pub const fn tags(&self) -> &Tags {
        &self.grounds.tags
    }

    /// Places a tag. From now on no command goes out that it forbids; [`Coordinator::commands_out`] says how many are out.
    ///
    /// # Errors
    /// `queue_full`: there are as many as there may be, or too many entries wait to be written.
    pub fn place_tag(&mut self, now: Now, asked: &NewTag) -> Result<TagRecord, Refusal> {
        let max = self.limits.tags_max;
        if self.grounds.tags.len() >= max {
            return Err(Refusal::new("queue_full", format!("there are {max} tags, which is the limit")));
        }
        let waiting = self.entries.len();
        if waiting >= self.limits.entries_max {
            return Err(Refusal::new("queue_full", format!("{waiting} entries wait to be written")));
        }
        let record = self.grounds.tags.place(now.utc, asked);
        self.note_tag(now, Phase::TagPlaced, &asked.who, &record);
        self.settle(now);
        Ok(record)
    }

    /// Lifts a tag.
    ///
    /// # Errors
    /// `unknown_tag`: there is none of the number.
    pub fn lift_tag(&mut self, now: Now, id: u64, who: &Arc<str>) -> Result<TagRecord, Refusal> {
        let Some(record) = self.grounds.tags.lift(id) else {
            return Err(Refusal::new("unknown_tag", format!("there is no tag {id}")));
        };
        self.note_tag(now, Phase::TagLifted, who, &record);
        self.unblock_all(now);
        self.settle(now);
        Ok(record)
    }

    /// Places a tag again whose lifting was not written down: it holds until it is.
    pub fn put_tag_back(&mut self, now: Now, record: TagRecord, who: &Arc<str>) {
        self.note_tag(now, Phase::TagPlaced, who, &record);
        self.grounds.tags.put_back(record);
        self.settle(now);
    }

    /// How many commands are at the devices of a topic and below, without an outcome: a tag does not stop them.
    #[must_use]
    pub fn commands_out(&self, topic: &Topic) -> usize {
        let is_below =
            |name: &str| name.strip_prefix(topic.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_at = |point: &&crate::ControlPoint| is_below(&point.topic) || is_below(self.grounds.device_topic(point));
        self.control.out().filter(is_at).count()
    }

    fn note_tag(&mut self, now: Now, phase: Phase, who: &Arc<str>, record: &TagRecord) {
        let TagRecord { id, topic, kind, why, owner, .. } = record;
        let detail = format!("tag {id} of {owner}: {why}");
        self.note_of(now, phase, who, topic, kind.name(), &detail);
    }
}
