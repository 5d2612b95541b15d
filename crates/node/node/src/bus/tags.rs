//! Tags of devices and points, on the bus.

use super::Callback;
use super::state::{Answer, Bus};
use crate::control::tags::{LiftBody, TagBody, TagDone, TagList, TagResult};
use crate::control::{Call, Done, is_own};
use bytes::Bytes;
use tieline_access::Verb;
use tieline_core::{Body, Now, Refusal, Topic};

/// Others are told of tags below this.
const TOLD: &str = "$control/tags";

impl Bus {
    /// What who places a tag on a topic must be allowed to do: at the topic, and at the devices and points that it holds for.
    #[must_use]
    pub fn rights_to_tag(&self, topic: &str) -> Vec<(Verb, String)> {
        self.rights_at(Verb::Command, topic)
    }

    /// What who lifts a tag must be allowed to do that is one of these holders; nothing where there is no such tag.
    #[must_use]
    pub fn rights_to_lift(&self, id: u64, own: &[&str]) -> Vec<(Verb, String)> {
        let Some(tag) = self.commands().coordinator().tags().get(id) else { return Vec::new() };
        let is_owner = own.iter().any(|own| is_own(own, &tag.owner));
        self.rights_at(if is_owner { Verb::Command } else { Verb::Admin }, &tag.topic)
    }

    fn rights_at(&self, verb: Verb, topic: &str) -> Vec<(Verb, String)> {
        let below = self.tagged_by(topic).into_iter().map(|topic| topic.to_string());
        below.chain([topic.to_owned()]).map(|topic| (verb, topic)).collect()
    }

    /// The devices that a tag on a topic holds for, and points of other devices.
    fn tagged_by(&self, topic: &str) -> Vec<Topic> {
        self.selected(&format!("{topic}/#"))
    }

    /// Places a tag.
    pub fn place_tag(&mut self, now: Now, body: &TagBody, by: &Call, answer: Callback<TagResult>) {
        let asked = match body.read(by) {
            Ok(asked) => asked,
            Err(detail) => return answer(self, TagResult::malformed(detail)),
        };
        let topic = &asked.topic;
        let has_points = !self.tagged_by(topic).is_empty();
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
