//! The number that stands when what is asked for begins: the last one before it that is not bad.

use super::MICROSECOND;
use super::chunk_reader::{ChunkReader, Read};
use super::reader::HistoryReader;
use super::source::Source;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_series::{Column, Edits, Summary};
use tieline_store::{DAY_US, StoreError};

const DAY: Duration = Duration::from_micros(DAY_US.cast_unsigned());

/// Of which topic, and before which time.
pub(super) struct Asked<'a> {
    pub(super) number: Option<u32>,
    /// The samples in memory.
    pub(super) heads: &'a [Arc<Column>],
    pub(super) edits: Option<&'a Edits>,
    pub(super) from: Timestamp,
}

impl Asked<'_> {
    /// The number that stands, as it is shown.
    pub(super) fn standing(&self, reader: &HistoryReader, chunks: &mut ChunkReader) -> Result<Option<f64>, StoreError> {
        let mut found: Vec<(Timestamp, f64)> = self.heads.iter().filter_map(|column| self.last_of(column)).collect();
        let (mut until, latest) = (self.from, |found: &[(Timestamp, f64)]| found.iter().map(|(time, _)| *time).max());
        // Day by day backward, until no earlier day can have a later one.
        while let Some(number) = self.number
            && let Some(day) = reader.index.day_before(number, until)?
            && latest(&found).is_none_or(|time| time < day.later(DAY).min(until))
        {
            let sources = reader.index.chunks(number, day, until)?.into_iter().flat_map(Source::of);
            for source in sources.filter(|source| source.span().first < self.from) {
                let is_edited = self.edits.is_some_and(|edits| !edits.spares(source.span()));
                match source.summary().map(|summary| summary.numbers.map(|numbers| numbers.last)) {
                    Some(None) if !is_edited => {}
                    Some(Some(last)) if last.0 < self.from && !is_edited => found.push(last),
                    Some(_) | None => {
                        if let Read::Column(column) = chunks.read(&reader.index, &source)? {
                            found.extend(self.last_of(&column));
                        }
                    }
                }
            }
            until = day;
        }
        let time = latest(&found);
        let mut of_time = found.into_iter().filter(|(of, _)| Some(*of) == time);
        let recorded = match (of_time.next(), of_time.next(), time) {
            (Some(_), Some(_), Some(time)) => self.last_at(time, reader, chunks)?,
            (one, ..) => one,
        };
        // One that was added comes behind others of its time.
        let added = self.edits.and_then(|edits| last_number(&added_before(edits, self.from)));
        let is_later = |added: &(Timestamp, f64)| recorded.is_none_or(|(time, _)| added.0 >= time);
        Ok(added.filter(is_later).or(recorded).map(|(_, number)| number))
    }

    /// The last number of a column before the time.
    fn last_of(&self, column: &Column) -> Option<(Timestamp, f64)> {
        let before = column.range(0..column.count_before(self.from));
        last_number(&self.shown(before))
    }

    fn shown(&self, column: Column) -> Column {
        match self.edits {
            Some(edits) => edits.changed(&column),
            None => column,
        }
    }

    /// The last number of a time at which several chunks and heads have one: which of them is, they say together.
    fn last_at(
        &self,
        time: Timestamp,
        reader: &HistoryReader,
        chunks: &mut ChunkReader,
    ) -> Result<Option<(Timestamp, f64)>, StoreError> {
        let (mut all, behind) = (Column::default(), time.later(MICROSECOND));
        let mut add =
            |column: &Column| all.append(&column.range(column.count_before(time)..column.count_before(behind)));
        let rows = self.number.map_or(Ok(Vec::new()), |number| reader.index.chunks(number, time, behind))?;
        for source in rows.into_iter().flat_map(Source::of) {
            if let Read::Column(column) = chunks.read(&reader.index, &source)? {
                add(&column);
            }
        }
        self.heads.iter().for_each(|column| add(column));
        all.settle();
        Ok(last_number(&self.shown(all)))
    }
}

fn added_before(edits: &Edits, time: Timestamp) -> Column {
    edits.added_before(time).map(|(sample, _)| sample).collect()
}

fn last_number(column: &Column) -> Option<(Timestamp, f64)> {
    Summary::of(column).numbers.map(|numbers| numbers.last)
}
