//! The order of a list of alarms, and the place of an alarm in it as text.

use std::str::FromStr;
use tieline_alarms::{Alarm, Flags, Kind, Priority, State};
use tieline_core::{Topic, Words};
use tieline_service::http::parameters::{Fault, Parameter};

/// In which order alarms come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmOrder {
    /// Unacknowledged ones, then active ones, then the most urgent; of these the newest first. Those that are shelved, suppressed or out
    /// of service come last.
    Worst,
    /// The newest first.
    Time,
}

impl Words for AlarmOrder {
    const WORDS: &'static [(&'static str, Self)] = &[("worst", Self::Worst), ("time", Self::Time)];
}

/// The place of an alarm in a list; a smaller one comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmPlace {
    urgency: [u8; 3],
    /// Microseconds before 1970.
    age: i64,
    kind: Kind,
    topic: Topic,
}

impl AlarmPlace {
    /// Of an alarm.
    pub fn of(order: AlarmOrder, alarm: &Alarm) -> Self {
        let record = &alarm.record;
        let urgency = match order {
            AlarmOrder::Worst => [attention(record.flags), u8::from(!record.flags.has(Flags::ACTIVE)), rank(alarm)],
            AlarmOrder::Time => [0; 3],
        };
        let age = record.since.micros().saturating_neg();
        Self { urgency, age, kind: record.id.kind, topic: record.id.topic.clone() }
    }
}

fn attention(flags: Flags) -> u8 {
    match flags.state() {
        State::Unacknowledged | State::ReturnedUnacknowledged => 0,
        State::Acknowledged | State::Latched | State::Normal => 1,
        State::OutOfService | State::Shelved | State::Suppressed => 2,
    }
}

fn rank(alarm: &Alarm) -> u8 {
    let at = Priority::WORDS.iter().position(|(_, priority)| *priority == alarm.rule.priority);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

impl std::fmt::Display for AlarmPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { urgency: [attention, activity, rank], age, kind, topic } = self;
        write!(f, "{attention}.{activity}.{rank}.{age}.{}.{topic}", kind.word())
    }
}

impl FromStr for AlarmPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(6, '.');
        let mut next = || parts.next().ok_or(());
        let mut digit = || next().and_then(|text| text.parse::<u8>().map_err(drop));
        let urgency = [digit()?, digit()?, digit()?];
        let age = next()?.parse().map_err(drop)?;
        let kind = Kind::of_word(next()?).ok_or(())?;
        Ok(Self { urgency, age, kind, topic: Topic::new(next()?).map_err(drop)? })
    }
}

impl Parameter for AlarmPlace {
    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|()| Fault::Expected("the member next of a page".to_owned()))
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^[0-9]+[.][0-9]+[.][0-9]+[.]-?[0-9]+[.][a-z_]+[.]." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written_and_nothing_else_is() {
        let text = "0.1.4.-1790000000000000.high_high.site/a.b/c";
        let place: AlarmPlace = text.parse().unwrap();
        assert_eq!(place.to_string(), text);
        assert!(place < "0.1.4.-1700000000000000.high_high.site/a.b/c".parse().unwrap(), "the newer one comes first");
        for wrong in ["", "0.1.4", "0.1.4.5.high", "0.1.4.5.other.a", "0.1.256.5.high.a", "0.1.4.5.high.a/+", "..."] {
            assert_eq!(wrong.parse::<AlarmPlace>(), Err(()), "{wrong}");
        }
    }
}
