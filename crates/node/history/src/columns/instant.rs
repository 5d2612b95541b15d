//! The last sample of each topic at an instant.
//!
//! ```text
//! a group of topics ─▶ heads, one look for all ─▶ the index, held ─▶ of each topic: chunks around the instant ─▶ its summary, or its samples
//! ```
//!
//! Several threads answer about many topics, group by group; the first groups are answered at once, as a page has no more.
//! A topic costs one look into the index and at most the chunks that overlap the last one that begins before the instant, however
//! much history it has.

use super::chunk_reader::{ChunkReader, Read};
use super::in_order::{InOrder, Worker, WorkerOf, threads_for};
use super::listing::{Journaled, Recorded, list};
use super::live::ColumnsOf;
use super::policy::Cutoffs;
use super::reader::HistoryReader;
use super::source::Source;
use crate::edits::ActiveEdits;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use std::vec;
use tieline_core::{Filter, Quality, Timestamp, Topic};
use tieline_series::{Column, Sample};
use tieline_store::StoreError;

/// Topics whose heads are copied in one go.
const GROUP_TOPICS: usize = 256;
/// The same of the first group: a short page needs no more.
const GROUP_FIRST: usize = 16;
/// Topics that are answered before other threads begin.
const ALONE_TOPICS: usize = 1024;

/// The last sample of a topic, and the edit that changed it last.
type Found = (Topic, Sample, Option<u64>);

/// An answer: the last sample of each topic that has one not behind the instant, as it is read.
pub struct Latest<'r> {
    reader: &'r HistoryReader,
    chunks: ChunkReader,
    time: Timestamp,
    /// Samples before them are too old to be shown.
    cutoffs: Arc<Cutoffs>,
    topics: VecDeque<Recorded>,
    /// Those of the group that is answered.
    heads: ColumnsOf,
    journaled: Journaled,
    edits: Arc<ActiveEdits>,
    began: Instant,
    /// Topics that this thread answered, and how many it answers before others begin.
    answered: usize,
    alone: usize,
    threads: Option<InOrder<Vec<Found>>>,
    /// What was found of a group.
    found: vec::IntoIter<Found>,
    is_over: bool,
}

impl<'r> Latest<'r> {
    pub(super) fn new(
        reader: &'r HistoryReader,
        filters: &[Filter],
        time: Timestamp,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Self, StoreError> {
        let (topics, journaled) = list(reader, filters, is_meant)?;
        Ok(Self { topics: topics.into(), alone: ALONE_TOPICS, ..Self::of(reader, time, journaled, reader.edits()?) })
    }

    /// An answer about no topics.
    fn of(reader: &'r HistoryReader, time: Timestamp, journaled: Journaled, edits: Arc<ActiveEdits>) -> Self {
        Self {
            reader,
            chunks: ChunkReader::new(reader.loader()),
            time,
            cutoffs: reader.cutoffs(),
            topics: VecDeque::new(),
            heads: ColumnsOf::new(),
            journaled,
            edits,
            began: Instant::now(),
            answered: 0,
            alone: usize::MAX,
            threads: None,
            found: Vec::new().into_iter(),
            is_over: false,
        }
    }

    /// Puts the topics in another order than that of their names.
    pub fn sort_by(&mut self, mut compare: impl FnMut(&Topic, &Topic) -> Ordering) {
        self.topics.make_contiguous().sort_by(|one, other| compare(&one.topic, &other.topic));
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.chunks.damaged() + self.threads.as_ref().map_or(0, InOrder::damaged)
    }

    fn find(&mut self) -> Result<Option<Found>, StoreError> {
        loop {
            if let Some(found) = self.found.next() {
                return Ok(Some(found));
            }
            if self.answered >= self.alone {
                self.start_threads()?;
            }
            let part = match &mut self.threads {
                Some(threads) => threads.part()?,
                None => self.part()?,
            };
            match part {
                Some(found) => self.found = found.into_iter(),
                None => return Ok(None),
            }
        }
    }

    /// Has threads answer about the topics that are left, where they are faster.
    fn start_threads(&mut self) -> Result<(), StoreError> {
        self.alone = usize::MAX;
        let threads = threads_for(self.began, self.answered, self.topics.len(), GROUP_TOPICS);
        let Some(threads) = threads else { return Ok(()) };
        let topics: Vec<Recorded> = self.topics.drain(..).collect();
        let groups = topics.chunks(GROUP_TOPICS).map(<[Recorded]>::to_vec).collect();
        let (time, journaled, edits) = (self.time, self.journaled.clone(), Arc::clone(&self.edits));
        self.threads = Some(InOrder::start(self.reader, groups, threads, move |reader| {
            let latest = Latest::of(reader, time, journaled.clone(), Arc::clone(&edits));
            Ok(Box::new(latest) as WorkerOf<'_, Vec<Found>>)
        })?);
        Ok(())
    }

    /// Answers about a group of topics.
    fn answer(&mut self, group: Vec<Recorded>) -> Result<Vec<Found>, StoreError> {
        self.answered += group.len();
        self.take_heads(&group)?;
        // Heads first: what becomes a chunk meanwhile is met twice, and counts once.
        self.reader.index.hold()?;
        let found = self.answer_held(group);
        self.reader.index.release()?;
        found
    }

    fn answer_held(&mut self, group: Vec<Recorded>) -> Result<Vec<Found>, StoreError> {
        let mut all = Vec::with_capacity(group.len());
        for Recorded { topic, number } in group {
            let heads = self.heads_of(number, &topic);
            let shown = self.shown(number, &topic, &heads)?;
            let found = shown.filter(|(sample, _)| Some(sample.time) >= self.cutoffs.of(&topic));
            all.extend(found.map(|(sample, edited)| (topic, sample, edited)));
        }
        Ok(all)
    }

    /// Copies the heads of topics.
    fn take_heads(&mut self, group: &[Recorded]) -> Result<(), StoreError> {
        if !self.journaled.is_read() {
            let numbers: Vec<u32> = group.iter().filter_map(|recorded| recorded.number).collect();
            match self.reader.unwritten_of(&numbers, self.time) {
                Some(heads) => self.heads = heads,
                // The store was closed since.
                None => self.journaled.read(self.reader)?,
            }
        }
        Ok(())
    }

    fn heads_of(&mut self, number: Option<u32>, topic: &Topic) -> Vec<Arc<Column>> {
        if self.journaled.is_read() {
            return self.journaled.of(topic);
        }
        number.and_then(|number| self.heads.remove(&number)).unwrap_or_default()
    }

    /// The last sample of a topic as it is shown, and the edit that changed it last.
    fn shown(
        &mut self,
        number: Option<u32>,
        topic: &Topic,
        heads: &[Arc<Column>],
    ) -> Result<Option<(Sample, Option<u64>)>, StoreError> {
        let Some(edits) = self.edits.of(topic) else {
            return Ok(self.last(number, heads, self.time)?.map(|sample| (sample, None)));
        };
        let (mut time, mut recorded) = (self.time, None);
        while let Some(sample) = self.last(number, heads, time)? {
            match edits.excluded_since(sample.time).map(|since| since.micros().checked_sub(1)) {
                Some(Some(before)) => time = Timestamp::from_micros(before),
                Some(None) => break,
                None => {
                    recorded = edits.edited(sample);
                    break;
                }
            }
        }
        let added = edits.last_added(self.time).map(|(sample, by)| (sample, Some(by)));
        // One that was added comes behind others of its time.
        Ok(added.into_iter().chain(recorded).reduce(|one, other| if other.0.time > one.0.time { other } else { one }))
    }

    /// The last sample that is not behind a time.
    fn last(
        &mut self,
        number: Option<u32>,
        heads: &[Arc<Column>],
        time: Timestamp,
    ) -> Result<Option<Sample>, StoreError> {
        let heads: Vec<Column> = heads.iter().map(|column| column.latest(time)).collect();
        let of_heads = heads.iter().filter_map(|column| column.ends()).map(|(_, last)| last).max();
        let mut before = time;
        // Once, unless chunks are damaged.
        'again: while let Some(number) = number
            && let floor = of_heads.unwrap_or(Timestamp::from_micros(i64::MIN))
            && let Some((_, rows)) = self.reader.index.chunks_around(number, before, floor)?
            && !rows.is_empty()
        {
            let mut sources: Vec<Source> = rows.into_iter().flat_map(Source::of).collect();
            sources.retain(|source| source.span().first <= before);
            let Some(begin) = sources.iter().map(|source| source.span().first).max() else { break };
            sources.retain(|source| source.span().last >= begin);
            let mut parts = Vec::new();
            for source in &sources {
                let is_alone = sources.len() == 1 && of_heads.is_none();
                if let Some(sample) = told_last(source, time).filter(|_| is_alone) {
                    return Ok(Some(sample));
                }
                match self.chunks.read(&self.reader.index, source)? {
                    Read::Column(column) => parts.push(column.latest(time)),
                    Read::Damaged => {}
                    Read::Moved => continue 'again,
                }
            }
            parts.extend(heads.iter().cloned());
            let found = last_of(&parts);
            if found.as_ref().is_some_and(|sample| sample.time >= begin) {
                return Ok(found);
            }
            let Some(earlier) = begin.micros().checked_sub(1) else { break };
            before = Timestamp::from_micros(earlier);
        }
        Ok(last_of(&heads))
    }
}

impl Worker for Latest<'_> {
    type Part = Vec<Found>;

    fn begin(&mut self, group: Vec<Recorded>) {
        self.topics.extend(group);
    }

    fn part(&mut self) -> Result<Option<Vec<Found>>, StoreError> {
        let count = self.answered.clamp(GROUP_FIRST, GROUP_TOPICS).min(self.topics.len());
        let group: Vec<Recorded> = self.topics.drain(..count).collect();
        if group.is_empty() { Ok(None) } else { self.answer(group).map(Some) }
    }

    fn damaged(&self) -> u64 {
        self.chunks.damaged()
    }
}

impl Iterator for Latest<'_> {
    type Item = Result<Found, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.find().transpose();
        self.is_over = !matches!(found, Some(Ok(_)));
        found
    }
}

/// The last sample of all, of columns that came one after the other.
fn last_of(parts: &[Column]) -> Option<Sample> {
    let last = parts.iter().filter_map(|part| part.ends()).map(|(_, last)| last).max()?;
    let mut together: Column = parts
        .iter()
        .flat_map(|part| part.range(part.count_before(last)..part.len()).iter().collect::<Vec<_>>())
        .collect();
    together.settle();
    together.iter().last()
}

/// The last sample of a source that ends before the instant, where its summary says all of it: where all are good numbers of a kind.
fn told_last(source: &Source, time: Timestamp) -> Option<Sample> {
    let (last, (_, samples)) = (source.span().last, source.row()?);
    let summary = source.summary().filter(|_| last <= time)?;
    let numbers = summary.numbers.filter(|numbers| numbers.count == samples && numbers.reasons == Quality::GOOD)?;
    let (when, number) = numbers.last;
    (when == last).then_some(Sample { time: when, datum: numbers.kind?.datum(number), quality: Quality::GOOD })
}
