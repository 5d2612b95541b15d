//! An alarm, and one change of it, as JSON: the same in topics, over HTTP, in the command line and in the console.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tieline_alarms::{Alarm, AlarmId, Change, Flags, Limit, Rule, Service, Shelf};
use tieline_core::{Timestamp, Words as _};
use tieline_service::json::of_value;

/// An alarm
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AlarmShown {
    /// The alarmed topic
    pub topic: String,
    /// What the rule watches
    pub kind: &'static str,
    /// The number of the occurrence: requests to acknowledge name it
    pub seq: u64,
    /// One word for the flags below
    #[schemars(extend("enum" = ["unacknowledged", "acknowledged", "returned", "latched", "shelved", "suppressed", "out_of_service", "normal"]))]
    pub state: &'static str,
    /// The letter of ISA-18.2 for the state
    pub letter: char,
    #[schemars(extend("enum" = ["critical", "high", "medium", "low", "event"]))]
    pub priority: &'static str,
    /// The severity of OPC UA, 1 to 1000
    pub severity: u16,
    /// A name that several rules share
    pub group: String,
    /// What is shown of it
    pub text: String,
    /// The condition of the rule holds
    pub active: bool,
    /// A person has seen the occurrence
    pub acked: bool,
    /// It stays until it is reset
    pub latched: bool,
    /// Its rule suppresses it at this moment
    pub suppressed: bool,
    /// It comes and goes too often
    pub chattering: bool,
    /// Its input is bad, or has no value
    pub uncertain: bool,
    /// The value that raised it
    pub value: Json,
    /// The limit of the rule; a time in seconds for stale
    pub limit: Json,
    /// When the occurrence began
    pub since: String,
    /// When it last changed
    pub changed: String,
    /// The time of the value that raised it, as its device says
    pub time: String,
    /// Who acknowledged it
    pub acked_by: Option<String>,
    /// Further activations of this occurrence, of a chattering alarm
    pub repeats: u32,
    /// Until when it is shelved, and why
    pub shelved: Option<ShelfShown>,
    /// Until when it is out of service, and why
    pub out_of_service: Option<ServiceShown>,
    /// The alarm whose consequence it is
    pub cause: Option<AlarmName>,
    /// How many alarms are consequences of it
    pub count: u32,
    /// What the rule says to the operator
    pub advice: Advice,
}

/// Until when an alarm is shelved
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ShelfShown {
    until: String,
    /// Ends earlier, when the alarm returns
    once: bool,
    who: String,
    why: String,
}

/// Until when an alarm is out of service
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceShown {
    /// null: until a person puts it in service
    until: Option<String>,
    who: String,
    why: String,
}

/// An alarm by name
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct AlarmName {
    /// The alarmed topic
    pub topic: String,
    /// The kind of the alarm
    pub kind: String,
}

/// What a rule says to the operator; empty where it says nothing
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Advice {
    /// Why it may come
    cause: String,
    /// What follows when nobody acts
    consequence: String,
    /// What to do
    action: String,
    /// In which time
    respond_in_s: Option<f64>,
}

/// A change of an alarm
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JournalRow {
    /// Names the row; rises from row to row: microseconds since 1970
    pub id: i64,
    /// When it happened
    pub time: String,
    /// The alarmed topic
    pub topic: String,
    pub kind: String,
    pub seq: u64,
    /// What happened
    pub transition: String,
    /// The state after it
    pub state: String,
    pub priority: String,
    pub group: String,
    pub text: String,
    /// The value that raised the occurrence
    pub value: Json,
    /// The person who did it; null: it happened by itself
    pub who: Option<String>,
    pub why: Option<String>,
    /// Operators are called
    pub annunciated: bool,
    /// The alarm whose consequence it is
    pub cause: Option<AlarmName>,
}

impl AlarmShown {
    /// Of an alarm.
    #[must_use]
    pub fn of(alarm: &Alarm) -> Self {
        let Alarm { record, rule, count } = alarm;
        let has = |flag| record.flags.has(flag);
        Self {
            topic: record.id.topic.to_string(),
            kind: record.id.kind.word(),
            seq: record.seq,
            state: record.flags.state().word(),
            letter: record.flags.letter(),
            priority: rule.priority.word(),
            severity: rule.priority.severity(),
            group: rule.group.to_string(),
            text: rule.text.to_string(),
            active: has(Flags::ACTIVE),
            acked: has(Flags::ACKED),
            latched: has(Flags::LATCHED),
            suppressed: has(Flags::SUPPRESSED),
            chattering: has(Flags::CHATTERING),
            uncertain: has(Flags::UNCERTAIN),
            value: of_value(&record.value),
            limit: limit_of(&rule.limit),
            since: record.since.to_string(),
            changed: record.changed.to_string(),
            time: record.time.to_string(),
            acked_by: record.acked_by.as_deref().map(str::to_owned),
            repeats: record.repeats,
            shelved: record.shelf.as_ref().map(ShelfShown::of),
            out_of_service: record.service.as_ref().map(ServiceShown::of),
            cause: record.cause.as_ref().map(AlarmName::of),
            count: *count,
            advice: Advice::of(rule),
        }
    }

    /// As a payload.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl ShelfShown {
    fn of(shelf: &Shelf) -> Self {
        let Shelf { until, once, who, why } = shelf;
        Self { until: until.to_string(), once: *once, who: who.to_string(), why: why.to_string() }
    }
}

impl ServiceShown {
    fn of(service: &Service) -> Self {
        let Service { until, who, why } = service;
        Self { until: until.map(|until| until.to_string()), who: who.to_string(), why: why.to_string() }
    }
}

impl AlarmName {
    /// Of an alarm.
    #[must_use]
    pub fn of(id: &AlarmId) -> Self {
        Self { topic: id.topic.to_string(), kind: id.kind.word().to_owned() }
    }
}

impl Advice {
    fn of(rule: &Rule) -> Self {
        Self {
            cause: rule.cause.to_string(),
            consequence: rule.consequence.to_string(),
            action: rule.action.to_string(),
            respond_in_s: rule.respond_in.map(|time| time.as_secs_f64()),
        }
    }
}

impl JournalRow {
    /// Of a change; `at` is the time of the row.
    #[must_use]
    pub fn of(change: &Change, at: Timestamp) -> Self {
        let (record, rule) = (&change.alarm.record, &change.alarm.rule);
        Self {
            id: at.micros(),
            time: at.to_string(),
            topic: record.id.topic.to_string(),
            kind: record.id.kind.word().to_owned(),
            seq: record.seq,
            transition: change.transition.word().to_owned(),
            state: record.flags.state().word().to_owned(),
            priority: rule.priority.word().to_owned(),
            group: rule.group.to_string(),
            text: rule.text.to_string(),
            value: of_value(&record.value),
            who: change.who.as_deref().map(str::to_owned),
            why: change.why.as_deref().map(str::to_owned),
            annunciated: change.is_annunciated,
            cause: record.cause.as_ref().map(AlarmName::of),
        }
    }

    /// As a payload.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The limit of a rule: a number, a value, or the seconds of a time; null where there is none.
#[must_use]
pub fn limit_of(limit: &Limit) -> Json {
    match limit {
        Limit::None => Json::Null,
        Limit::Number(number) => Json::from(*number),
        Limit::Is(value) => of_value(value),
        Limit::Within(time) => Json::from(time.as_secs_f64()),
    }
}
