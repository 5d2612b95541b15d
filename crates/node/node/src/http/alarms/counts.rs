//! `GET /v1/alarms/counts`.

use super::super::authorization::Authenticated;
use super::super::body::Answer;
use super::super::problem::Problem;
use super::walk::walk;
use crate::bus::Bus;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_alarms::{Alarm, Flags, Priority};

/// How many alarms there are of those that the caller may read
#[derive(Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(rename = "AlarmCounts")]
pub struct AlarmsCounted {
    /// Alarms that are not acknowledged, without those that are hidden or consequences of others
    unacknowledged: ByPriority,
    /// Active alarms, without those that are hidden or consequences of others
    active: ByPriority,
    shelved: usize,
    suppressed: usize,
    out_of_service: usize,
    chattering: usize,
    /// More annunciations than the operators can take; of all alarms of the node
    flood: bool,
    /// Annunciations of the last ten minutes; of all alarms of the node
    annunciated_10min: u32,
    /// All alarms that are not normal
    rows: usize,
    /// Whether the node has rules of alarms
    configured: bool,
}

/// Numbers of alarms
#[derive(Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(rename = "AlarmsByPriority")]
pub struct ByPriority {
    critical: usize,
    high: usize,
    medium: usize,
    low: usize,
    event: usize,
}

impl ByPriority {
    fn add(&mut self, priority: Priority, count: bool) {
        let number = match priority {
            Priority::Critical => &mut self.critical,
            Priority::High => &mut self.high,
            Priority::Medium => &mut self.medium,
            Priority::Low => &mut self.low,
            Priority::Event => &mut self.event,
            Priority::Off => return,
        };
        *number += usize::from(count);
    }
}

impl AlarmsCounted {
    fn add(&mut self, alarm: &Alarm) {
        let (flags, priority) = (alarm.record.flags, alarm.rule.priority);
        let stands = !flags.is_hidden() && alarm.record.cause.is_none();
        self.rows += 1;
        self.unacknowledged.add(priority, stands && !flags.has(Flags::ACKED));
        self.active.add(priority, stands && flags.has(Flags::ACTIVE));
        self.shelved += usize::from(flags.has(Flags::SHELVED));
        self.suppressed += usize::from(flags.has(Flags::SUPPRESSED));
        self.out_of_service += usize::from(flags.has(Flags::OUT_OF_SERVICE));
        self.chattering += usize::from(flags.has(Flags::CHATTERING));
    }
}

/// Counts the alarms that the caller may read.
pub async fn counts(authenticated: Authenticated) -> Result<Answer<AlarmsCounted>, Problem> {
    let authorized = authenticated.each();
    let caller = authorized.caller.clone();
    let take = move |counted: &mut AlarmsCounted, alarm: Alarm| {
        if caller.may(Verb::Read, &alarm.record.id.topic) {
            counted.add(&alarm);
        }
    };
    let finish = |mut counted: AlarmsCounted, bus: &mut Bus| {
        counted.configured = bus.has_alarms();
        if let Some((_, stats)) = bus.alarm_counts() {
            (counted.flood, counted.annunciated_10min) = (stats.is_flood, stats.annunciated_10min);
        }
        counted
    };
    Ok(Answer(walk(&authorized, AlarmsCounted::default(), take, finish).await?))
}
