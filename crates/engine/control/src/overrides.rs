//! Overrides: devices and points that a person has taken, so that no program commands them.

use crate::pattern::Pattern;
use crate::schedule::until;
use crate::{Entry, OverrideRecord};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Deadlines, Instant, Now, Timestamp};

/// Between the reverts of two devices where an override is staggered.
pub const STAGGER: Duration = Duration::from_millis(50);

/// What to override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOverride {
    /// Devices, or points, by their topics.
    pub pattern: Pattern,
    /// How long; none or zero: until it is set off.
    pub duration: Option<Duration>,
    /// Whether the points are reverted first.
    pub failsafe_revert: bool,
    /// Whether they are reverted device by device, [`STAGGER`] apart.
    pub staggered_revert: bool,
    /// Who asks, for the audit log.
    pub who: Arc<str>,
}

#[derive(Debug)]
struct Active {
    end: Option<(Instant, Timestamp)>,
    who: Arc<str>,
}

/// Patterns with their ends.
#[derive(Debug, Default)]
pub struct Overrides {
    active: BTreeMap<Pattern, Active>,
    ends: Deadlines<Pattern>,
    entries: VecDeque<Entry>,
}

impl Overrides {
    /// Sets a pattern on. One that is on is made longer, never shorter. False where nothing changes.
    pub(crate) fn set_on(&mut self, now: Now, asked: &NewOverride) -> bool {
        let duration = asked.duration.filter(|duration| !duration.is_zero());
        let end = duration.map(|duration| (now.mono + duration, now.utc.later(duration)));
        if let Some(active) = self.active.get(&asked.pattern) {
            match (active.end, end) {
                (None, _) => return false,
                (Some((old, _)), Some((new, _))) if new < old => return false,
                (Some((old, _)), _) => drop(self.ends.remove(old, asked.pattern.clone())),
            }
        }
        if let Some((at, _)) = end {
            self.ends.add(at, asked.pattern.clone());
        }
        self.active.insert(asked.pattern.clone(), Active { end, who: asked.who.clone() });
        let end = end.map(|(_, utc)| utc);
        let record = OverrideRecord { pattern: asked.pattern.clone(), end, who: asked.who.clone() };
        self.entries.push_back(Entry::Override(record));
        true
    }

    /// Sets a pattern off; false where it is not on.
    pub(crate) fn set_off(&mut self, pattern: &Pattern) -> bool {
        let Some(active) = self.active.remove(pattern) else { return false };
        if let Some((at, _)) = active.end {
            self.ends.remove(at, pattern.clone());
        }
        self.entries.push_back(Entry::OverrideEnded { pattern: pattern.clone() });
        true
    }

    /// Sets the patterns off whose time is over, and returns them.
    pub(crate) fn handle_timeout(&mut self, now: Now) -> Vec<Pattern> {
        let mut over = Vec::new();
        while let Some((_, pattern)) = self.ends.take_next(now.mono) {
            self.active.remove(&pattern);
            self.entries.push_back(Entry::OverrideEnded { pattern: pattern.clone() });
            over.push(pattern);
        }
        over
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.ends.timeout()
    }

    pub(crate) fn restore(&mut self, now: Now, record: OverrideRecord) {
        let end = record.end.map(|end| (now.mono + until(now.utc, end), end));
        if let Some((at, _)) = end {
            self.ends.add(at, record.pattern.clone());
        }
        self.active.insert(record.pattern, Active { end, who: record.who });
    }

    pub(crate) fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    pub(crate) fn contains(&self, pattern: &Pattern) -> bool {
        self.active.contains_key(pattern)
    }

    /// The pattern that takes a point, by its device's topic or its own.
    pub(crate) fn of(&self, device: &str, point: &str) -> Option<&Pattern> {
        self.active.keys().find(|pattern| pattern.matches(device) || pattern.matches(point))
    }

    /// All patterns, with their ends on the wall clock and who set them on.
    pub fn patterns(&self) -> impl Iterator<Item = OverrideRecord> {
        let record = |(pattern, active): (&Pattern, &Active)| OverrideRecord {
            pattern: pattern.clone(),
            end: active.end.map(|(_, utc)| utc),
            who: active.who.clone(),
        };
        self.active.iter().map(record)
    }
}
