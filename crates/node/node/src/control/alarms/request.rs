//! What a person asks of alarms, and what became of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tieline_access::Verb;
use tieline_alarms::{Kind, Refusal};
use tieline_core::{Topic, Words};
use tieline_service::parse::parse_duration;

/// Alarms of one request.
pub const TARGETS_MAX: usize = 1000;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmAction {
    /// One occurrence has been seen.
    Acknowledge,
    /// Not annunciated for a time.
    Shelve,
    /// That ends.
    Unshelve,
    /// The latch is reset.
    Reset,
    /// Not annunciated until it is put in service.
    TakeOutOfService,
    /// It is in service again.
    PutInService,
    /// A note in the journal.
    Note,
}

impl Words for AlarmAction {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ack", Self::Acknowledge),
        ("shelve", Self::Shelve),
        ("unshelve", Self::Unshelve),
        ("reset", Self::Reset),
        ("out_of_service", Self::TakeOutOfService),
        ("in_service", Self::PutInService),
        ("note", Self::Note),
    ];
}

impl AlarmAction {
    /// The right that it takes on the alarmed topic.
    #[must_use]
    pub const fn verb(self) -> Verb {
        match self {
            Self::Acknowledge | Self::Shelve | Self::Unshelve | Self::Note => Verb::Acknowledge,
            Self::Reset | Self::TakeOutOfService | Self::PutInService => Verb::Admin,
        }
    }
}

/// One of the alarms of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmTarget {
    /// The alarmed topic.
    pub topic: Topic,
    /// The kind of the alarm.
    pub kind: Kind,
    /// The occurrence, where it is to be acknowledged.
    pub seq: Option<u64>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmRequest {
    /// What is done.
    pub action: AlarmAction,
    /// With which alarms.
    pub targets: Vec<AlarmTarget>,
    /// Why.
    pub why: String,
    /// For how long.
    pub time: Option<Duration>,
    /// Of shelving: whether it ends earlier, when the alarm returns.
    pub once: bool,
}

/// The body of a request
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlarmBody {
    /// 1 to 1,000 alarms
    alarms: Vec<TargetBody>,
    /// The reason; required to shelve, to take out of service, and for a note
    #[serde(default)]
    why: String,
    /// How long, as in "2h": required to shelve
    #[serde(rename = "for")]
    time: Option<String>,
    /// Of shelving: it ends earlier, when the alarm returns
    #[serde(default)]
    once: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TargetBody {
    /// The alarmed topic
    topic: String,
    /// The kind of the alarm
    kind: String,
    /// The number of the occurrence: required to acknowledge
    seq: Option<u64>,
}

impl AlarmRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn read(action: AlarmAction, body: &[u8]) -> Result<Self, String> {
        Self::of(action, tieline_service::json::read(body).map_err(|error| error.to_string())?)
    }

    /// Of a body.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn of(action: AlarmAction, body: AlarmBody) -> Result<Self, String> {
        let AlarmBody { alarms, why, time, once } = body;
        let count = alarms.len();
        if !(1..=TARGETS_MAX).contains(&count) {
            return Err(format!("alarms has {count} members, expected 1 to {TARGETS_MAX}"));
        }
        let targets = alarms.into_iter().enumerate().map(|(at, target)| target.read(at, action));
        let targets = targets.collect::<Result<_, _>>()?;
        let wrong = |text: &str| format!("for is {text:?}, expected a duration as in \"2h\"");
        let time = time.map(|text| parse_duration(&text).ok_or_else(|| wrong(&text))).transpose()?;
        let takes_time = matches!(action, AlarmAction::Shelve | AlarmAction::TakeOutOfService);
        match (action, &time) {
            (AlarmAction::Shelve, None) => return Err("for is missing, expected a duration as in \"2h\"".to_owned()),
            (_, Some(_)) if !takes_time => return Err(format!("{} takes no time, found for", action.word())),
            _ => {}
        }
        if once && action != AlarmAction::Shelve {
            return Err(format!("{} takes no once", action.word()));
        }
        Ok(Self { action, targets, why, time, once })
    }
}

impl TargetBody {
    fn read(self, at: usize, action: AlarmAction) -> Result<AlarmTarget, String> {
        let Self { topic, kind, seq } = self;
        let of_topic = |why| format!("alarms[{at}].topic is {topic:?}, expected a topic ({why})");
        let found = Topic::new(&topic).map_err(of_topic)?;
        let words: Vec<&str> = Kind::WORDS.iter().map(|(word, _)| *word).collect();
        let of_kind = || format!("alarms[{at}].kind is {kind:?}, expected one of {}", words.join(", "));
        let kind = Kind::of_word(&kind).ok_or_else(of_kind)?;
        if action == AlarmAction::Acknowledge && seq.is_none() {
            return Err(format!("alarms[{at}].seq is missing, expected the number of the occurrence"));
        }
        Ok(AlarmTarget { topic: found, kind, seq })
    }
}

/// What became of one alarm of a request
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct AlarmResult {
    /// The alarmed topic
    pub topic: String,
    /// The kind of the alarm
    pub kind: &'static str,
    #[schemars(extend("enum" = ["done", "refused"]))]
    pub status: &'static str,
    /// Why it was refused, as a stable word
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The same for people
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl AlarmResult {
    /// Of what the engine says.
    #[must_use]
    pub fn of(target: &AlarmTarget, result: Result<(), Refusal>) -> Self {
        match result {
            Ok(()) => Self { status: "done", reason: None, detail: None, ..Self::refused(target, "", String::new()) },
            Err(refusal) => Self::refused(target, reason_of(refusal), refusal.to_string()),
        }
    }

    /// Of an alarm that the caller may not act on.
    #[must_use]
    pub fn denied(target: &AlarmTarget) -> Self {
        Self::refused(target, "denied", "the right for this topic is missing".to_owned())
    }

    fn refused(target: &AlarmTarget, reason: &'static str, detail: String) -> Self {
        let (topic, kind) = (target.topic.to_string(), target.kind.word());
        Self { topic, kind, status: "refused", reason: Some(reason), detail: Some(detail) }
    }
}

/// The stable word for a refusal.
const fn reason_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Unknown => "unknown_alarm",
        Refusal::OldOccurrence { .. } => "old_occurrence",
        Refusal::NothingToAcknowledge => "nothing_to_acknowledge",
        Refusal::WhyMissing => "why_missing",
        Refusal::WhyTooLong { .. } => "why_too_long",
        Refusal::Time { .. } => "time",
        Refusal::NotShelved => "not_shelved",
        Refusal::InService => "in_service",
        Refusal::NotLatched => "not_latched",
        Refusal::StillActive => "still_active",
        Refusal::NotAcknowledged => "not_acknowledged",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_wrong_ones_say_what_was_expected() {
        use AlarmAction::{Acknowledge, Note, Shelve};
        let read = |action, text: &str| AlarmRequest::read(action, text.as_bytes());
        let request = read(Shelve, r#"{"alarms":[{"topic":"a/b","kind":"high"}],"why":"w","for":"2h","once":true}"#);
        let target = AlarmTarget { topic: Topic::new("a/b").unwrap(), kind: Kind::High, seq: None };
        let time = Some(Duration::from_secs(7200));
        assert_eq!(
            request,
            Ok(AlarmRequest { action: Shelve, targets: vec![target], why: "w".into(), time, once: true })
        );
        for (action, text, words) in [
            (Acknowledge, "{}", "alarms: found nothing, expected a value"),
            (Acknowledge, r#"{"alarms":[]}"#, "alarms has 0 members, expected 1 to 1000"),
            (Acknowledge, r#"{"alarms":[{"topic":"a","kind":"high"}]}"#, "alarms[0].seq is missing"),
            (Note, r#"{"alarms":[{"topic":"a/+","kind":"high"}]}"#, "alarms[0].topic is \"a/+\", expected a topic"),
            (Note, r#"{"alarms":[{"topic":"a","kind":"hi"}]}"#, "alarms[0].kind is \"hi\", expected one of away"),
            (Note, r#"{"alarms":[{"topic":"a","kind":"high"}],"for":"2h"}"#, "note takes no time"),
            (Note, r#"{"alarms":[{"topic":"a","kind":"high"}],"once":true}"#, "note takes no once"),
            (Shelve, r#"{"alarms":[{"topic":"a","kind":"high"}]}"#, "for is missing"),
            (
                Shelve,
                r#"{"alarms":[{"topic":"a","kind":"high"}],"for":"soon"}"#,
                "for is \"soon\", expected a duration",
            ),
        ] {
            let error = read(action, text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
