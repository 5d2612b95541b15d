//! What control keeps over restarts: reservations, held points, overrides, tags, and whose MQTT sessions holders have.
//!
//! The file `control.jsonl` in the data folder has a record a line. A record replaces earlier ones of the same task, point,
//! pattern or tag. Records are appended and synced before the command or the answer goes out that they are of; the file is
//! rewritten when it has grown far beyond what it says, and at each start.
//!
//! ```text
//! {"task":"night","requester":"anna","priority":"LOW","slots":[["site/ahu","2026-…Z","2026-…Z"]]}   reserved
//! {"held":"site/ahu/fan","requester":"anna","task":"night","revert_to":false}                        commanded
//! {"released":"site/ahu/fan"}   {"ended":"night"}                                                    over
//! {"override":"site/#","until":"2026-…Z","who":"http 127.0.0.1:4711 anna"}   {"override_ended":"site/#"}
//! {"tag":7,"topic":"site/ahu","kind":"hold","why":"fuse","owner":"anna","placed":"2026-…Z"}   {"tag_lifted":7}
//! {"session":"client-7","requester":"anna"}                                                          of MQTT
//! ```
//!
//! `revert_to` null relinquishes. A reservation with a lease has `lease_ms`, which begins again at a start.

mod file;

pub use file::{StateChange, StateFile, load};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;
use tieline_control::{
    Entry, HoldRecord, OverrideRecord, Owner, Pattern, Priority, Slot, TagKind, TagRecord, TaskRecord,
};
use tieline_core::{Timestamp, Topic};

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// What the engine keeps.
    Engine(Entry),
    /// A holder ends with the session of an MQTT client.
    Session {
        /// The client's identifier.
        client: Arc<str>,
        /// The holder.
        requester: Arc<str>,
    },
}

/// A record as its line has it: the member that comes first says which it is.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Line {
    Task {
        task: String,
        requester: String,
        priority: String,
        slots: Vec<(String, String, String)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_end: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_ms: Option<u64>,
    },
    Held {
        held: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requester: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        revert_to: Json,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failsafe: bool,
    },
    Released {
        released: String,
    },
    Ended {
        ended: String,
    },
    Override {
        r#override: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
        who: String,
    },
    OverrideEnded {
        override_ended: String,
    },
    Tag {
        tag: u64,
        topic: String,
        kind: String,
        why: String,
        owner: String,
        placed: String,
    },
    TagLifted {
        tag_lifted: u64,
    },
    Session {
        session: String,
        requester: String,
    },
}

/// A record as a line, with its end.
pub(super) fn write(record: &Record, text: &mut Vec<u8>) {
    let line = match record {
        Record::Engine(Entry::Task(TaskRecord { owner, priority, slots, grace_end, lease })) => Line::Task {
            task: owner.task.to_string(),
            requester: owner.requester.to_string(),
            priority: priority.name().to_owned(),
            slots: slots.iter().map(|slot| (slot.device.to_string(), text_of(slot.start), text_of(slot.end))).collect(),
            grace_end: grace_end.map(text_of),
            lease_ms: lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        },
        Record::Engine(Entry::TaskEnded { task }) => Line::Ended { ended: task.to_string() },
        Record::Engine(Entry::Held(HoldRecord { topic, owner, revert_to, is_failsafe })) => Line::Held {
            held: topic.to_string(),
            requester: owner.as_ref().map(|owner| owner.requester.to_string()),
            task: owner.as_ref().map(|owner| owner.task.to_string()),
            revert_to: revert_to.as_ref().map_or(Json::Null, super::command::to_json),
            failsafe: *is_failsafe,
        },
        Record::Engine(Entry::Released { topic }) => Line::Released { released: topic.to_string() },
        Record::Engine(Entry::Override(OverrideRecord { pattern, end, who })) => {
            Line::Override { r#override: pattern.as_str().to_owned(), until: end.map(text_of), who: who.to_string() }
        }
        Record::Engine(Entry::OverrideEnded { pattern }) => {
            Line::OverrideEnded { override_ended: pattern.as_str().to_owned() }
        }
        Record::Engine(Entry::Tag(TagRecord { id, topic, kind, why, owner, placed })) => Line::Tag {
            tag: *id,
            topic: topic.to_string(),
            kind: kind.name().to_owned(),
            why: why.to_string(),
            owner: owner.to_string(),
            placed: text_of(*placed),
        },
        Record::Engine(Entry::TagLifted { id }) => Line::TagLifted { tag_lifted: *id },
        Record::Session { client, requester } => {
            Line::Session { session: client.to_string(), requester: requester.to_string() }
        }
    };
    // Texts and numbers can be written.
    if serde_json::to_writer(&mut *text, &line).is_ok() {
        text.push(b'\n');
    }
}

fn text_of(time: Timestamp) -> String {
    time.to_string()
}

/// The record of a line; none where it is none.
fn read(line: &[u8]) -> Option<Record> {
    let entry = match serde_json::from_slice(line).ok()? {
        Line::Task { task, requester, priority, slots, grace_end, lease_ms } => {
            let slot = |(device, start, end): (String, String, String)| {
                Some(Slot { device: Topic::new(&device).ok()?, start: start.parse().ok()?, end: end.parse().ok()? })
            };
            let owner = Owner { requester: requester.into(), task: task.into() };
            let slots = slots.into_iter().map(slot).collect::<Option<Vec<Slot>>>()?;
            let grace_end = grace_end.map(|end| end.parse()).transpose().ok()?;
            let (priority, lease) = (Priority::from_name(&priority)?, lease_ms.map(Duration::from_millis));
            Entry::Task(TaskRecord { owner, priority, slots, grace_end, lease })
        }
        Line::Held { held, requester, task, revert_to, failsafe } => {
            let owner = |(requester, task): (String, String)| Owner { requester: requester.into(), task: task.into() };
            let revert_to = match revert_to {
                Json::Null => None,
                json => Some(super::command::scalar(&json).ok()?),
            };
            let owner = requester.zip(task).map(owner);
            Entry::Held(HoldRecord { topic: Topic::new(&held).ok()?, owner, revert_to, is_failsafe: failsafe })
        }
        Line::Released { released } => Entry::Released { topic: Topic::new(&released).ok()? },
        Line::Ended { ended } => Entry::TaskEnded { task: ended.into() },
        Line::Override { r#override, until, who } => {
            let end = until.map(|end| end.parse()).transpose().ok()?;
            Entry::Override(OverrideRecord { pattern: r#override.parse().ok()?, end, who: who.into() })
        }
        Line::OverrideEnded { override_ended } => {
            Entry::OverrideEnded { pattern: override_ended.parse::<Pattern>().ok()? }
        }
        Line::Tag { tag, topic, kind, why, owner, placed } => Entry::Tag(TagRecord {
            id: tag,
            topic: Topic::new(&topic).ok()?,
            kind: TagKind::from_name(&kind)?,
            why: why.into(),
            owner: owner.into(),
            placed: placed.parse().ok()?,
        }),
        Line::TagLifted { tag_lifted } => Entry::TagLifted { id: tag_lifted },
        Line::Session { session, requester } => {
            return Some(Record::Session { client: session.into(), requester: requester.into() });
        }
    };
    Some(Record::Engine(entry))
}

/// Records as lines.
#[must_use]
pub(super) fn lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<u8> {
    let mut text = Vec::new();
    records.into_iter().for_each(|record| write(record, &mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Value;

    #[test]
    fn records_are_read_as_they_were_written() {
        let topic = |text: &str| Topic::new(text).unwrap();
        let owner = Owner { requester: "anna/7".into(), task: "night \"1\"".into() };
        let at = Timestamp::from_millis(1_700_000_000_123);
        let slot = Slot { device: topic("site/ahu"), start: at, end: Timestamp::from_millis(1_700_000_060_000) };
        let held = |revert_to, owner, is_failsafe| {
            Entry::Held(HoldRecord { topic: topic("site/ahu/fan"), owner, revert_to, is_failsafe })
        };
        let pattern: Pattern = "site/+/x".parse().unwrap();
        let task = |grace_end: Option<Timestamp>| {
            let (owner, slots) = (owner.clone(), vec![slot.clone()]);
            let lease = grace_end.map(|_| Duration::from_secs(60));
            Entry::Task(TaskRecord { owner, priority: Priority::LowPreempt, slots, grace_end, lease })
        };
        let who = "http 127.0.0.1:1".into();
        let entries = [
            task(None),
            task(Some(at)),
            Entry::TaskEnded { task: "night".into() },
            held(Some(Value::Float(42.0)), Some(owner.clone()), false),
            held(Some(Value::Int(42)), Some(owner), false),
            held(Some("shut".into()), None, true),
            held(Some(Value::Bool(false)), None, false),
            held(None, None, true),
            Entry::Released { topic: topic("site/ahu/fan") },
            Entry::Override(OverrideRecord { pattern: pattern.clone(), end: Some(at), who }),
            Entry::OverrideEnded { pattern },
            Entry::Tag(TagRecord {
                id: 7,
                topic: topic("site/ahu"),
                kind: TagKind::DoNotOperate,
                why: "fuse \"3\"".into(),
                owner: "anna".into(),
                placed: at,
            }),
            Entry::TagLifted { id: 7 },
        ];
        let session = Record::Session { client: "c1".into(), requester: "anna/c1".into() };
        for record in entries.into_iter().map(Record::Engine).chain([session]) {
            let text = lines([&record]);
            assert_eq!(read(&text), Some(record), "{}", String::from_utf8_lossy(&text));
        }
        for wrong in ["", "{}", "{\"task\":\"x\"}", "[1]", "{\"held\":\"a/#\",\"revert_to\":1}", "\0\0"] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
