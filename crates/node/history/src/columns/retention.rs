//! Keeps the store in its bounds: samples that are too old are removed, and days are written again as rules say.
//!
//! ```text
//! chunks that are too old ─▶ removed from the index     files without chunks ─▶ removed
//! edits of what is too old ─▶ ended and erased
//! closed days ─ another plan is due than they went through ─▶ written again (`compaction`), or noted where nothing is to be done
//! ```
//!
//! Before samples are replaced by fewer, all that is in memory becomes chunks, so that the journal is not read again from before them:
//! a sample that came back would count twice in a mean.

use super::Columns;
use super::compaction::{Compacted, Compaction, Work};
use super::policy::{self, Plan, Policy};
use crate::store::{ByRules, Retained, Retention, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Storage, Timestamp};
use tieline_store::Outdated;

/// How far bounds of age move before chunks are looked for that are behind them.
const CUTOFF_STEP: Duration = Duration::from_secs(60);
/// How often closed days are looked at, and edits of samples that are too old.
const PLANNED_EVERY: Duration = Duration::from_secs(600);
/// Days whose topics are looked at in one step.
const STEP_DAYS: usize = 32;
/// A day file is written again when this part of it is of no samples any more.
const DEAD_PART: u64 = 8;

impl<S: Storage> Columns<S> {
    /// One step of removing samples that are too old or too many.
    pub(super) fn retain_some(
        &mut self,
        retention: &Retention,
        now: Timestamp,
        samples_max: u64,
    ) -> Result<Retained, StoreError> {
        self.take_rules(retention.age)?;
        let removed = std::mem::take(&mut self.removed_with_days);
        let by_size = match retention.bytes {
            Some(bytes) if self.index.bytes()? > bytes => self.index.oldest()?.map(|(first, last)| {
                // A twentieth of the span, and the oldest chunk at least.
                let span = now.micros().saturating_sub(first.micros()).max(0);
                let end = first.micros().saturating_add(span / 20).max(last.micros());
                Timestamp::from_micros(end.saturating_add(1))
            }),
            Some(_) | None => None,
        };
        let is_new = self.cut_at.is_none_or(|last| now >= last.later(CUTOFF_STEP));
        let by_age = self.policy.has_age() && is_new;
        if !by_age && by_size.is_none() {
            return Ok(Retained { removed, more: false });
        }
        if by_age {
            self.cutoffs = self.policy.cutoffs(now, self.cutoffs.floor());
        }
        self.cutoffs.raise_floor(by_size);
        let step = self.remove_outdated(samples_max)?;
        if by_age && !step.more {
            self.cut_at = Some(now);
        }
        let more = step.more || (by_size.is_some() && step.removed > 0);
        self.is_removing = more;
        if !more {
            self.retire_edits(now);
        }
        Ok(Retained { removed: removed + step.removed, more })
    }

    /// Ends edits whose samples are too old, and erases what they give: nothing shows them any more.
    fn retire_edits(&mut self, now: Timestamp) {
        let is_known = |last: Timestamp| now >= last && now < last.later(PLANNED_EVERY);
        if self.edits_at.is_some_and(is_known) {
            return;
        }
        self.edits_at = Some(now);
        match self.live.edits().retire(&self.data, &self.cutoffs, now) {
            Ok(0) => {}
            Ok(edits) => tracing::info!(edits, "edits of samples that are too old were ended"),
            // Samples go all the same.
            Err(error) => tracing::warn!(%error, "edits of samples that are too old were not ended"),
        }
    }

    fn remove_outdated(&mut self, samples_max: u64) -> Result<Retained, StoreError> {
        self.live.cut_off(self.cutoffs.clone());
        self.place_topics()?;
        let (cutoffs, places, others) = (&self.cutoffs, &self.places, self.policy.rules.len());
        let place = |topic: u32| places.get(topic as usize).copied().unwrap_or(others);
        self.live.with(|heads| heads.seal_ending_before(|topic| cutoffs.at(place(topic))));
        self.flush()?;
        let (cutoffs, places) = (&self.cutoffs, &self.places);
        let place = |topic: u32| places.get(topic as usize).copied().unwrap_or(others);
        let cutoff = |topic: u32| (place(topic), cutoffs.at(place(topic)));
        let outdated = Outdated { cutoff: &cutoff, days: cutoffs.lowest(), rules: others + 1, samples_max };
        let removed = self.index.remove_outdated(&outdated)?;
        self.drop_files(&removed.files)?;
        Ok(Retained { removed: removed.samples, more: removed.more })
    }

    /// Looks up the rules of topics that are new.
    fn place_topics(&mut self) -> Result<(), StoreError> {
        if self.policy.rules.is_empty() {
            return Ok(());
        }
        let known = u32::try_from(self.places.len().saturating_sub(1)).unwrap_or(u32::MAX);
        for (number, topic) in self.index.topics_after(known)? {
            self.places.resize(number as usize, self.policy.rules.len());
            self.places.push(self.policy.place(&topic));
        }
        Ok(())
    }

    /// Takes other rules, and how long all others are kept; everything is looked at again then.
    pub(super) fn take_rules(&mut self, others: Option<Duration>) -> Result<(), StoreError> {
        let given = self.live.rules();
        let rules = match (&given, self.has_rules) {
            (Some(rules), _) => Arc::clone(rules),
            (None, true) => Arc::clone(&self.policy.rules),
            // The store is open without a node, whose rules are not changed.
            (None, false) => policy::noted(&self.index.rules()?),
        };
        self.has_rules = true;
        if rules == self.policy.rules && others == self.policy.others {
            return Ok(());
        }
        tracing::info!(rules = rules.len(), "rules of retention of the history");
        self.policy = Policy { rules, others };
        self.places.clear();
        (self.cut_at, self.planned_at, self.edits_at) = (None, None, None);
        if given.is_some() {
            self.index.set_rules(&self.policy.words())?;
        }
        Ok(())
    }

    /// Everything in memory becomes chunks, and the journal is needed no longer: what is there would be read from it again.
    pub(super) fn leave_journal(&mut self) -> Result<(), StoreError> {
        self.live.with(|heads| heads.seal_all());
        self.flush()?;
        if self.position < self.taken {
            self.index.commit(&[], self.taken.0, None)?;
            self.position = self.taken;
        }
        Ok(())
    }

    /// Begins to write a day as it is due.
    pub(super) fn close_day(&mut self, day: i32, now: Timestamp, is_again: bool) -> Result<(), StoreError> {
        let plan = self.policy.due(day, now);
        if plan.downsamples() {
            self.leave_journal()?;
        }
        let (number, before) = (self.index.new_file()?, self.index.next_chunk());
        let work = Work::Close { plan, before, is_again };
        self.compaction = Some(Compaction::start(&self.data, day, number, work)?);
        Ok(())
    }

    /// Begins to write a closed day again that has not gone through what is due. Says whether there is more to do.
    pub(super) fn follow_rules(&mut self, before: i32, now: Timestamp) -> Result<bool, StoreError> {
        let is_known = |last: Timestamp| now >= last && now < last.later(PLANNED_EVERY);
        if self.is_removing || self.planned_at.is_some_and(is_known) {
            return Ok(false);
        }
        let mut looked_at = 0;
        for (day, recorded) in self.index.plans_before(before)? {
            let due = self.policy.due(day, now);
            let text = due.text();
            if text == recorded {
                continue;
            }
            if looked_at >= STEP_DAYS {
                return Ok(true);
            }
            looked_at += 1;
            if self.is_behind(day, &due, &Plan::read(&recorded))? {
                self.close_day(day, now, true)?;
                return Ok(true);
            }
            self.index.set_plan(day, &text)?;
        }
        self.planned_at = Some(now);
        Ok(false)
    }

    /// Whether a day is to be written again for what is due.
    fn is_behind(&self, day: i32, due: &Plan, done: &Plan) -> Result<bool, StoreError> {
        let (bytes, dead) = self.index.day_bytes(day)?;
        if dead > 0 && dead.saturating_mul(DEAD_PART) >= bytes {
            return Ok(true);
        }
        let topics = if due.downsamples() { self.index.topics_of_day(day)? } else { Vec::new() };
        Ok(topics.iter().any(|(_, topic)| due.action(topic).1.is_behind(done.action(topic).1)))
    }

    /// Counts what rules did with a day.
    pub(super) fn note_counts(&mut self, done: &Compacted, is_again: bool) {
        let downsampled: u64 = done.counts.iter().map(|counts| counts.downsampled).sum();
        self.removed_with_days += done.counts.iter().map(|counts| counts.removed).sum::<u64>();
        let ByRules { downsampled: all, days, bytes } = &mut self.by_rules;
        *all += downsampled;
        *days += u64::from(is_again);
        *bytes += if is_again { done.file.bytes } else { 0 };
    }
}
