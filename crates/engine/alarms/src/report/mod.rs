//! What the journal says about the load of operators: the figures that ISA-18.2 (clause 16) and EEMUA 191 rate an alarm system by.
//!
//! In: rows of the journal in the order of their times, from 24 hours before the span on. Out: [`Figures`] of the span.

mod figures;
#[cfg(test)]
mod tests;

pub use figures::{Figures, Frequent, Measure, Rating, Responses};

use crate::{AlarmId, Kind, Priority, Transition};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Timestamp, Topic, Words};

/// How long before a span its rows begin, so that it is known which alarms are stale in it.
pub const REPORT_BEFORE: Duration = Duration::from_secs(24 * 3600);
/// The longest span.
pub const REPORT_SPAN_MAX: Duration = Duration::from_secs(400 * 24 * 3600);
/// Alarms that are told apart; rows of further ones count in sums alone.
const ALARMS_MAX: usize = 200_000;
/// Acknowledgements whose times are kept for the median.
const RESPONSES_MAX: usize = 1_000_000;

const SECOND: i64 = 1_000_000;
const WINDOW: i64 = 600 * SECOND;
const DAY: i64 = 24 * 3600 * SECOND;
const FLEETING: i64 = 60 * SECOND;

/// A row of the journal, as far as a report needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    /// When it happened.
    pub time: Timestamp,
    /// The alarmed topic.
    pub topic: Topic,
    /// The kind of the alarm.
    pub kind: Kind,
    /// Its priority.
    pub priority: Priority,
    /// What happened.
    pub transition: Transition,
    /// Whether operators were called.
    pub is_annunciated: bool,
}

/// Figures in the making.
#[derive(Debug)]
pub struct Report {
    from: Timestamp,
    to: Timestamp,
    operators: u32,
    alarms: BTreeMap<AlarmId, Past>,
    /// Annunciations in each ten minutes of the span.
    windows: Vec<u32>,
    /// Of each day of the span, how many alarms more are stale in it than in the day before.
    stale: Vec<i32>,
    priorities: [u64; Priority::WORDS.len()],
    responses: Vec<u32>,
    /// Annunciations of alarms beyond the limit.
    others: u64,
}

/// What was seen of an alarm.
#[derive(Debug, Default)]
struct Past {
    activity: Activity,
    called: Option<Timestamp>,
    annunciated: u32,
    is_chattering: bool,
    is_fleeting: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Activity {
    /// No row says.
    #[default]
    Unknown,
    Since(Timestamp),
    Over,
}

impl Report {
    /// Of a span, which ends after [`REPORT_SPAN_MAX`] at the latest; `operators` share the annunciations.
    #[must_use]
    pub fn new(from: Timestamp, to: Timestamp, operators: u32) -> Self {
        let span = to.micros().saturating_sub(from.micros());
        let most = i64::try_from(REPORT_SPAN_MAX.as_micros()).unwrap_or(i64::MAX);
        let span = span.clamp(0, most);
        let parts = |width: i64| usize::try_from((span + width - 1) / width).unwrap_or_default();
        Self {
            from,
            to: Timestamp::from_micros(from.micros().saturating_add(span)),
            operators: operators.max(1),
            alarms: BTreeMap::new(),
            windows: alloc::vec![0; parts(WINDOW)],
            stale: alloc::vec![0; parts(DAY) + 1],
            priorities: [0; Priority::WORDS.len()],
            responses: Vec::new(),
            others: 0,
        }
    }

    /// An alarm that has been active since a time before all rows; to be said before them.
    pub fn add_active(&mut self, id: AlarmId, since: Timestamp) {
        if self.alarms.len() < ALARMS_MAX {
            self.alarms.insert(id, Past { activity: Activity::Since(since), ..Past::default() });
        }
    }

    /// The next row.
    pub fn add(&mut self, row: &ReportRow) {
        if row.time >= self.to {
            return;
        }
        let is_within = row.time >= self.from;
        let is_called = row.is_annunciated && is_within;
        if is_called {
            self.call(row);
        }
        let id = AlarmId { topic: row.topic.clone(), kind: row.kind };
        let is_known = self.alarms.len() < ALARMS_MAX || self.alarms.contains_key(&id);
        if !is_known {
            self.others += u64::from(is_called);
            return;
        }
        let past = self.alarms.entry(id).or_default();
        past.annunciated += u32::from(is_called);
        if row.is_annunciated {
            past.called.get_or_insert(row.time);
        }
        match row.transition {
            Transition::Raised => {
                if !matches!(past.activity, Activity::Since(_)) {
                    past.activity = Activity::Since(row.time);
                }
            }
            Transition::Returned => {
                let before = core::mem::replace(&mut past.activity, Activity::Over);
                past.is_fleeting |= is_within && before.micros_until(row.time).is_some_and(|micros| micros < FLEETING);
                self.returned(before, row.time);
            }
            Transition::Acknowledged => {
                let called = past.called.take().filter(|_| is_within);
                self.acknowledged(called, row.time);
            }
            Transition::Chattering => past.is_chattering |= is_within,
            Transition::Shelved
            | Transition::Unshelved
            | Transition::Suppressed
            | Transition::Unsuppressed
            | Transition::OutOfService
            | Transition::InService
            | Transition::Reset
            | Transition::Folded
            | Transition::Unfolded
            | Transition::Steady
            | Transition::Uncertain
            | Transition::Certain
            | Transition::Counted
            | Transition::Noted => {}
        }
    }

    fn call(&mut self, row: &ReportRow) {
        let at = Priority::WORDS.iter().position(|(_, priority)| *priority == row.priority);
        if let Some(count) = at.and_then(|at| self.priorities.get_mut(at)) {
            *count += 1;
        }
        let window = (row.time.micros() - self.from.micros()) / WINDOW;
        if let Some(count) = usize::try_from(window).ok().and_then(|at| self.windows.get_mut(at)) {
            *count = count.saturating_add(1);
        }
    }

    fn returned(&mut self, before: Activity, time: Timestamp) {
        match before {
            Activity::Since(since) => self.was_active(since, time),
            // It was raised before all rows.
            Activity::Unknown => self.was_active(Timestamp::from_micros(self.from.micros().saturating_sub(DAY)), time),
            Activity::Over => {}
        }
    }

    fn acknowledged(&mut self, called: Option<Timestamp>, time: Timestamp) {
        let Some(called) = called.filter(|_| self.responses.len() < RESPONSES_MAX) else { return };
        let seconds = time.micros().saturating_sub(called.micros()) / SECOND;
        self.responses.push(u32::try_from(seconds).unwrap_or(u32::MAX));
    }

    /// Counts an alarm in the days of the span in which it was active for more than 24 hours.
    fn was_active(&mut self, since: Timestamp, until: Timestamp) {
        let begin = since.micros().saturating_add(DAY).max(self.from.micros());
        let end = until.micros().min(self.to.micros());
        if begin >= end {
            return;
        }
        let day = |micros: i64| usize::try_from((micros - self.from.micros()) / DAY).unwrap_or_default();
        let (first, behind) = (day(begin), day(end - 1) + 1);
        if let Some(count) = self.stale.get_mut(first) {
            *count += 1;
        }
        if let Some(count) = self.stale.get_mut(behind) {
            *count -= 1;
        }
    }

    /// The figures of the span.
    #[must_use]
    pub fn finish(mut self) -> Figures {
        let active: Vec<Timestamp> = self.alarms.values().filter_map(|past| past.activity.since()).collect();
        active.into_iter().for_each(|since| self.was_active(since, self.to));
        figures::of(self)
    }
}

impl Activity {
    const fn since(self) -> Option<Timestamp> {
        match self {
            Self::Since(since) => Some(since),
            Self::Unknown | Self::Over => None,
        }
    }

    fn micros_until(self, time: Timestamp) -> Option<i64> {
        self.since().map(|since| time.micros().saturating_sub(since.micros()))
    }
}
