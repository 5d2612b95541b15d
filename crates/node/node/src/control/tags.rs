//! Tags: requests, answers and lists as JSON, and how they get onto the disk.

use super::Commands;
use super::called::{Call, Done, Undo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tieline_control::{Coordinator, NewTag, TagKind, TagRecord};
use tieline_core::{Now, Refusal, Topic};

/// Bytes of the reason of a tag.
const WHY_BYTES_MAX: usize = 1_024;

/// A tag to place.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TagRequest")]
pub struct TagBody {
    /// The topic of a device or a point, or one that devices and points are below
    pub topic: String,
    #[schemars(extend("enum" = ["hold", "do_not_operate", "note"]))]
    kind: String,
    /// Why, for people: 1 to 1024 bytes
    why: String,
    /// The name that the caller gives itself, as in a reservation
    #[serde(default)]
    pub requester: Option<String>,
}

impl TagBody {
    /// Reads it.
    ///
    /// # Errors
    /// One sentence: what was found, and what was expected.
    pub fn read(&self, by: &Call) -> Result<NewTag, String> {
        let Self { topic, kind, why, requester: _ } = self;
        let topic = Topic::new(topic).map_err(|error| format!("the topic {topic:?}: {error}"))?;
        let kind = TagKind::from_name(kind)
            .ok_or_else(|| format!("kind is {kind:?}, expected hold, do_not_operate or note"))?;
        let why = why.trim();
        if why.is_empty() || why.len() > WHY_BYTES_MAX || why.contains(char::is_control) {
            let found = why.len();
            return Err(format!("why has {found} bytes, expected 1 to {WHY_BYTES_MAX} in one line"));
        }
        Ok(NewTag { topic, kind, why: why.into(), owner: by.requester.clone(), who: by.who.clone() })
    }
}

/// A tag to lift.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LiftRequest")]
pub struct LiftBody {
    /// Its number
    pub id: u64,
    /// The name that the caller gives itself, as in a reservation
    #[serde(default)]
    pub requester: Option<String>,
}

/// A tag.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Tag")]
pub struct TagShown {
    /// Its number: no other tag of this node has had it
    id: u64,
    /// The device or point, or what devices and points are below
    topic: String,
    #[schemars(extend("enum" = ["hold", "do_not_operate", "note"]))]
    kind: &'static str,
    why: String,
    /// Whose it is
    owner: String,
    #[schemars(extend("format" = "date-time"))]
    placed: String,
    /// Whether the caller may lift it; where rights were asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    may_lift: Option<bool>,
}

impl TagShown {
    fn of(record: &TagRecord) -> Self {
        let TagRecord { id, topic, kind, why, owner, placed } = record;
        Self {
            id: *id,
            topic: topic.to_string(),
            kind: kind.name(),
            why: why.to_string(),
            owner: owner.to_string(),
            placed: placed.to_string(),
            may_lift: None,
        }
    }
}

/// Tags.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TagList {
    tags: Vec<TagShown>,
}

impl TagList {
    /// All on topics that may be seen; where a device or a point is named that may be seen, those that hold for it, whatever
    /// they are on: who commands it must know why that is refused.
    #[must_use]
    pub fn of(coordinator: &Coordinator, at: Option<&Topic>, may_see: impl Fn(&str) -> bool) -> Self {
        let tags = coordinator.tags();
        let tags = match at {
            None => tags.all().filter(|tag| may_see(&tag.topic)).map(TagShown::of).collect(),
            Some(at) if !may_see(at) => Vec::new(),
            Some(at) => {
                let device = coordinator.device_topic(at);
                let of_device = tags.of(device).filter(|_| device != at.as_str());
                let mut found: Vec<TagShown> = tags.of(at).chain(of_device).map(TagShown::of).collect();
                found.sort_by_key(|tag| tag.id);
                found.dedup_by_key(|tag| tag.id);
                found
            }
        };
        Self { tags }
    }

    /// The number of each, and whether the caller may lift it.
    pub fn rights(&mut self) -> impl Iterator<Item = (u64, &mut Option<bool>)> {
        self.tags.iter_mut().map(|tag| (tag.id, &mut tag.may_lift))
    }
}

/// What became of a request to place or to lift a tag.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TagResult {
    #[schemars(extend("enum" = ["success", "refused"]))]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<TagShown>,
    /// The commands that were at devices there when it was placed, without a result: a tag does not stop them
    #[serde(skip_serializing_if = "Option::is_none")]
    commands_out: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl TagResult {
    /// Of a request.
    #[must_use]
    pub fn of(result: Result<TagDone, Refusal>) -> Self {
        match result {
            Ok(TagDone { record, commands_out }) => {
                Self { status: "success", tag: Some(TagShown::of(&record)), commands_out, reason: None, detail: None }
            }
            Err(Refusal { reason, detail, .. }) => {
                Self { status: "refused", tag: None, commands_out: None, reason: Some(reason), detail: Some(detail) }
            }
        }
    }

    /// Of one that cannot be read.
    #[must_use]
    pub fn malformed(detail: String) -> Self {
        Self::of(Err(Refusal::new("malformed", detail)))
    }

    /// Why it was refused.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        self.reason
    }
}

/// A tag that was placed or lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagDone {
    /// The tag.
    pub record: TagRecord,
    /// The commands that were at devices there, where it was placed.
    pub commands_out: Option<usize>,
}

impl<A> Commands<A> {
    /// Places a tag; answered once it is on the disk. It holds at once.
    pub fn place_tag(&mut self, now: Now, asked: &NewTag, answer: A) {
        match self.coordinator.place_tag(now, asked) {
            Ok(record) => {
                let TagRecord { id, topic, kind, .. } = &record;
                tracing::info!(id, %topic, kind = kind.name(), who = &*asked.who, "a tag is placed");
                let undo = Undo::PlacedTag(record.id);
                let commands_out = Some(self.coordinator().commands_out(&record.topic));
                self.send(now, Some((answer, Done::Tag(Ok(TagDone { record, commands_out })), undo)));
            }
            Err(refusal) => self.done.push_back((answer, Done::Tag(Err(refusal)))),
        }
    }

    /// Lifts a tag; answered once that is on the disk.
    pub fn lift_tag(&mut self, now: Now, id: u64, by: &Call, answer: A) {
        match self.coordinator.lift_tag(now, id, &by.who) {
            Ok(record) => {
                tracing::info!(id, topic = %record.topic, who = &*by.who, "a tag is lifted");
                let undo = Undo::LiftedTag(record.clone());
                self.send(now, Some((answer, Done::Tag(Ok(TagDone { record, commands_out: None })), undo)));
            }
            Err(refusal) => self.done.push_back((answer, Done::Tag(Err(refusal)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::is_own;
    use super::*;

    #[test]
    fn a_tag_has_a_topic_a_kind_and_a_reason() {
        let by = Call { requester: "anna".into(), who: "http anna".into() };
        let read = |text: &str| serde_json::from_str::<TagBody>(text).unwrap().read(&by);
        let asked = read(r#"{"topic":"a/b","kind":"hold","why":" fuse "}"#).unwrap();
        assert_eq!((asked.kind, &*asked.why, &*asked.owner), (TagKind::Hold, "fuse", "anna"));
        assert!(read(r#"{"topic":"a/#","kind":"hold","why":"x"}"#).unwrap_err().starts_with("the topic"));
        assert!(read(r#"{"topic":"a","kind":"red","why":"x"}"#).unwrap_err().contains("expected hold"));
        for why in ["", "  ", "a\\nb", &"x".repeat(1_025)] {
            let found = read(&format!(r#"{{"topic":"a","kind":"note","why":"{why}"}}"#)).unwrap_err();
            assert!(found.contains("expected 1 to 1024 in one line"), "{found}");
        }
    }

    #[test]
    fn a_user_owns_the_tags_of_its_programs() {
        let all = [("anna", "anna"), ("anna", "anna/c1"), ("anna/c1", "anna"), ("ann", "anna"), ("bert", "anna")];
        assert_eq!(all.map(|(own, owner)| is_own(own, owner)), [true, true, false, false, false]);
    }
}
