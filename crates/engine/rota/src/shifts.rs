//! Shifts of a span of time: who is on call, where nobody is, and where several are.

use crate::Zones;
use crate::calendar::{Event, Rota};
use crate::time::{DAY, Moment, SHIFT_DAYS_MAX};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Timestamp;

/// No zone is further from UTC.
const OFFSET_MAX: i64 = 2 * DAY;
/// How far ahead the next shift is looked for.
const NEXT_WITHIN: Duration = Duration::from_hours(31 * 24);
/// Holes and overlaps that are told.
const SPANS_MAX: usize = 100;

/// Someone is on call from a time until before another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shift {
    /// When it begins.
    pub from: Timestamp,
    /// When it is over.
    pub to: Timestamp,
    /// The name of the event.
    pub title: String,
    /// Addresses, or the name of the event; one at least.
    pub who: Vec<String>,
}

/// A span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub from: Timestamp,
    /// When it is over.
    pub to: Timestamp,
    /// Who is on call in it.
    pub who: Vec<String>,
}

/// What is known of a time and of some time after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Shifts at that time.
    pub now: Vec<Shift>,
    /// The next one that begins after it.
    pub next: Option<Shift>,
    /// Where nobody is on call.
    pub holes: Vec<Span>,
    /// Where several shifts are at once.
    pub overlaps: Vec<Span>,
}

impl Rota {
    /// The shifts that have some of the time from one to before another, by their beginnings. Bounded by
    /// the number of events and the days between both.
    #[must_use]
    pub fn shifts(&self, from: Timestamp, to: Timestamp, zones: &dyn Zones) -> Vec<Shift> {
        let span = (from.micros().div_euclid(1_000_000), to.micros().div_euclid(1_000_000));
        let mut shifts = Vec::new();
        let mut beginnings = Vec::new();
        for event in self.events.iter().filter(|event| !event.who.is_empty()) {
            beginnings.clear();
            event.beginnings(span, zones, &mut beginnings);
            let all = beginnings.iter().filter_map(|local| event.shift(*local, zones));
            shifts.extend(all.filter(|shift| shift.from < to && shift.to > from));
        }
        shifts.sort();
        shifts
    }

    /// Who is on call, each once.
    #[must_use]
    pub fn on_call(&self, at: Timestamp, zones: &dyn Zones) -> Vec<String> {
        who_of(&self.shifts(at, at.later(Duration::from_micros(1)), zones))
    }

    /// Who is on call at a time, who is next, and holes and overlaps from then on.
    #[must_use]
    pub fn outlook(&self, at: Timestamp, within: Duration, zones: &dyn Zones) -> Outlook {
        let shifts = self.shifts(at, at.later(NEXT_WITHIN.max(within)), zones);
        let end = at.later(within);
        let (holes, overlaps) = spans(&shifts, at, end);
        let next = shifts.iter().find(|shift| shift.from > at).cloned();
        Outlook { now: shifts.into_iter().filter(|shift| shift.from <= at).collect(), next, holes, overlaps }
    }
}

impl Event {
    /// The beginnings by its clock of all that may have some of a span in UTC.
    fn beginnings(&self, (from, to): (i64, i64), zones: &dyn Zones, out: &mut Vec<i64>) {
        let earliest = from - SHIFT_DAYS_MAX * DAY - OFFSET_MAX;
        match &self.rule {
            Some(rule) => rule.beginnings(&self.start, (earliest, to + OFFSET_MAX), zones, out),
            None => out.push(self.start.local),
        }
    }

    fn shift(&self, local: i64, zones: &dyn Zones) -> Option<Shift> {
        let at = |local: i64| Moment { local, ..self.start.clone() }.utc(zones);
        let from = at(local);
        if self.without.binary_search(&from).is_ok() {
            return None;
        }
        let to = at(local + self.length.wall) + self.length.exact;
        let (from, to) = (Timestamp::from_millis(from * 1000), Timestamp::from_millis(to * 1000));
        Some(Shift { from, to, title: self.title.clone(), who: self.who.clone() })
    }
}

fn who_of<'a>(shifts: impl IntoIterator<Item = &'a Shift>) -> Vec<String> {
    let mut who: Vec<String> = shifts.into_iter().flat_map(|shift| &shift.who).cloned().collect();
    who.sort_unstable();
    who.dedup();
    who
}

/// Holes and overlaps: between two changes, the same shifts are there.
fn spans(shifts: &[Shift], from: Timestamp, to: Timestamp) -> (Vec<Span>, Vec<Span>) {
    let mut changes: Vec<Timestamp> = shifts.iter().flat_map(|shift| [shift.from, shift.to]).collect();
    changes.extend([from, to]);
    changes.retain(|change| (from..=to).contains(change));
    changes.sort_unstable();
    changes.dedup();
    let (mut holes, mut overlaps) = (Vec::new(), Vec::new());
    let mut present: Vec<&Shift> = Vec::new();
    let mut coming = shifts.iter().peekable();
    for pair in changes.windows(2) {
        let &[begin, end] = pair else { continue };
        present.retain(|shift| shift.to > begin);
        while let Some(shift) = coming.next_if(|shift| shift.from <= begin) {
            present.extend((shift.to > begin).then_some(shift));
        }
        match present.len() {
            0 => add(&mut holes, Span { from: begin, to: end, who: Vec::new() }),
            1 => {}
            _ => add(&mut overlaps, Span { from: begin, to: end, who: who_of(present.iter().copied()) }),
        }
    }
    (holes, overlaps)
}

/// Adds a span; one that goes on is one.
fn add(spans: &mut Vec<Span>, span: Span) {
    let is_full = spans.len() >= SPANS_MAX;
    match spans.last_mut() {
        Some(last) if last.to == span.from && last.who == span.who => last.to = span.to,
        Some(_) if is_full => {}
        Some(_) | None => spans.push(span),
    }
}
