//! One topic of an answer, on the way through its time: samples become rows, or buckets.

use super::fill::Filler;
use super::source::Source;
use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use tieline_core::{Point, Timestamp, Topic};
use tieline_series::{Aggregate, Aggregated, Buckets, Column, Datum, Editor, Marked, Samples, Span, Summary, Sweep};
use tieline_store::{Fields, Piece, Row};

/// Samples of a piece: no more than what the processor's cache holds.
const PIECE_SAMPLES_MAX: usize = 8192;
/// Buckets of a part: fewer are not worth a step to another thread.
pub(super) const PART_BUCKETS: usize = 4096;
/// What is shown of a bucket: its beginning, its aggregate, and the last edit whose time meets it.
pub(super) type Shown = (Timestamp, Aggregated, Option<u64>);

/// Buckets of one topic.
pub(super) struct Part {
    pub(super) topic: Topic,
    pub(super) buckets: VecDeque<Shown>,
}

impl Part {
    /// The row of the next bucket.
    pub(super) fn row(&mut self) -> Option<Row> {
        self.buckets.pop_front().map(|shown| bucket_row(&self.topic, shown))
    }
}

/// One topic on the way through its time.
pub(super) struct Walk {
    pub(super) number: Option<u32>,
    pub(super) topic: Topic,
    pub(super) sources: Vec<Source>,
    pub(super) sweep: Sweep,
    /// Where the topic has edits.
    pub(super) editor: Option<Editor>,
    /// From here on for this topic, and of one time behind so many samples.
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) skip: Option<(i64, u64)>,
    pub(super) out: Out,
    /// Whether all of its samples were taken.
    pub(super) is_finished: bool,
}

/// What a topic's samples become.
pub(super) enum Out {
    /// With the edit that changed each, where one of them was.
    Samples {
        ready: Samples,
        marks: VecDeque<u64>,
        last: Option<(i64, u64)>,
    },
    Buckets {
        buckets: Box<Buckets<Shown>>,
        aggregate: Aggregate,
        filler: Option<Box<Filler>>,
    },
}

impl Out {
    pub(super) const fn is_buckets(&self) -> bool {
        matches!(self, Self::Buckets { .. })
    }

    /// From where on samples are wanted again, when all before a time was taken.
    pub(super) fn resume(&mut self, time: Timestamp) -> Timestamp {
        match self {
            Self::Samples { .. } => time,
            Self::Buckets { buckets, .. } => buckets.discard_open().unwrap_or(time),
        }
    }
}

impl Walk {
    /// Takes samples as they were recorded.
    pub(super) fn take(&mut self, column: Arc<Column>) {
        let marked = match &mut self.editor {
            Some(editor) => editor.take(column),
            None => Marked { column, marks: VecDeque::new() },
        };
        self.take_shown(marked);
    }

    /// Takes what is known of samples that share their time with no other, where that is enough.
    pub(super) fn take_summary(&mut self, span: Span, summary: Option<&Summary>) -> bool {
        let Out::Buckets { buckets, aggregate, .. } = &mut self.out else { return false };
        let fits = |summary: &&Summary| aggregate.needs().fits(summary) && buckets.frame().holds(span);
        let Some(summary) = summary.filter(fits) else { return false };
        if let Some(editor) = &mut self.editor {
            if !editor.edits().spares(span) {
                return false;
            }
            buckets.add_samples(&editor.before(span.first).column);
        }
        buckets.add_summary(span.first, summary);
        true
    }

    /// Takes the samples that edits add before a time; says whether there were some.
    pub(super) fn add_before(&mut self, time: Timestamp) -> bool {
        let Some(editor) = &mut self.editor else { return false };
        let added = editor.before(time);
        let is_some = !added.column.is_empty();
        if is_some {
            self.take_shown(added);
        }
        is_some
    }

    fn take_shown(&mut self, Marked { column, marks }: Marked) {
        match &mut self.out {
            Out::Buckets { buckets, .. } => {
                buckets.add_samples_from(&column, column.count_before(self.from));
            }
            Out::Samples { ready, marks: of_ready, .. } => {
                let (start, end) = (column.count_before(self.from), column.count_before(self.to));
                *of_ready = marks;
                of_ready.drain(..start.min(of_ready.len()));
                *ready = Samples::new(column, start..end.max(start));
            }
        }
    }

    /// Whether there may be a row without another step.
    pub(super) fn has_row(&self) -> bool {
        match &self.out {
            Out::Samples { ready, .. } => ready.len() > 0,
            Out::Buckets { buckets, filler, .. } => {
                buckets.done() > 0 || filler.as_ref().is_some_and(|filler| self.is_finished && !filler.is_finished())
            }
        }
    }

    /// The samples that come next, so many at most; or a row.
    pub(super) fn piece(&mut self, count_max: usize) -> Option<Piece> {
        if let Out::Samples { ready, marks, .. } = &mut self.out
            && marks.is_empty()
            && ready.time().is_some_and(|time| self.skip.is_none_or(|(place, _)| place < time.micros()))
            && let Some(column) = ready.cut(count_max.min(PIECE_SAMPLES_MAX))
        {
            let tieline_series::Fields { times, kinds, qualities, floats, integers, blobs } = column.into();
            let fields = Fields { times, kinds, qualities, floats, integers, blobs };
            return Some(Piece::Samples(self.topic.clone(), fields));
        }
        self.row().map(Piece::Row)
    }

    /// The row of the next sample, of those that are ready.
    pub(super) fn row(&mut self) -> Option<Row> {
        let Out::Samples { ready, marks, last } = &mut self.out else { return None };
        for sample in ready {
            let edited = marks.pop_front().filter(|id| *id != 0);
            let time_us = sample.time.micros();
            let number = last.filter(|(time, _)| *time == time_us).map_or(0, |(_, number)| number + 1);
            *last = Some((time_us, number));
            if self.skip.is_some_and(|place| (time_us, number) <= place) {
                continue;
            }
            let is_payload = matches!(sample.datum, Datum::Opaque(_));
            let point = Point { value: sample.datum.into_value(), quality: sample.quality, time: sample.time };
            return Some(Row { is_payload, edited, ..row(&self.topic, point, 1, number) });
        }
        None
    }

    /// The buckets that come next, so many at least; or the last ones.
    pub(super) fn part(&mut self, count: usize) -> Option<Part> {
        let Out::Buckets { buckets, filler, .. } = &mut self.out else { return None };
        if buckets.done() < count && !self.is_finished {
            return None;
        }
        let buckets: VecDeque<Shown> = match filler.as_deref_mut() {
            None => buckets.take_done(),
            Some(filler) => {
                iter::from_fn(|| next_bucket(buckets, Some(filler), self.is_finished)).take(PART_BUCKETS).collect()
            }
        };
        // A name of its own: two threads that count the uses of one name wait for each other at each row.
        (!buckets.is_empty()).then(|| Part { topic: self.topic.unshared(), buckets })
    }
}

/// The bucket that comes next, of those that are ready.
fn next_bucket(buckets: &mut Buckets<Shown>, filler: Option<&mut Filler>, is_finished: bool) -> Option<Shown> {
    let Some(filler) = filler else { return buckets.poll() };
    loop {
        if let Some(shown) = filler.poll() {
            return Some(shown);
        }
        match buckets.poll() {
            Some(shown) => filler.push(shown),
            None if is_finished && !filler.is_finished() => filler.finish(),
            None => return None,
        }
    }
}

fn bucket_row(topic: &Topic, (start, found, edited): Shown) -> Row {
    let point = Point { value: found.datum.into_value(), quality: found.quality, time: start };
    Row { edited, ..row(topic, point, found.count, 0) }
}

fn row(topic: &Topic, point: Point, count: u64, number: u64) -> Row {
    Row { topic: topic.clone(), point, is_payload: false, count, number, edited: None }
}
