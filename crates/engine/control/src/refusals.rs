//! The reasons of what ends without success.

use crate::point::cut;
use alloc::format;
use alloc::string::String;
use tieline_core::{CommandOutcome, Refusal, Topic};

pub(crate) fn reasons(outcome: &CommandOutcome) -> (&'static str, String) {
    match outcome {
        Ok(()) => ("", String::new()),
        Err(refusal) => (refusal.reason, refusal.detail.clone()),
    }
}

pub(crate) const fn refusal(reason: &'static str, detail: String) -> Refusal {
    Refusal::new(reason, detail)
}

pub(crate) fn unknown(topic: &Topic, topic_exists: bool) -> Refusal {
    let topic = cut(topic);
    if topic_exists {
        refusal("not_writable", format!("the topic {topic} can only be read"))
    } else {
        refusal("unknown_topic", format!("there is no topic {topic}"))
    }
}

/// A wrong topic may be as long as 65,535 bytes; the log keeps its beginning.
pub(crate) fn short(topic: Topic) -> Topic {
    Topic::new(&cut(&topic)).unwrap_or(topic)
}

pub(crate) fn lost() -> Refusal {
    Refusal::unknown("away", "the device was lost before it answered; the command may have been carried out".into())
}

pub(crate) fn away_unsent() -> Refusal {
    refusal("away", "the device was lost before the command was sent".into())
}

pub(crate) fn changed_unsent() -> Refusal {
    refusal("point_changed", "the configuration of the point changed before the command was sent".into())
}

pub(crate) fn timed_out() -> Refusal {
    Refusal::unknown("timeout", "the device did not answer in time; the command may have been carried out".into())
}

pub(crate) fn timed_out_unsent() -> Refusal {
    refusal("timeout", "the request waited for the device too long; nothing was sent".into())
}

pub(crate) fn unanswered() -> Refusal {
    Refusal::unknown("timeout", "no outcome came at all; the command may have been carried out".into())
}
