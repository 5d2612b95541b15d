//! Closed days become Parquet: a thread of its own reads what a day has in chunks, and writes it as one file, sorted by topic and
//! time. The store enters the file in place of the chunks.

use super::folder_of;
use super::parts;
use super::source::{Loaded, Loader};
use crate::store::StoreError;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use tieline_core::{Filter, Timestamp};
use tieline_series::{Column, Span, Step, Sweep};
use tieline_store::{
    ChunkRow, DAY_US, DayPlace, DayWriter, Extent, Fields, FileRow, INDEX_FILE, IndexReader, StoreError as FileError,
    file_name,
};

/// Samples of one topic that are written together.
const PIECE_SAMPLES: usize = 256 * 1024;

/// A day on its way into a file.
pub(super) struct Compaction {
    day: i32,
    path: PathBuf,
    thread: JoinHandle<Result<Compacted, FileError>>,
}

/// A day in its file.
pub(super) struct Compacted {
    pub(super) file: FileRow,
    pub(super) rows: Vec<ChunkRow>,
    pub(super) replaced: Vec<ChunkRow>,
    pub(super) samples: u64,
}

impl Compaction {
    /// Begins with a day. The file gets that number.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(data: &Path, day: i32, number: u32) -> Result<Self, StoreError> {
        let path = folder_of(data).join(file_name(number, Some(day)));
        let (data, to) = (data.to_owned(), path.clone());
        let thread = thread::Builder::new()
            .name("history-days".to_owned())
            .spawn(move || compact(&data, day, number, &to))
            .map_err(|error| StoreError::Failed(error.into()))?;
        Ok(Self { day, path, thread })
    }

    /// Which day.
    pub(super) const fn day(&self) -> i32 {
        self.day
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
            for path in [&self.path, &self.path.with_extension("part")] {
                // What is left of it is removed at the next start at the latest.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(done)
    }
}

fn compact(data: &Path, day: i32, number: u32, path: &Path) -> Result<Compacted, FileError> {
    let index = IndexReader::open(&folder_of(data).join(INDEX_FILE))?;
    let mut loader = Loader::new(data);
    let all = Filter::new("#").map_err(|error| FileError::Damaged(error.to_string()))?;
    let mut out = Out { writer: DayWriter::create(path)?, places: Vec::new(), replaced: Vec::new() };
    let start = Timestamp::from_micros(i64::from(day).saturating_mul(DAY_US));
    let end = Timestamp::from_micros(start.micros().saturating_add(DAY_US));
    for (topic_number, topic) in index.topics(&all)? {
        let chunks = index.chunks(topic_number, start, end)?;
        let spans: Vec<Span> = chunks.iter().map(|row| Span { first: row.first, last: row.last }).collect();
        let (mut sweep, mut piece) = (Sweep::new(&spans), Column::default());
        while let Some(step) = sweep.step() {
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
            if let (Some(row), Some(_)) = (one, &column) {
                out.replaced.push(row.clone());
            }
            match (step, column) {
                (Step::Open(number), Some(column)) => sweep.open(number, column),
                (Step::Whole(_), Some(column)) => out.add(&topic, topic_number, &mut piece, &column)?,
                (Step::Samples(column), _) => out.add(&topic, topic_number, &mut piece, &column)?,
                (Step::Open(_) | Step::Whole(_), None) => {}
            }
        }
        out.write(&topic, topic_number, piece)?;
    }
    out.finish(day, number)
}

struct Out {
    writer: DayWriter,
    places: Vec<(DayPlace, ChunkRow)>,
    replaced: Vec<ChunkRow>,
}

impl Out {
    fn add(
        &mut self,
        topic: &tieline_core::Topic,
        number: u32,
        piece: &mut Column,
        column: &Column,
    ) -> Result<(), FileError> {
        piece.append(column);
        if piece.len() >= PIECE_SAMPLES {
            self.write(topic, number, std::mem::take(piece))?;
        }
        Ok(())
    }

    fn write(&mut self, topic: &tieline_core::Topic, number: u32, piece: Column) -> Result<(), FileError> {
        let Some((first, last)) = piece.ends() else { return Ok(()) };
        let (samples, summary) = (piece.len() as u64, parts::encode(&piece));
        let tieline_series::Fields { times, kinds, qualities, floats, integers, blobs } = piece.into();
        let place = self.writer.add(topic, Fields { times, kinds, qualities, floats, integers, blobs })?;
        let extent = Extent { file: 0, offset: u64::from(place.group) << 32 | u64::from(place.row), bytes: 0 };
        let row = ChunkRow { number: 0, topic: number, first, last, extent, samples, summary, day: None };
        self.places.push((place, row));
        Ok(())
    }

    /// Every row of the index has a share of the file.
    fn finish(self, day: i32, number: u32) -> Result<Compacted, FileError> {
        let Self { writer, places, replaced } = self;
        let bytes = writer.finish()?;
        let all: u64 = places.iter().map(|(place, _)| u64::from(place.rows)).sum();
        let (mut given, mut done) = (0, 0);
        let share = |(place, row): (DayPlace, ChunkRow)| {
            done += u64::from(place.rows);
            let upto = u64::try_from(u128::from(bytes) * u128::from(done) / u128::from(all.max(1))).unwrap_or(bytes);
            let share = u32::try_from(upto - given).unwrap_or(u32::MAX);
            given = upto;
            ChunkRow { extent: Extent { file: number, bytes: share, ..row.extent }, day: Some(day), ..row }
        };
        let rows: Vec<ChunkRow> = places.into_iter().map(share).collect();
        Ok(Compacted { file: FileRow { number, bytes, day: Some(day) }, rows, replaced, samples: all })
    }
}
