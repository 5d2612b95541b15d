//! Where samples of a topic are, and how they are read.

use super::folder_of;
use super::parts::{self, Part};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_core::{Cursor, Timestamp};
use tieline_series::{Chunk, Column, Fields, Span, Summary};
use tieline_store::{ChunkRow, DayFile, DayPlace, Extent, FolderStorage, StoreError, file_name, read_chunk};

/// Samples of a topic that lie together.
pub(super) enum Source {
    /// In memory.
    Head(Arc<Column>),
    /// In a chunk, with what it says of itself.
    Chunk(ChunkRow, Summary),
    /// In the index, a day of few samples, and in a day file. The row has no summary: the chunk says more.
    Few(Arc<ChunkRow>, Box<Chunk>),
    /// In a day file, an hour of them.
    Hour(Arc<ChunkRow>, Part),
    /// In a day file, all of a day.
    Day(Arc<ChunkRow>),
}

impl Source {
    fn new(mut row: ChunkRow) -> Self {
        if row.day.is_some() {
            let Some(chunk) = parts::chunk(&row.summary) else { return Self::Day(Arc::new(row)) };
            // The chunk has them: one copy is enough.
            row.summary = Vec::new();
            return Self::Few(Arc::new(row), Box::new(chunk));
        }
        let summary = Summary::get(&mut Cursor::new(&row.summary)).unwrap_or_default();
        Self::Chunk(row, summary)
    }

    /// What a row of the index stands for; of a day its hours.
    pub(super) fn of(row: ChunkRow) -> Vec<Self> {
        Self::new(row).into_hours()
    }

    /// What rows of the index and heads stand for that may have samples from a time on and before another, in the order in which
    /// they came. A day that is meant as a whole and that no other overlaps is one; of other days the hours are.
    pub(super) fn all(rows: Vec<ChunkRow>, heads: &[Arc<Column>], from: Timestamp, to: Timestamp) -> Vec<Self> {
        let is_meant = |source: &Self| source.span().last >= from && source.span().first < to;
        let of_heads = heads.iter().filter(|column| !column.is_empty()).cloned().map(Self::Head);
        let all: Vec<Self> = rows.into_iter().map(Self::new).chain(of_heads).filter(is_meant).collect();
        let alone = alone(&all.iter().map(Self::span).collect::<Vec<_>>());
        let mut found = Vec::with_capacity(all.len());
        for (source, is_alone) in all.into_iter().zip(alone) {
            let span = source.span();
            if is_alone && span.first >= from && span.last < to {
                found.push(source);
            } else {
                found.extend(read_together(source.into_hours().into_iter().filter(is_meant).collect()));
            }
        }
        found
    }

    fn into_hours(self) -> Vec<Self> {
        let Self::Day(row) = self else { return vec![self] };
        match parts::hours(&row.summary) {
            Ok(hours) => hours.into_iter().map(|part| Self::Hour(Arc::clone(&row), part)).collect(),
            // Its samples say what it does not say of them.
            Err(_) => vec![Self::Day(row)],
        }
    }

    pub(super) fn span(&self) -> Span {
        match self {
            Self::Chunk(row, _) => Span { first: row.first, last: row.last },
            Self::Hour(_, part) => part.span,
            Self::Few(row, _) | Self::Day(row) => Span { first: row.first, last: row.last },
            Self::Head(column) => {
                let (first, last) = column.ends().unwrap_or_default();
                Span { first, last }
            }
        }
    }

    /// What its samples are together, where that is known.
    pub(super) const fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Head(_) | Self::Day(_) => None,
            Self::Chunk(_, summary) => Some(summary),
            Self::Few(_, chunk) => Some(&chunk.summary),
            Self::Hour(_, part) => Some(&part.summary),
        }
    }

    /// The row of the index, and how many of its samples it has.
    pub(super) fn row(&self) -> Option<(&ChunkRow, u64)> {
        match self {
            Self::Head(_) => None,
            Self::Chunk(row, _) => Some((row, row.samples)),
            Self::Few(row, _) | Self::Day(row) => Some((row, row.samples)),
            Self::Hour(row, part) => Some((row, (part.end - part.start) as u64)),
        }
    }
}

/// A day of which more than this part is meant is read as a whole: that is cheaper than each hour alone.
const ALONE_PART: u64 = 4;

/// Has hours of a row read with their day, where there are many.
fn read_together(mut hours: Vec<Source>) -> Vec<Source> {
    let samples: u64 = hours.iter().filter_map(Source::row).map(|(_, samples)| samples).sum();
    let is_most = hours.first().and_then(Source::row).is_some_and(|(row, _)| samples > row.samples / ALONE_PART);
    for hour in &mut hours {
        if let Source::Hour(_, part) = hour {
            part.check.take_if(|_| is_most);
        }
    }
    hours
}

/// Whether these are the samples that the index says.
fn is_of(row: &ChunkRow, column: &Column) -> bool {
    let is_like = column.ends() == Some((row.first, row.last)) && column.len() as u64 == row.samples;
    // A chunk has its own check.
    is_like && (row.day.is_none() || parts::is_of(&row.summary, column))
}

/// Which of the spans share no time with another.
fn alone(spans: &[Span]) -> Vec<bool> {
    let mut order: Vec<(Span, usize)> = spans.iter().copied().zip(0..).collect();
    order.sort_by_key(|(span, _)| span.first);
    let mut alone = vec![true; spans.len()];
    let mut meets = |one: usize| alone.get_mut(one).into_iter().for_each(|is_alone| *is_alone = false);
    // The one that ends last, of those that begin earlier.
    let mut longest: Option<(Span, usize)> = None;
    for (span, one) in order {
        if let Some((other, number)) = longest.filter(|(other, _)| other.last >= span.first) {
            meets(one);
            meets(number);
            if other.last > span.last {
                continue;
            }
        }
        longest = Some((span, one));
    }
    alone
}

/// Why samples are damaged that can be read.
const OTHERS: &str = "they are other samples than the index says";

/// What became of reading samples.
pub(crate) enum Loaded {
    Column(Arc<Column>),
    /// They are not where the index said: lost, or moved since.
    Missing,
    /// Why they cannot be read.
    Damaged(String),
}

/// Reads samples, and keeps what it read last: hours of a day follow one another.
pub(crate) struct Loader {
    folder: PathBuf,
    files: FolderStorage,
    day_file: Option<(u32, DayFile)>,
    last: Option<(Extent, Arc<Column>)>,
}

impl Loader {
    pub(crate) fn new(data: &Path) -> Self {
        let folder = folder_of(data);
        Self { files: FolderStorage::reading(&folder), folder, day_file: None, last: None }
    }

    /// Reads the samples of a source.
    ///
    /// # Errors
    /// The folder failed.
    pub(super) fn source(&mut self, source: &Source) -> Result<Loaded, StoreError> {
        match source {
            Source::Head(column) => Ok(Loaded::Column(Arc::clone(column))),
            Source::Chunk(row, _) => self.chunk(row),
            // What is damaged in the index is in the day file still.
            Source::Few(row, chunk) => {
                chunk.samples().map_or_else(|_| self.chunk(row), |column| Ok(Loaded::Column(Arc::new(column))))
            }
            Source::Day(row) => self.chunk(row),
            Source::Hour(row, part) => self.hour(row, part),
        }
    }

    /// Reads the samples of an hour: alone where they can be checked alone, and the whole day is not read already.
    fn hour(&mut self, row: &ChunkRow, part: &Part) -> Result<Loaded, StoreError> {
        let is_there = self.last.as_ref().is_some_and(|(extent, _)| *extent == row.extent);
        if let Some(check) = part.check.filter(|_| !is_there) {
            return Ok(match self.day(row, part.start..part.end)? {
                None => Loaded::Missing,
                Some(Ok(column)) if column.check() == check => Loaded::Column(Arc::new(column)),
                Some(Ok(_)) => Loaded::Damaged(OTHERS.to_owned()),
                Some(Err(why)) => Loaded::Damaged(why),
            });
        }
        Ok(match self.chunk(row)? {
            Loaded::Column(column) => Loaded::Column(Arc::new(column.range(part.start..part.end))),
            other => other,
        })
    }

    /// Reads the samples of a row of the index.
    ///
    /// # Errors
    /// The folder failed.
    pub(crate) fn chunk(&mut self, row: &ChunkRow) -> Result<Loaded, StoreError> {
        if let Some((_, column)) = self.last.as_ref().filter(|(extent, _)| *extent == row.extent) {
            return Ok(Loaded::Column(Arc::clone(column)));
        }
        let read = match row.day {
            None => read_chunk(&mut self.files, row.extent)?.map(|bytes| {
                let chunk = Chunk::parse(&bytes.into()).map_err(|error| error.to_string())?;
                chunk.samples().map_err(|error| error.to_string())
            }),
            Some(_) => self.day(row, 0..usize::try_from(row.samples).unwrap_or(usize::MAX))?,
        };
        Ok(match read {
            None => Loaded::Missing,
            Some(Err(why)) => Loaded::Damaged(why),
            Some(Ok(column)) if is_of(row, &column) => {
                let column = Arc::new(column);
                self.last = Some((row.extent, Arc::clone(&column)));
                Loaded::Column(column)
            }
            Some(Ok(_)) => Loaded::Damaged(OTHERS.to_owned()),
        })
    }

    /// Reads samples of a row of a day file.
    fn day(&mut self, row: &ChunkRow, samples: Range<usize>) -> Result<Option<Result<Column, String>>, StoreError> {
        let number = row.extent.file;
        if self.day_file.as_ref().is_none_or(|(open, _)| *open != number) {
            let opened = match DayFile::open(&self.folder.join(file_name(number, row.day))) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(None),
                Err(StoreError::Damaged(why)) => return Ok(Some(Err(why))),
                Err(error) => return Err(error),
            };
            self.day_file = Some((number, opened));
        }
        let Some((_, file)) = &mut self.day_file else { return Ok(None) };
        let halves = |offset: u64| (u32::try_from(offset >> 32), u32::try_from(offset & u64::from(u32::MAX)));
        let (Ok(group), Ok(first)) = halves(row.extent.offset) else { return Ok(None) };
        let [before, rows] = [samples.start, samples.len()].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        read_part(file, DayPlace { group, row: first.saturating_add(before), rows }).map(Some)
    }
}

/// The samples at a place of a day file, or what is wrong with them.
///
/// # Errors
/// The file failed.
pub(crate) fn read_part(file: &mut DayFile, place: DayPlace) -> Result<Result<Column, String>, StoreError> {
    match file.read(place) {
        Ok(fields) => {
            let tieline_store::Fields { times, kinds, qualities, floats, integers, blobs } = fields;
            let column = Column::try_from(Fields { times, kinds, qualities, floats, integers, blobs });
            Ok(column.map_err(|error| error.to_string()))
        }
        Err(StoreError::Damaged(why)) => Ok(Err(why)),
        Err(error) => Err(error),
    }
}
