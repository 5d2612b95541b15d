//! One series on its way from its declaration to the present.
//!
//! ```text
//! Start ─┬─ (changed: Deleting) ─▶ Seek ─▶ Fill ─▶ Live
//!        └─ as before a restart ────────────┘
//! ```

use super::piece::{self, Piece};
use super::positions::{Kept, Positions};
use super::{DerivedNews, DerivedState, DerivedStatus, submit, wait_stored};
use crate::columns::reader::{HistoryReader, HistorySource};
use crate::store::{Deleted, Deletion};
use crate::writer::HistoryHandle;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;
use tieline_core::{Body, Point, Timestamp, Update, Validity};
use tieline_derived::Series;
use tieline_journal::Sample;

const EVER: Timestamp = Timestamp::from_micros(i64::MIN);
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// What a step is given.
pub(super) struct Step<'a> {
    pub(super) source: &'a HistorySource,
    pub(super) handle: &'a HistoryHandle,
    pub(super) kept: &'a mut Positions,
    pub(super) stop: &'a AtomicBool,
    pub(super) tell: &'a dyn Fn(DerivedNews),
    /// Up to here all inputs are complete.
    pub(super) horizon: Timestamp,
    /// When the first result is of the series that it takes.
    pub(super) first_below: Option<Timestamp>,
}

enum Phase {
    Start,
    /// Then goes on from there; none: from the beginning.
    Deleting(Receiver<Result<Deleted, String>>, Option<(Timestamp, Timestamp)>),
    Seek,
    /// From, up to, and up to when it is to be: for ever, of intervals.
    Fill(Timestamp, Timestamp, Timestamp),
}

/// A series.
pub(super) struct Run {
    pub(super) series: Series,
    pub(super) print: u64,
    /// The places of the series that it takes.
    pub(super) below: Vec<usize>,
    pub(super) status: DerivedStatus,
    phase: Phase,
    /// Whether its newest result was told since the start.
    is_told: bool,
}

impl Run {
    pub(super) fn new(series: Series, print: u64) -> Self {
        let status = DerivedStatus::default();
        Self { series, print, below: Vec::new(), status, phase: Phase::Start, is_told: false }
    }

    /// The times that are calculated.
    pub(super) const fn span(&self) -> Option<(Timestamp, Timestamp)> {
        match self.phase {
            Phase::Fill(from, upto, _) => Some((from, upto)),
            Phase::Start | Phase::Deleting(..) | Phase::Seek => None,
        }
    }

    /// Whether all of its past is calculated that is not made live.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Fill(_, upto, target) if upto >= target)
    }

    /// Whether a series that takes it can begin.
    pub(super) fn is_begun(&self) -> bool {
        if self.series.every.is_some() { self.span().is_some() } else { self.is_live() }
    }

    /// Whether a step has something to do.
    pub(super) fn wants(&self, horizon: Timestamp, may_begin: impl FnOnce() -> bool) -> bool {
        match (&self.phase, self.series.every) {
            (Phase::Start | Phase::Seek, _) => may_begin(),
            (Phase::Deleting(..), _) => true,
            (Phase::Fill(_, upto, target), None) => !self.is_told || upto < target,
            (Phase::Fill(_, upto, _), Some(every)) => !self.is_told || upto.later(every) <= horizon,
        }
    }

    /// Notes what failed; the step is taken again. Says whether it is something else than before.
    pub(super) fn fail(&mut self, error: String) -> bool {
        let is_new = self.status.error.as_ref() != Some(&error);
        self.status.error = Some(error);
        is_new
    }

    /// Takes a step; says whether there is more to do of the past.
    pub(super) fn step(&mut self, step: &mut Step<'_>) -> Result<bool, String> {
        let more = match &self.phase {
            Phase::Start => self.start(step)?,
            Phase::Deleting(..) => self.look_at_deletion(step)?,
            Phase::Seek => self.seek(step)?,
            Phase::Fill(..) => self.fill(step)?,
        };
        self.status.error = None;
        self.status.state = match &self.phase {
            Phase::Start | Phase::Seek => DerivedState::Waiting,
            Phase::Deleting(..) => DerivedState::Deleting,
            Phase::Fill(..) if more || !self.is_told => DerivedState::Backfilling,
            Phase::Fill(..) => DerivedState::Live,
        };
        Ok(more)
    }

    fn keep(&self, step: &mut Step<'_>, span: Option<(Timestamp, Timestamp)>, live_since: Option<Timestamp>) {
        step.kept.set(&self.series.topic, Kept { print: self.print, span, live_since });
    }

    fn start(&mut self, step: &mut Step<'_>) -> Result<bool, String> {
        let Some(kept) = step.kept.get(&self.series.topic) else {
            self.phase = Phase::Seek;
            return Ok(true);
        };
        let Some((from, upto)) = kept.span.filter(|_| kept.print == self.print) else {
            // A restart meanwhile deletes again.
            self.keep(step, None, None);
            step.kept.write().map_err(|error| error.to_string())?;
            return self.delete(step, EVER, None);
        };
        if self.series.every.is_none() && kept.live_since.is_some_and(|since| upto < since) {
            // What it made live meanwhile is calculated with the rest.
            return self.delete(step, upto, Some((from, upto)));
        }
        let last = piece::last_result(&reader(step)?, &self.series.topic, (upto, NEVER))?;
        match self.series.every {
            None => self.go_live(step, (from, last.map_or(upto, |last| piece::behind(last.time)))),
            Some(every) => {
                self.phase = Phase::Fill(from, last.map_or(upto, |last| last.time.later(every)), NEVER);
                Ok(true)
            }
        }
    }

    fn delete(
        &mut self,
        step: &Step<'_>,
        from: Timestamp,
        then: Option<(Timestamp, Timestamp)>,
    ) -> Result<bool, String> {
        let topics = piece::filter_of(&self.series.topic)?;
        let answer = step.handle.delete(Deletion { topics, from, to: NEVER });
        self.phase = Phase::Deleting(answer, then);
        Ok(false)
    }

    fn look_at_deletion(&mut self, step: &mut Step<'_>) -> Result<bool, String> {
        let Phase::Deleting(answer, then) = &self.phase else { return Ok(false) };
        let then = *then;
        match answer.try_recv() {
            Err(TryRecvError::Empty) => Ok(false),
            Ok(Ok(deleted)) => {
                let (topic, samples) = (&self.series.topic, deleted.samples);
                tracing::info!(%topic, samples, "older results of a derived series were deleted");
                match (then, self.series.every) {
                    (Some(span), None) => self.go_live(step, span),
                    (_, _) => {
                        self.phase = Phase::Seek;
                        Ok(true)
                    }
                }
            }
            Ok(Err(error)) => self.begin_again(error),
            Err(TryRecvError::Disconnected) => self.begin_again("too many deletions wait".to_owned()),
        }
    }

    fn begin_again(&mut self, error: String) -> Result<bool, String> {
        self.phase = Phase::Start;
        Err(error)
    }

    /// Finds out where it begins.
    fn seek(&mut self, step: &mut Step<'_>) -> Result<bool, String> {
        let target = step.horizon;
        let first = match self.series.backfill {
            Some(back) => Some(earlier(target, back)),
            None => piece::first_sample(&reader(step)?, &self.series)?.into_iter().chain(step.first_below).min(),
        };
        let from = first.unwrap_or(target).min(target);
        let Some(every) = self.series.every else { return self.go_live(step, (from, from)) };
        let from = floor(from, every);
        self.phase = Phase::Fill(from, from, NEVER);
        self.keep(step, Some((from, from)), None);
        Ok(true)
    }

    /// From here on it makes its results live, and the thread those before, from `upto` on.
    fn go_live(&mut self, step: &mut Step<'_>, (from, upto): (Timestamp, Timestamp)) -> Result<bool, String> {
        let since = step.horizon.max(upto);
        let held = piece::held_before(&reader(step)?, &self.series, since)?;
        self.keep(step, Some((from, upto)), Some(since));
        step.kept.write().map_err(|error| error.to_string())?;
        (step.tell)(DerivedNews::Seed { topic: self.series.topic.clone(), print: self.print, since, held });
        self.phase = Phase::Fill(from, upto, since);
        Ok(true)
    }

    /// Calculates a piece, from where the one before ended.
    fn fill(&mut self, step: &mut Step<'_>) -> Result<bool, String> {
        let Phase::Fill(from, upto, target) = self.phase else { return Ok(false) };
        let reader = reader(step)?;
        let piece = match self.series.every {
            None => piece::changes(&reader, &self.series, (upto, target))?,
            Some(every) => {
                let end = floor(step.horizon, every).max(upto);
                piece::intervals(&reader, &self.series, every, (upto, end))?
            }
        };
        let Piece { points, upto, samples } = piece;
        let newest = points.last().cloned();
        self.status.samples += samples;
        self.status.results += points.len() as u64;
        let is_bad = |point: &&Point| point.quality.validity() == Validity::Bad;
        self.status.bad += points.iter().filter(is_bad).count() as u64;
        if !points.is_empty() {
            let seq = submit(step.handle, points.into_iter().map(|point| self.sample(point)).collect(), step.stop)?;
            // Series that take it read it next.
            wait_stored(step.handle, seq)?;
        }
        self.phase = Phase::Fill(from, upto, target);
        let live_since = self.series.every.is_none().then_some(target);
        self.keep(step, Some((from, upto)), live_since);
        let end = self.series.every.map_or(target, |every| floor(step.horizon, every));
        self.status.span = Some((from, upto, end.max(upto)));
        if upto < end {
            return Ok(true);
        }
        let stored = || piece::last_result(&reader, &self.series.topic, (from, NEVER));
        let newest = if self.is_told || newest.is_some() { newest } else { stored()? };
        self.is_told = true;
        if let Some(point) = newest {
            (step.tell)(DerivedNews::Newest { topic: self.series.topic.clone(), point });
        }
        Ok(false)
    }

    fn sample(&self, point: Point) -> Sample {
        let (time, topic) = (point.time, self.series.topic.clone());
        Sample { time, update: Update { topic, body: Body::Point(point) }, again: true }
    }
}

fn reader(step: &Step<'_>) -> Result<HistoryReader, String> {
    let reader = step.source.reader().map_err(piece::words)?;
    // As live results are: of what was recorded, whatever people edit later.
    Ok(reader.or_raw(true))
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(time.micros().saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
}

/// The beginning of the interval that a time is in.
fn floor(time: Timestamp, every: Duration) -> Timestamp {
    let every = i64::try_from(every.as_micros()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_micros(time.micros().div_euclid(every).saturating_mul(every))
}
