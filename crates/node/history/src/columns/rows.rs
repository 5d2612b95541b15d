//! An answer: rows, as they are read, topic by topic. Buckets of many topics are made by several threads.

use super::chunk_reader::{ChunkReader, Read};
use super::fill::{Fill, Filler};
use super::in_order::{InOrder, Worker, WorkerOf, threads_for};
use super::listing::{Journaled, Recorded, list};
use super::parts;
use super::policy::Cutoffs;
use super::question::{HistoryQuery, Order};
use super::reader::HistoryReader;
use super::source::Source;
use super::standing::Asked;
use super::timeline::Timeline;
use super::walk::{Out, PART_BUCKETS, Part, Walk};
use crate::edits::ActiveEdits;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Instant;
use tieline_core::{Timestamp, Topic};
use tieline_series::{Bucket, Buckets, Column, Editor, Frame, Grid, Samples, Step, Sweep};
use tieline_store::{Answer, ChunkRow, Piece, Row, StoreError};

/// Topics of a group that a thread makes buckets of, at most; and topics whose buckets are made before other threads begin.
const GROUP_TOPICS: usize = 16;
/// Topics that are looked up in the index in one go, at most; and bytes of what it says of them, about.
const LOOK_TOPICS: usize = 16;
const LOOK_BYTES: usize = 1 << 20;
/// Buckets of a group, about: while one thread gives its group, the others can make theirs.
const GROUP_BUCKETS: u64 = 8192;

/// A topic, and where its samples are.
struct Ready {
    topic: Topic,
    number: Option<u32>,
    /// From here on, and of one time behind so many samples.
    from: Timestamp,
    skip: Option<(i64, u64)>,
    heads: Vec<Arc<Column>>,
    rows: Vec<ChunkRow>,
}

/// An answer: rows, as they are read. A chunk that is damaged costs its own samples; how many are missing is said.
pub struct Rows<'r> {
    reader: &'r HistoryReader,
    chunks: ChunkReader,
    query: HistoryQuery,
    grid: Option<Grid>,
    from: Timestamp,
    to: Timestamp,
    /// Samples before them are not shown.
    cutoffs: Arc<Cutoffs>,
    topics: VecDeque<Recorded>,
    journaled: Journaled,
    edits: Arc<ActiveEdits>,
    ready: VecDeque<Ready>,
    walk: Option<Walk>,
    /// Has the rows, where they come in order of time.
    timeline: Option<Box<Timeline<'r>>>,
    began: Instant,
    /// Topics that this thread began with, and with how many it begins before others do.
    begun: usize,
    alone: usize,
    threads: Option<InOrder<Vec<Part>>>,
    /// What other threads gave.
    given: VecDeque<Part>,
    left: u64,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let row = self.row().transpose()?;
        self.left = if row.is_ok() { self.left - 1 } else { 0 };
        Some(row)
    }
}

impl Answer for Rows<'_> {
    fn topics(&self) -> Vec<Topic> {
        let walked = self.walk.iter().map(|walk| walk.topic.clone());
        let walked = walked.chain(self.ready.iter().map(|ready| ready.topic.clone()));
        let waiting = self.topics.iter().map(|recorded| recorded.topic.clone());
        walked.chain(waiting).chain(self.timeline.iter().flat_map(|timeline| timeline.topics())).collect()
    }

    fn piece(&mut self) -> Option<Result<Piece, StoreError>> {
        if self.timeline.is_some() || self.grid.is_some() || self.left == 0 {
            return self.next().map(|row| row.map(Piece::Row));
        }
        let count_max = usize::try_from(self.left).unwrap_or(usize::MAX);
        let piece = self.find(|walk| walk.piece(count_max)).transpose()?;
        self.left = piece.as_ref().map_or(0, |piece| self.left - piece.rows() as u64);
        Some(piece)
    }
}

impl<'r> Rows<'r> {
    pub(super) fn new(reader: &'r HistoryReader, query: HistoryQuery) -> Result<Self, StoreError> {
        if query.order == Order::Time {
            let (left, timeline) = (query.limit.unwrap_or(u64::MAX), Timeline::new(reader, query.clone())?);
            let rows = Self::of(reader, HistoryQuery { after: None, ..query }, VecDeque::new(), Journaled::none())?;
            return Ok(Self { timeline: Some(Box::new(timeline)), left, ..rows });
        }
        let (topics, journaled) = list(reader, &query.topics, |_| true)?;
        // A page is too short for several threads.
        let alone = if query.limit.is_none() && query.grid()?.is_some() { GROUP_TOPICS } else { usize::MAX };
        Ok(Self { alone, ..Self::of(reader, query, topics.into(), journaled)? })
    }

    /// The rows of topics that are known, in their order.
    pub(super) fn of(
        reader: &'r HistoryReader,
        query: HistoryQuery,
        mut topics: VecDeque<Recorded>,
        journaled: Journaled,
    ) -> Result<Self, StoreError> {
        let grid = query.grid()?;
        let from = query.from.unwrap_or(Timestamp::from_micros(i64::MIN));
        let to = query.to.unwrap_or(Timestamp::from_micros(i64::MAX));
        if let Some(place) = &query.after {
            topics.retain(|recorded| recorded.topic >= place.topic);
        }
        let (left, chunks) = (query.limit.unwrap_or(u64::MAX), ChunkReader::new(reader.loader()));
        let (timeline, cutoffs, edits) = (None, reader.cutoffs(), reader.edits()?);
        Ok(Self {
            reader,
            chunks,
            query,
            grid,
            from,
            to,
            cutoffs,
            topics,
            journaled,
            edits,
            ready: VecDeque::new(),
            walk: None,
            timeline,
            began: Instant::now(),
            begun: 0,
            alone: usize::MAX,
            threads: None,
            given: VecDeque::new(),
            left,
        })
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        let of_threads = self.threads.as_ref().map_or(0, InOrder::damaged);
        self.timeline.as_ref().map_or(self.chunks.damaged() + of_threads, |timeline| timeline.damaged())
    }

    fn row(&mut self) -> Result<Option<Row>, StoreError> {
        if let Some(timeline) = &mut self.timeline {
            return timeline.find();
        }
        loop {
            if let Some(part) = self.given.front_mut() {
                if let Some(row) = part.row() {
                    return Ok(Some(row));
                }
                self.given.pop_front();
            } else if let Some(threads) = &mut self.threads {
                match threads.part()? {
                    Some(parts) => self.given = parts.into(),
                    None => return Ok(None),
                }
            } else if self.grid.is_none() {
                return self.find(Walk::row);
            } else {
                match self.part()? {
                    Some(parts) => self.given = parts.into(),
                    // Others go on.
                    None if self.threads.is_some() => {}
                    None => return Ok(None),
                }
            }
        }
    }

    /// Has threads make the buckets of the topics that are left; says false where this one is as good.
    fn start_threads(&mut self) -> Result<bool, StoreError> {
        self.alone = usize::MAX;
        // There is no limit: what is not left was given.
        let of_topic = ((u64::MAX - self.left) / self.begun.max(1) as u64).max(1);
        let group = usize::try_from(GROUP_BUCKETS / of_topic).unwrap_or(GROUP_TOPICS).clamp(1, GROUP_TOPICS);
        let threads = threads_for(self.began, self.begun, self.ready.len() + self.topics.len(), group);
        let Some(threads) = threads else { return Ok(false) };
        let looked = self.ready.drain(..).map(|Ready { topic, number, .. }| Recorded { topic, number });
        let topics: Vec<Recorded> = looked.chain(self.topics.drain(..)).collect();
        let groups = topics.chunks(group).map(<[Recorded]>::to_vec).collect();
        let (query, journaled) = (self.query.clone(), self.journaled.clone());
        self.threads = Some(InOrder::start(self.reader, groups, threads, move |reader| {
            let rows = Rows::of(reader, query.clone(), VecDeque::new(), journaled.clone())?;
            Ok(Box::new(rows) as WorkerOf<'_, Vec<Part>>)
        })?);
        Ok(true)
    }

    /// Finds what `take` takes of a topic's rows; nothing once other threads go on.
    fn find<T>(&mut self, take: impl Fn(&mut Walk) -> Option<T>) -> Result<Option<T>, StoreError> {
        loop {
            // Most rows are ready.
            if let Some(row) = self.walk.as_mut().and_then(&take) {
                return Ok(Some(row));
            }
            let Some(mut walk) = self.walk.take() else {
                if self.begun >= self.alone && self.start_threads()? {
                    return Ok(None);
                }
                if self.ready.is_empty() {
                    self.look()?;
                }
                let Some(ready) = self.ready.pop_front() else { return Ok(None) };
                self.begun += 1;
                self.walk = Some(self.begin(ready)?);
                continue;
            };
            // At the end of a topic buckets may have some more.
            if self.advance(&mut walk)? || walk.has_row() {
                self.walk = Some(walk);
            }
        }
    }

    /// Looks up where the samples of the next topics are.
    fn look(&mut self) -> Result<(), StoreError> {
        let mut topics = mem::take(&mut self.topics);
        let count = self.begun.clamp(1, LOOK_TOPICS).min(topics.len());
        // Heads first: what becomes a chunk meanwhile is met twice, and counts once.
        let mut ready = Vec::with_capacity(count);
        for Recorded { topic, number } in topics.drain(..count) {
            let (from, skip) = self.begins(&topic);
            let heads = self.heads(number, &topic, self.heads_from(from))?;
            ready.push(Ready { topic, number, from, skip, heads, rows: Vec::new() });
        }
        self.topics = topics;
        self.reader.index.hold()?;
        let looked = self.look_held(ready);
        self.reader.index.release()?;
        looked
    }

    fn look_held(&mut self, ready: Vec<Ready>) -> Result<(), StoreError> {
        let (mut bytes, mut put_back) = (0, Vec::new());
        for mut one in ready {
            if bytes >= LOOK_BYTES {
                put_back.push(Recorded { topic: one.topic, number: one.number });
                continue;
            }
            one.rows = self.rows_of(one.number, one.from)?;
            bytes += one.rows.iter().map(|row| size_of::<ChunkRow>() + row.summary.len()).sum::<usize>();
            self.ready.push_back(one);
        }
        put_back.into_iter().rev().for_each(|recorded| self.topics.push_front(recorded));
        Ok(())
    }

    /// From where on samples of a topic are wanted; and of one time behind so many.
    fn begins(&self, topic: &Topic) -> (Timestamp, Option<(i64, u64)>) {
        let from = self.cutoffs.of(topic).map_or(self.from, |cutoff| cutoff.max(self.from));
        let Some(place) = self.query.after.as_ref().filter(|place| place.topic == *topic) else { return (from, None) };
        let time = Timestamp::from_micros(place.time_us);
        let frame = |grid: &Grid| Frame { from: time.min(from), to: self.to, grid: grid.clone() };
        let behind = self.grid.as_ref().map_or(Some(time), |grid| frame(grid).bucket(time).map(|(_, end)| end));
        let skip = self.grid.is_none().then_some((place.time_us, place.number));
        (from.max(behind.unwrap_or(time)), skip)
    }

    fn begin(&mut self, ready: Ready) -> Result<Walk, StoreError> {
        let Ready { topic, number, from, skip, heads, rows } = ready;
        let sources = Source::all(rows, &heads, from, self.to);
        let edits = self.edits.of(&topic);
        let out = match &self.grid {
            None => Out::Samples { ready: Samples::default(), marks: VecDeque::new(), last: None },
            Some(grid) => {
                let (aggregate, fill) = (self.query.aggregate, self.query.fill);
                let frame = Frame { from, to: self.to, grid: grid.clone() };
                let filler = (fill != Fill::None).then(|| Box::new(Filler::new(fill, frame.clone())));
                let is_asked = aggregate.needs_standing();
                let asked = Asked { number, heads: &heads, edits: edits.as_deref(), from };
                let standing = if is_asked { asked.standing(self.reader, &mut self.chunks)? } else { None };
                let of_topic = edits.clone();
                let of = Box::new(move |bucket: &Bucket| {
                    let edited = of_topic.as_ref().and_then(|edits| edits.last_between(bucket.from, bucket.end));
                    Some((bucket.start, aggregate.of(bucket)?, edited))
                });
                Out::Buckets {
                    buckets: Box::new(Buckets::new(frame, aggregate.needs(), standing, of)),
                    aggregate,
                    filler,
                }
            }
        };
        let sweep = Sweep::new(&sources.iter().map(Source::span).collect::<Vec<_>>());
        let editor = edits.map(|edits| Editor::new(edits, from));
        Ok(Walk { number, topic, sources, sweep, editor, from, to: self.to, skip, out, is_finished: false })
    }

    /// From where on heads are wanted: the number that stands before may be any of them.
    fn heads_from(&self, from: Timestamp) -> Timestamp {
        let is_asked = self.grid.is_some() && self.query.aggregate.needs_standing();
        if is_asked { Timestamp::from_micros(i64::MIN) } else { from }
    }

    /// What the index says of the samples of a topic from a time on.
    fn rows_of(&self, number: Option<u32>, from: Timestamp) -> Result<Vec<ChunkRow>, StoreError> {
        match number {
            Some(number) if self.reader.may_be_written(number, from) => self.reader.index.chunks(number, from, self.to),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// The samples of a topic from a time on that may be in no chunk; earlier ones may be among them.
    fn heads(&mut self, number: Option<u32>, topic: &Topic, from: Timestamp) -> Result<Vec<Arc<Column>>, StoreError> {
        if !self.journaled.is_read() {
            let live = match number {
                Some(number) => self.reader.unwritten(number, from),
                // It has samples that edits add, and no others.
                None => self.reader.is_live().then(Vec::new),
            };
            if let Some(columns) = live {
                return Ok(columns);
            }
            // The store was closed since.
            self.journaled.read(self.reader)?;
        }
        Ok(self.journaled.of(topic))
    }

    /// Takes one step. Says false at the end of the topic.
    fn advance(&mut self, walk: &mut Walk) -> Result<bool, StoreError> {
        let Some(step) = walk.sweep.step() else {
            if walk.add_before(walk.to) {
                return Ok(true);
            }
            if let Out::Buckets { buckets, .. } = &mut walk.out {
                buckets.finish();
            }
            walk.is_finished = true;
            return Ok(false);
        };
        let (one, is_whole) = match step {
            Step::Samples(column) => {
                walk.take(Arc::new(column));
                return Ok(true);
            }
            Step::Whole(one) => (one, true),
            Step::Open(one) => (one, false),
        };
        let Some(source) = walk.sources.get(one) else { return Ok(true) };
        let (span, summary) = (source.span(), source.summary().copied());
        if let Source::Day(row) = source
            && is_whole
            && walk.out.is_buckets()
        {
            let row = Arc::clone(row);
            self.take_hours(walk, &row)?;
            return Ok(true);
        }
        if is_whole && walk.take_summary(span, summary.as_ref()) {
            return Ok(true);
        }
        match self.load_one(walk, one)? {
            Read::Column(column) if is_whole => walk.take(column),
            Read::Column(column) => walk.sweep.open(one, column),
            Read::Damaged => {}
            Read::Moved => self.look_again(walk, span.first)?,
        }
        Ok(true)
    }

    fn load_one(&mut self, walk: &Walk, one: usize) -> Result<Read, StoreError> {
        walk.sources.get(one).map_or(Ok(Read::Damaged), |source| self.load(source))
    }

    /// Takes the hours of a day into buckets. Samples are read of those of which the index does not say enough.
    fn take_hours(&mut self, walk: &mut Walk, row: &Arc<ChunkRow>) -> Result<(), StoreError> {
        let mut done = 0;
        for part in parts::decode(&row.summary) {
            // From one that cannot be read on, the samples themselves say all.
            let end = part.as_ref().map_or(usize::MAX, |part| part.end);
            let first = part.as_ref().map_or(row.first, |part| part.span.first);
            if part.is_ok_and(|part| walk.take_summary(part.span, Some(&part.summary))) {
                done = end;
                continue;
            }
            match self.load(&Source::Day(Arc::clone(row)))? {
                Read::Column(column) => walk.take(Arc::new(column.range(done..end.min(column.len())))),
                Read::Damaged => return Ok(()),
                Read::Moved => return self.look_again(walk, first),
            }
            done = end;
        }
        Ok(())
    }

    /// The samples of a topic are elsewhere now from a time on; all before it were given out.
    fn look_again(&mut self, walk: &mut Walk, time: Timestamp) -> Result<(), StoreError> {
        walk.add_before(time);
        walk.from = walk.out.resume(time);
        walk.editor.iter_mut().for_each(|editor| editor.rewind(walk.from));
        let heads = self.heads(walk.number, &walk.topic, self.heads_from(walk.from))?;
        walk.sources = Source::all(self.rows_of(walk.number, walk.from)?, &heads, walk.from, self.to);
        walk.sweep = Sweep::new(&walk.sources.iter().map(Source::span).collect::<Vec<_>>());
        Ok(())
    }

    fn load(&mut self, source: &Source) -> Result<Read, StoreError> {
        self.chunks.read(&self.reader.index, source)
    }
}

impl Worker for Rows<'_> {
    type Part = Vec<Part>;

    fn begin(&mut self, group: Vec<Recorded>) {
        self.topics.extend(group);
    }

    fn part(&mut self) -> Result<Option<Vec<Part>>, StoreError> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(PART_BUCKETS);
        let (mut parts, mut count) = (Vec::new(), 0);
        while count < wanted
            && let Some(part) = self.find(|walk| walk.part(wanted - count))?
        {
            count += part.buckets.len();
            parts.push(part);
        }
        Ok(Some(parts).filter(|parts| !parts.is_empty()))
    }

    fn damaged(&self) -> u64 {
        self.chunks.damaged()
    }
}
