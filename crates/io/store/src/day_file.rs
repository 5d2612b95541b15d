//! Closed days as Parquet files, sorted by topic and time: read by us, and by every program that reads Parquet.
//!
//! | column | type | content |
//! |---|---|---|
//! | `topic` | string | path of the topic |
//! | `time` | timestamp, microseconds, UTC | time of the sample |
//! | `value` | double or null | doubles, integers (the nearest double) and two-state values (0 or 1) |
//! | `integer` | 64-bit integer or null | the exact value of integers |
//! | `text` | string or null | texts, and payloads that are UTF-8 |
//! | `bytes` | bytes or null | bytes, and other payloads |
//! | `quality` | string | `good`, `uncertain` or `bad` |
//! | `kind` | integer | 0 double, 1 integer, 2 two-state, 3 text, 4 bytes, 5 no value, 6 a payload as published |
//! | `quality_bits` | integer | the bits of `tieline_core::Quality` |

use crate::StoreError;
use crate::day_check::{Summed, WrittenDay};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_core::{Quality, Topic};

const SCHEMA: &str = "
    message history {
        REQUIRED BYTE_ARRAY topic (UTF8);
        REQUIRED INT64 time (TIMESTAMP(MICROS,true));
        OPTIONAL DOUBLE value;
        OPTIONAL INT64 integer;
        OPTIONAL BYTE_ARRAY text (UTF8);
        OPTIONAL BYTE_ARRAY bytes;
        REQUIRED BYTE_ARRAY quality (UTF8);
        REQUIRED INT32 kind;
        REQUIRED INT32 quality_bits;
    }";
pub(crate) const TOPIC: usize = 0;
pub(crate) const TIME: usize = 1;
pub(crate) const VALUE: usize = 2;
pub(crate) const INTEGER: usize = 3;
pub(crate) const TEXT: usize = 4;
pub(crate) const BYTES: usize = 5;
pub(crate) const KIND: usize = 7;
pub(crate) const BITS: usize = 8;

/// Rows that are held in memory until they are written as one row group, give or take a topic.
const GROUP_ROWS: usize = 512 * 1024;
/// Rows of a page: what is read at least. An hour of a value a second has few.
const PAGE_ROWS: usize = 4096;
/// Different values of a row group that are written once, and their places for each row: what is read of it before the first value.
/// Values that are beyond are written as they are.
const VALUE_DICTIONARY_BYTES: usize = 16 * 1024;
/// Equal values that are written at a time.
const REPEATED: usize = 4096;

pub(crate) const FLOAT: u8 = 0;
pub(crate) const INT: u8 = 1;
pub(crate) const BOOL: u8 = 2;
pub(crate) const NULL: u8 = 5;

/// Samples of one topic, field by field, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Microseconds since 1970.
    pub times: Vec<i64>,
    /// Kinds, each with how many samples have it one after the other.
    pub kinds: Vec<(u8, usize)>,
    /// The bits of qualities, likewise.
    pub qualities: Vec<(u16, usize)>,
    /// Of doubles.
    pub floats: Vec<f64>,
    /// Of integers and two-state values.
    pub integers: Vec<i64>,
    /// Of all others that are something.
    pub blobs: Vec<Bytes>,
}

/// Where samples of a topic are in a day file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayPlace {
    /// The number of the row group.
    pub group: u32,
    /// The first of its rows.
    pub row: u32,
    /// How many rows.
    pub rows: u32,
}

/// A day file that is written. It has its name once it is whole and durable.
pub struct DayWriter {
    file: SerializedFileWriter<Summed>,
    part: PathBuf,
    path: PathBuf,
    group: Vec<(Topic, Fields)>,
    group_rows: usize,
    groups: u32,
}

impl DayWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// `Full`, or the folder failed.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let part = path.with_extension("part");
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        let time = ColumnPath::from("time");
        let sorted = |column: usize| {
            let column_idx = i32::try_from(column).unwrap_or(0);
            SortingColumn { column_idx, descending: false, nulls_first: false }
        };
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("tieline".to_owned())
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_sorting_columns(Some(vec![sorted(TOPIC), sorted(TIME)]))
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_column_dictionary_page_size_limit(ColumnPath::from("value"), VALUE_DICTIONARY_BYTES)
            .set_column_compression(ColumnPath::from("quality"), Compression::UNCOMPRESSED)
            .set_column_compression(ColumnPath::from("kind"), Compression::UNCOMPRESSED)
            .set_column_compression(ColumnPath::from("quality_bits"), Compression::UNCOMPRESSED);
        let file = Summed::new(File::create(&part).map_err(io)?);
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).map_err(failed)?;
        Ok(Self { file, part, path: path.to_owned(), group: Vec::new(), group_rows: 0, groups: 0 })
    }

    /// Adds samples of a topic, behind those of topics before it.
    ///
    /// # Errors
    /// `Full`, or the folder failed.
    pub fn add(&mut self, topic: &Topic, fields: Fields) -> Result<DayPlace, StoreError> {
        let rows = fields.times.len();
        if self.group_rows > 0 && self.group_rows + rows > GROUP_ROWS {
            self.write_group()?;
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let place = DayPlace { group: self.groups, row: number(self.group_rows), rows: number(rows) };
        self.group_rows += rows;
        self.group.push((topic.clone(), fields));
        Ok(place)
    }

    /// Makes the file durable, under its name.
    ///
    /// # Errors
    /// `Full`, or the folder failed.
    pub fn finish(mut self) -> Result<WrittenDay, StoreError> {
        self.write_group()?;
        let Self { file, part, path, .. } = self;
        let Summed { file, sum } = file.into_inner().map_err(failed)?;
        file.sync_all().map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        fs::rename(&part, &path).map_err(io)?;
        let folder = path.parent().ok_or_else(|| io(ErrorKind::NotFound.into()))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        Ok(WrittenDay { bytes, check: sum.finalize() })
    }

    fn write_group(&mut self) -> Result<(), StoreError> {
        let group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return Ok(());
        }
        let written = self.file.next_row_group().and_then(|mut out| {
            write_columns(&group, &mut out)?;
            out.close()
        });
        written.map_err(failed)?;
        self.group_rows = 0;
        self.groups += 1;
        Ok(())
    }
}

type Group<'f> = SerializedRowGroupWriter<'f, Summed>;

fn write_columns(group: &[(Topic, Fields)], out: &mut Group<'_>) -> Result<(), ParquetError> {
    let word = |words: &str| ByteArray::from(words.as_bytes().to_vec());
    column::<ByteArrayType>(out, |write| {
        group.iter().try_for_each(|(topic, fields)| repeat(&word(topic), fields.times.len(), write))
    })?;
    column::<Int64Type>(out, |write| group.iter().try_for_each(|(_, fields)| write(&fields.times, None)))?;
    column::<DoubleType>(out, |write| group.iter().try_for_each(|(_, fields)| write_values(fields, write)))?;
    column::<Int64Type>(out, |write| group.iter().try_for_each(|(_, fields)| write_integers(fields, write)))?;
    for is_text in [true, false] {
        column::<ByteArrayType>(out, |write| {
            group.iter().try_for_each(|(_, fields)| write_blobs(fields, is_text, write))
        })?;
    }
    let validity = |bits: u16| word(Quality::from_bits(bits).validity().name());
    column::<ByteArrayType>(out, |write| {
        let runs = || group.iter().flat_map(|(_, fields)| &fields.qualities);
        runs().try_for_each(|(bits, count)| repeat(&validity(*bits), *count, write))
    })?;
    column::<Int32Type>(out, |write| {
        let runs = || group.iter().flat_map(|(_, fields)| &fields.kinds);
        runs().try_for_each(|(kind, count)| repeat(&i32::from(*kind), *count, write))
    })?;
    column::<Int32Type>(out, |write| {
        let runs = || group.iter().flat_map(|(_, fields)| &fields.qualities);
        runs().try_for_each(|(bits, count)| repeat(&i32::from(*bits), *count, write))
    })
}

/// Takes values, and which rows have one: all, or those with a 1.
type WriteValues<'w, V> = dyn FnMut(&[V], Option<&[i16]>) -> Result<(), ParquetError> + 'w;
type Write<'w, T> = WriteValues<'w, <T as DataType>::T>;

fn column<T: DataType>(
    out: &mut Group<'_>,
    fill: impl FnOnce(&mut Write<'_, T>) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let Some(mut column) = out.next_column()? else { return Ok(()) };
    fill(&mut |values, there| column.typed::<T>().write_batch(values, there, None).map(drop))?;
    column.close()
}

fn repeat<V: Clone>(value: &V, count: usize, write: &mut WriteValues<'_, V>) -> Result<(), ParquetError> {
    let (values, mut left) = (vec![value.clone(); count.min(REPEATED)], count);
    while left > 0 {
        let part = values.get(..left.min(REPEATED)).unwrap_or(&values);
        write(part, None)?;
        left -= part.len();
    }
    Ok(())
}

/// Doubles, integers and two-state values, as doubles.
fn write_values(fields: &Fields, write: &mut Write<'_, DoubleType>) -> Result<(), ParquetError> {
    let (mut floats, mut integers) = (fields.floats.iter(), fields.integers.iter());
    let (mut values, mut there) = (Vec::with_capacity(fields.times.len()), Vec::with_capacity(fields.times.len()));
    for (kind, count) in &fields.kinds {
        match *kind {
            FLOAT => values.extend(floats.by_ref().take(*count)),
            #[expect(clippy::cast_precision_loss, reason = "the exact integer has a column of its own")]
            INT | BOOL => values.extend(integers.by_ref().take(*count).map(|integer| *integer as f64)),
            _ => {}
        }
        there.resize(there.len() + count, i16::from(*kind <= BOOL));
    }
    write(&values, Some(&there))
}

fn write_integers(fields: &Fields, write: &mut Write<'_, Int64Type>) -> Result<(), ParquetError> {
    let mut integers = fields.integers.iter();
    let (mut values, mut there) = (Vec::new(), Vec::with_capacity(fields.times.len()));
    for (kind, count) in &fields.kinds {
        match *kind {
            INT => values.extend(integers.by_ref().take(*count)),
            BOOL => drop(integers.by_ref().take(*count).count()),
            _ => {}
        }
        there.resize(there.len() + count, i16::from(*kind == INT));
    }
    write(&values, Some(&there))
}

/// Texts, and payloads that are; or what is none.
fn write_blobs(fields: &Fields, is_text: bool, write: &mut Write<'_, ByteArrayType>) -> Result<(), ParquetError> {
    const BYTES_KIND: u8 = 4;
    let mut blobs = fields.blobs.iter();
    let (mut values, mut there) = (Vec::new(), Vec::with_capacity(fields.times.len()));
    for (kind, count) in &fields.kinds {
        if *kind <= BOOL || *kind == NULL {
            there.resize(there.len() + count, 0);
            continue;
        }
        for blob in blobs.by_ref().take(*count) {
            let is_meant = (*kind != BYTES_KIND && str::from_utf8(blob).is_ok()) == is_text;
            there.push(i16::from(is_meant));
            values.extend(is_meant.then(|| ByteArray::from(blob.clone())));
        }
    }
    write(&values, Some(&there))
}

/// Runs the Parquet library, which panics at some bytes that it did not write.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(StoreError::Damaged("it cannot be decoded".to_owned())),
    }
}

pub(crate) fn failed(error: ParquetError) -> StoreError {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) if error.raw_os_error().is_some() => io(*error),
            // A page that cannot be decompressed.
            Ok(error) => StoreError::Damaged(error.to_string()),
            Err(other) => StoreError::Damaged(other.to_string()),
        },
        other => StoreError::Damaged(other.to_string()),
    }
}

pub(crate) fn io(error: std::io::Error) -> StoreError {
    crate::files::said(&error, "write or read", Path::new("a day file")).into()
}

#[cfg(test)]
mod tests;
