//! Closed days become Parquet: a thread of its own reads what a day has in chunks, and writes it as one file, sorted by topic and
//! time. The store enters the file in place of the chunks. Samples are deleted of closed days in the same way: another file is written
//! without them; and so are samples removed and down-sampled by rules.

use super::folder_of;
use super::parts;
use super::policy::{Action, Plan};
use super::source::{Loaded, Loader};
use crate::store::{Deletion, StoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use tieline_core::{StorageError, StorageErrorKind, Timestamp, Topic};
use tieline_series::{Column, Downsampler, Span, Step, Sweep};
use tieline_store::{
    ChunkRow, DAY_US, DayPlace, DayWriter, Extent, Fields, FileRow, INDEX_FILE, IndexReader, RuleCounts,
    StoreError as FileError, WrittenDay, file_name,
};

/// Samples of one topic that are written together.
pub(crate) const PIECE_SAMPLES: usize = 256 * 1024;

/// What is written of a day.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// All of it.
    Close {
        /// What is done with it.
        plan: Plan,
        /// Chunks from this number on came later, and stay.
        before: i64,
        /// Whether a rule has it written again.
        is_again: bool,
    },
    /// All of it as it is, without samples that are to be deleted.
    Delete(Deletion),
}

/// A day on its way into a file.
pub(super) struct Compaction {
    day: i32,
    path: PathBuf,
    work: Work,
    /// Nobody wants the file any more.
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Compacted, FileError>>,
}

/// A day in its file.
pub(super) struct Compacted {
    pub(super) file: FileRow,
    pub(super) rows: Vec<ChunkRow>,
    pub(super) replaced: Vec<ChunkRow>,
    pub(super) samples: u64,
    pub(super) check: u32,
    /// Samples that were left out because they are to be deleted.
    pub(super) deleted: u64,
    /// Samples that cannot be read, and stay where they are.
    pub(super) damaged: u64,
    /// What came of rules, by their places.
    pub(super) counts: Vec<RuleCounts>,
    /// What the day went through, as text; none where that is as before.
    pub(super) plan: Option<String>,
}

/// How much this thread is set back: with as much to do, others get nine times the processor.
const NICE: i32 = 10;

/// What is recorded, and who asks, go before a day that is over. Where the system refuses, all are equal.
fn yield_to_others() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

impl Compaction {
    /// Begins with a day. The file gets that number.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(data: &Path, day: i32, number: u32, work: Work) -> Result<Self, StoreError> {
        let path = folder_of(data).join(file_name(number, Some(day)));
        let (data, to, what) = (data.to_owned(), path.clone(), work.clone());
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let thread = thread::Builder::new()
            .name("history-days".to_owned())
            .spawn(move || {
                if !matches!(what, Work::Delete(_)) {
                    yield_to_others();
                }
                compact(&data, (day, number), &to, &what, &over)
            })
            .map_err(|error| StoreError::Failed(error.into()))?;
        Ok(Self { day, path, work, is_over, thread })
    }

    /// Which day.
    pub(super) const fn day(&self) -> i32 {
        self.day
    }

    /// Whether samples are deleted.
    pub(super) const fn is_deletion(&self) -> bool {
        matches!(self.work, Work::Delete(_))
    }

    /// Whether a rule has the day written again.
    pub(super) const fn is_again(&self) -> bool {
        matches!(self.work, Work::Close { is_again: true, .. })
    }

    /// What became of it, where it has ended.
    pub(super) fn poll(self) -> Result<Result<Compacted, StoreError>, Self> {
        if !self.thread.is_finished() {
            return Err(self);
        }
        let done = match self.thread.join() {
            Ok(done) => done.map_err(StoreError::from),
            Err(_) => Err(StoreError::Failed("the thread that writes day files panicked".into())),
        };
        if done.is_err() {
            remove(&self.path);
        }
        Ok(done)
    }

    /// Held by the thread, too, for as long as it runs.
    #[cfg(test)]
    pub(super) fn held(&self) -> std::sync::Weak<AtomicBool> {
        Arc::downgrade(&self.is_over)
    }

    /// Ends it without a file: what the day has stays in its chunks. No thread writes below the folder any more then: the next
    /// that opens it may begin with the same file.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            tracing::warn!("the thread that writes day files panicked");
        }
        remove(&self.path);
    }
}

/// Removes what there is of a file. What is left of it is removed at the next start at the latest.
fn remove(path: &Path) {
    for path in [path, &path.with_extension("part")] {
        let _ = std::fs::remove_file(path);
    }
}

fn compact(
    data: &Path,
    (day, number): (i32, u32),
    path: &Path,
    work: &Work,
    is_over: &AtomicBool,
) -> Result<Compacted, FileError> {
    let index = IndexReader::open(&folder_of(data).join(INDEX_FILE))?;
    let mut loader = Loader::new(data);
    let mut out = Out::new(DayWriter::create(path)?);
    let start = Timestamp::from_micros(i64::from(day).saturating_mul(DAY_US));
    let end = Timestamp::from_micros(start.micros().saturating_add(DAY_US));
    for (topic_number, topic) in index.every_topic()? {
        let mut chunks = index.chunks(topic_number, start, end)?;
        out.begin(&topic, work, &mut chunks);
        let spans: Vec<Span> = chunks.iter().map(|row| Span { first: row.first, last: row.last }).collect();
        let (mut sweep, mut piece) = (Sweep::new(&spans), Column::default());
        while let Some(step) = sweep.step() {
            if is_over.load(Ordering::Relaxed) {
                let message = "the history is being closed".to_owned();
                return Err(StorageError { kind: StorageErrorKind::Io, message }.into());
            }
            let one = match &step {
                Step::Whole(one) | Step::Open(one) => chunks.get(*one),
                Step::Samples(_) => None,
            };
            let column = match one.map(|row| loader.chunk(row)).transpose()? {
                Some(Loaded::Column(column)) => Some(column),
                // Damaged chunks stay where they are: the day says what it has.
                Some(Loaded::Damaged(_) | Loaded::Missing) => None,
                None => None,
            };
            match (one, &column) {
                (Some(row), Some(_)) => out.replaced.push(row.clone()),
                (Some(row), None) if out.without.is_some() || row.day.is_some() => out.damaged += row.samples,
                (Some(_) | None, _) => {}
            }
            match (step, column) {
                (Step::Open(number), Some(column)) => sweep.open(number, column),
                (Step::Whole(_), Some(column)) => out.add(&topic, topic_number, &mut piece, &column)?,
                (Step::Samples(column), _) => out.add(&topic, topic_number, &mut piece, &column)?,
                (Step::Open(_) | Step::Whole(_), None) => {}
            }
        }
        out.end(&topic, topic_number, piece)?;
    }
    out.finish(day, number, work)
}

struct Out {
    writer: DayWriter,
    places: Vec<ChunkRow>,
    replaced: Vec<ChunkRow>,
    /// Which samples of the topic are deleted: from a time on, and before another.
    without: Option<(Timestamp, Timestamp)>,
    /// Has others stand for the samples of the topic.
    downsampler: Option<Downsampler>,
    /// The place of the topic's rule.
    rule: usize,
    counts: Vec<RuleCounts>,
    deleted: u64,
    damaged: u64,
}

impl Out {
    fn new(writer: DayWriter) -> Self {
        let (places, replaced, counts) = (Vec::new(), Vec::new(), Vec::new());
        let (without, downsampler, rule, deleted, damaged) = (None, None, 0, 0, 0);
        Self { writer, places, replaced, without, downsampler, rule, counts, deleted, damaged }
    }

    /// Begins with a topic. Chunks that are left out as a whole need not be read.
    fn begin(&mut self, topic: &Topic, work: &Work, chunks: &mut Vec<ChunkRow>) {
        match work {
            Work::Delete(what) => {
                self.without = what.topics.matches(topic).then_some((what.from, what.to));
                self.drop_whole(chunks);
            }
            Work::Close { plan, before, .. } => {
                chunks.retain(|row| row.number < *before);
                let (rule, action) = plan.action(topic);
                self.counts.resize(plan.len(), RuleCounts::default());
                self.rule = rule;
                self.downsampler = match action {
                    Action::Downsample(every, keep) => Some(Downsampler::new(every, keep)),
                    Action::None | Action::Remove => None,
                };
                if action == Action::Remove {
                    let removed: u64 = chunks.iter().map(|row| row.samples).sum();
                    self.count(|counts| counts.removed += removed);
                    self.replaced.append(chunks);
                }
            }
        }
    }

    fn count(&mut self, change: impl FnOnce(&mut RuleCounts)) {
        if let Some(counts) = self.counts.get_mut(self.rule) {
            change(counts);
        }
    }

    /// Leaves out chunks of which all samples are deleted.
    fn drop_whole(&mut self, chunks: &mut Vec<ChunkRow>) {
        let Some((from, to)) = self.without else { return };
        for row in chunks.extract_if(.., |row| row.first >= from && row.last < to) {
            self.deleted += row.samples;
            self.replaced.push(row);
        }
    }

    fn add(&mut self, topic: &Topic, number: u32, piece: &mut Column, column: &Column) -> Result<(), FileError> {
        if let Some(mut downsampler) = self.downsampler.take() {
            downsampler.push(column);
            let few = downsampler.take();
            self.downsampler = Some(downsampler);
            self.count_fewer(column.len(), few.len());
            piece.append(&few);
        } else {
            match self.without.map(|(from, to)| (column.count_before(from), column.count_before(to))) {
                Some((start, end)) if start < end => {
                    self.deleted += (end - start) as u64;
                    piece.append(&column.range(0..start));
                    piece.append(&column.range(end..column.len()));
                }
                Some(_) | None => piece.append(column),
            }
        }
        if piece.len() >= PIECE_SAMPLES {
            self.write(topic, number, std::mem::take(piece))?;
        }
        Ok(())
    }

    /// So many samples were taken, and so many stand for them or for such that were taken before.
    fn count_fewer(&mut self, taken: usize, given: usize) {
        self.count(|counts| counts.downsampled = (counts.downsampled + taken as u64).saturating_sub(given as u64));
    }

    fn end(&mut self, topic: &Topic, number: u32, mut piece: Column) -> Result<(), FileError> {
        if let Some(downsampler) = self.downsampler.take() {
            let rest = downsampler.finish();
            self.count_fewer(0, rest.len());
            piece.append(&rest);
        }
        self.write(topic, number, piece)
    }

    fn write(&mut self, topic: &Topic, number: u32, piece: Column) -> Result<(), FileError> {
        let Some((first, last)) = piece.ends() else { return Ok(()) };
        let (samples, summary) = (piece.len() as u64, parts::encode(&piece));
        let tieline_series::Fields { times, kinds, qualities, floats, integers, blobs } = piece.into();
        let place = self.writer.add(topic, Fields { times, kinds, qualities, floats, integers, blobs })?;
        let extent = Extent { file: 0, offset: place_number(place), bytes: 0 };
        self.places.push(ChunkRow { number: 0, topic: number, first, last, extent, samples, summary, day: None });
        Ok(())
    }

    fn finish(self, day: i32, number: u32, work: &Work) -> Result<Compacted, FileError> {
        let Self { writer, places, replaced, deleted, damaged, counts, .. } = self;
        let WrittenDay { bytes, check } = writer.finish()?;
        let file = FileRow { number, bytes, day: Some(day) };
        let samples = places.iter().map(|row| row.samples).sum();
        let rows = share(places, file);
        let plan = match work {
            Work::Close { plan, .. } => Some(plan.text()),
            // Late samples joined those that went through one: all are to go through it again.
            Work::Delete(_) => replaced.iter().any(|row| row.day.is_none()).then(String::new),
        };
        Ok(Compacted { file, rows, replaced, samples, check, deleted, damaged, counts, plan })
    }
}

/// A place in a day file, as the index has it.
pub(crate) fn place_number(place: DayPlace) -> u64 {
    u64::from(place.group) << 32 | u64::from(place.row)
}

/// Every row of the index has a share of its day file, by its samples.
pub(crate) fn share(rows: Vec<ChunkRow>, file: FileRow) -> Vec<ChunkRow> {
    let all: u64 = rows.iter().map(|row| row.samples).sum();
    let (mut given, mut done) = (0, 0);
    let share = |row: ChunkRow| {
        done += row.samples;
        let upto = u128::from(file.bytes) * u128::from(done) / u128::from(all.max(1));
        let upto = u64::try_from(upto).unwrap_or(file.bytes);
        // A file is there for as long as one of its rows is: each has a byte.
        let share = u32::try_from(upto - given).unwrap_or(u32::MAX).max(1);
        given = upto;
        ChunkRow { extent: Extent { file: file.number, bytes: share, ..row.extent }, day: file.day, ..row }
    };
    rows.into_iter().map(share).collect()
}
