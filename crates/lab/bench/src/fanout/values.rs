//! The values of a run: what an update makes of its topic, and when that was due, read off what came.
//!
//! A point is a measurement: hundredths that wander by a few of them, and the time at which a device may have seen it,
//! in milliseconds, up to [`JITTER_US`] after the update was due. The time tells which update it was, and so when that was due;
//! all else must be what that update made.

use super::plan::Plan;
use super::quote;
use serde::{Deserialize, Serialize};
use tieline_core::{Body, Point, Timestamp, Value};

/// What values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Documents of about a kilobyte.
    #[default]
    Json,
    /// A number, its quality and its time.
    Point,
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "json" => Ok(Self::Json),
            "point" => Ok(Self::Point),
            _ => Err("expected json or point".to_owned()),
        }
    }
}

impl Form {
    /// Updates of a topic until what changes of it takes as few bytes as it will: the pace of a point is learnt from three.
    pub const fn updates_to_settle(self) -> u64 {
        match self {
            Self::Json => 1,
            Self::Point => 4,
        }
    }
}

/// Writes values, as clients without deltas see them.
pub struct Writer {
    form: Form,
    value: Vec<u8>,
}

impl Writer {
    /// A writer for a run.
    pub fn new(plan: &Plan) -> Self {
        let value = match plan.form {
            Form::Json => quote::blank(),
            Form::Point => Vec::new(),
        };
        Self { form: plan.form, value }
    }

    /// The value of a topic after so many updates, the last of which was due then.
    pub fn write(&mut self, topic: usize, round: u64, due_us: u64) -> &[u8] {
        match self.form {
            Form::Json => quote::stamp(&mut self.value, topic, due_us),
            Form::Point => self.value = point(topic, round, due_us).to_json().into_bytes(),
        }
        &self.value
    }
}

/// Reads points.
pub struct Points {
    plan: Plan,
    start_us: u64,
    turns: Vec<u32>,
}

impl Points {
    /// The points of a run whose first update is due then.
    pub fn new(plan: Plan, start_us: u64) -> Self {
        Self { plan, start_us, turns: plan.turns() }
    }

    /// When the update was due whose value of the topic this is; none where no update made it.
    pub fn due_us(&self, topic: usize, value: &Body) -> Option<u64> {
        let read;
        let found = match value {
            Body::Point(point) => point,
            Body::Published(_) | Body::Opaque(_) => {
                read = Point::from_exact_json(&value.to_payload())?;
                &read
            }
        };
        let seen_us = u64::try_from(found.time.micros().checked_sub(EPOCH_US)?).ok()?;
        let since_us = (seen_us + MILLISECOND_US).checked_sub(self.start_us)?;
        let due_before = self.plan.due_by(Some(since_us).filter(|us| *us < RUN_US_MAX)?);
        let (turn, topics) = (u64::from(*self.turns.get(topic)?), self.plan.topics as u64);
        let round = due_before.checked_sub(turn + 1)? / topics;
        let due_us = self.start_us + self.plan.due_us(turn + round * topics);
        (*found == point(topic, round, due_us)).then_some(due_us)
    }
}

/// No run takes so long, a week.
const RUN_US_MAX: u64 = 604_800_000_000;
/// Zero of the clock of a run, in µs: 2026-01-01.
const EPOCH_US: i64 = 1_767_225_600_000_000;
/// The unit of a device's clock.
const MILLISECOND_US: u64 = 1000;
/// How much later than the update was due a device has seen its value, at most.
const JITTER_US: u64 = 15_000;

fn point(topic: usize, round: u64, due_us: u64) -> Point {
    let topic = topic as u64;
    // The low bits of a product are those of its factors: the high ones are as good as random.
    let dice = ((topic << 32) | (round & 0xFFFF_FFFF)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let slope = (round * 3 + topic * 7) % 1200;
    let hundredths = 4000 + topic % 2000 + slope.min(1200 - slope) + dice % 11;
    let seen_us = due_us + dice / 11 % JITTER_US;
    let micros = EPOCH_US.saturating_add_unsigned(seen_us - seen_us % MILLISECOND_US);
    let value = Value::Float(f64::from(u32::try_from(hundredths).unwrap_or(0)) / 100.0);
    Point { value, time: Timestamp::from_micros(micros), ..Point::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn points_tell_their_update_and_nothing_else_does() {
        for (topics, rate) in [(60, 3000), (7, 1), (1000, 20_000), (3, 7)] {
            let plan = Plan { subscribers: 1, topics, rate, subscriptions_each: 1, form: Form::Point };
            plan.check().unwrap();
            let (start_us, mut writer) = (987_654_321, Writer::new(&plan));
            let points = Points::new(plan, start_us);
            for update in 0..5000 {
                let (topic, due_us) = (plan.topic_at(update), start_us + plan.due_us(update));
                let json = writer.write(topic, plan.round_of(update), due_us).to_vec();
                let read = |json: Vec<u8>| points.due_us(topic, &Body::Opaque(json.into()));
                assert_eq!(read(json.clone()), Some(due_us), "{update} of {plan:?}");
                let at = usize::try_from(update).unwrap() % json.len();
                let mut wrong = json;
                wrong[at] ^= 1;
                assert_ne!(read(wrong), Some(due_us), "{update}, {at}");
            }
        }
    }

    #[test]
    fn points_wander_in_small_steps() {
        let hundredths = |round| {
            let Value::Float(x) = point(7, round, round * 1_000_000).value else { panic!("a number") };
            x * 100.0
        };
        let steps: Vec<f64> = (0..2000).map(|round| hundredths(round + 1) - hundredths(round)).collect();
        assert!(steps.iter().all(|step| step.abs() < 13.5), "{steps:?}");
        let kinds: BTreeSet<String> = steps.iter().map(|step| format!("{step:.0}")).collect();
        assert!(kinds.len() > 15, "{kinds:?}");
    }
}
