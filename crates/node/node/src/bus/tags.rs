//! Tags of devices and points, on the bus.

use super::Callback;
use super::state::{Answer, Bus};
use crate::control::tags::{LiftBody, TagBody, TagDone, TagList, TagResult};
use crate::control::{Call, Done};
use bytes::Bytes;
use tieline_core::{Body, Now, Refusal, Topic};

/// Others are told of tags below this.
const TOLD: &str = "$control/tags";

impl Bus {
    /// What a tag on a topic holds for: devices, and points of other devices.
    #[must_use]
    pub fn selected_below(&self, topic: &str) -> Vec<Topic> {
        self.selected(&format!("{topic}/#"))
    }

    /// Whose a tag is, and its topic.
    #[must_use]
    pub fn tag_owner(&self, id: u64) -> Option<(String, Topic)> {
        let tag = self.commands().coordinator().tags().get(id)?;
        Some((tag.owner.to_string(), tag.topic.clone()))
    }

    /// Places a tag.
    pub fn place_tag(&mut self, now: Now, body: &TagBody, by: &Call, answer: Callback<TagResult>) {
        let asked = match body.read(by) {
            Ok(asked) => asked,
            Err(detail) => return answer(self, TagResult::malformed(detail)),
        };
        let topic = &asked.topic;
        let has_points = !self.selected_below(topic).is_empty();
        if !has_points && (asked.kind.blocks() || self.tree.get(topic).is_none()) {
            let what = if asked.kind.blocks() { "no device and no point that can be commanded" } else { "no topic" };
            let detail = format!("there is {what} at {topic} or below");
            return answer(self, TagResult::of(Err(Refusal::new("unknown_topic", detail))));
        }
        self.commands.place_tag(now, &asked, of_tag(now, answer));
        self.work.notify_one();
    }

    /// Lifts a tag.
    pub fn lift_tag(&mut self, now: Now, body: &LiftBody, by: &Call, answer: Callback<TagResult>) {
        self.commands.lift_tag(now, body.id, by, of_tag(now, answer));
        self.work.notify_one();
    }

    /// Tells others which tags are on a topic.
    fn tell_tags(&mut self, now: Now, topic: &Topic) {
        let here = |found: &str| found == topic.as_str();
        let list = TagList::of(self.commands().coordinator(), None, here);
        let Ok(told) = Topic::new(&format!("{TOLD}/{topic}")) else { return };
        let payload = serde_json::to_vec(&list).unwrap_or_default();
        self.apply_value(now, told, Body::Opaque(Bytes::from(payload)), false);
    }
}

fn of_tag(now: Now, answer: Callback<TagResult>) -> Answer {
    Box::new(move |bus, done| {
        if let Done::Tag(result) = done {
            if let Ok(TagDone { record, .. }) = &result {
                bus.tell_tags(now, &record.topic);
            }
            answer(bus, TagResult::of(result));
        }
    })
}
