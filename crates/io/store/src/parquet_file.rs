//! Rows as a Parquet file: row groups of a bounded size, dictionary and zstd.

use crate::export::{ExportError, Kinds};
use crate::table::Table;
use crate::{Piece, StoreError};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::iter;
use std::sync::Arc;

/// Rows held in memory until they are written as one group.
const GROUP_ROWS: usize = 128 * 1024;

const SCHEMA: &str = "
    message history {
        REQUIRED BYTE_ARRAY topic (UTF8);
        REQUIRED INT64 time (TIMESTAMP(MICROS,true));
        OPTIONAL DOUBLE value;
        OPTIONAL BYTE_ARRAY text (UTF8);
        REQUIRED BYTE_ARRAY quality (UTF8);
        REQUIRED INT32 why;
        REQUIRED INT64 count;{kind}
    }";
const KIND: &str = "
        REQUIRED BYTE_ARRAY kind (UTF8);";

/// Writes rows and says how many.
pub(crate) fn write<W: Write + Send>(
    pieces: impl Iterator<Item = Result<Piece, StoreError>>,
    kinds: Kinds,
    out: &mut W,
) -> Result<u64, ExportError> {
    let schema = SCHEMA.replace("{kind}", if kinds == Kinds::Told { KIND } else { "" });
    let schema = Arc::new(parse_message_type(&schema).map_err(said)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("tieline".to_owned());
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build())).map_err(said)?;
    let mut table = Table::default();
    let mut count = 0;
    for piece in pieces {
        let piece = piece?;
        count += piece.rows() as u64;
        table.push(piece);
        if table.is_full(GROUP_ROWS) {
            write_group(&mut file, &mut table).map_err(said)?;
        }
    }
    write_group(&mut file, &mut table).map_err(said)?;
    file.close().map_err(said)?;
    Ok(count)
}

/// Writes rows as a row group, if there are any, and takes them out of the table.
fn write_group<W: Write + Send>(file: &mut SerializedFileWriter<W>, table: &mut Table) -> Result<(), ParquetError> {
    let rows = table.rows();
    if rows == 0 {
        return Ok(());
    }
    let mut group = file.next_row_group()?;
    let topics = table.topics.iter().map(|(topic, count)| (ByteArray::from(&**topic), *count));
    column::<ByteArrayType, W>(&mut group, &spread(topics), None)?;
    column::<Int64Type, W>(&mut group, &table.times, None)?;
    let there: Vec<i16> = table.value_there.iter().map(|there| i16::from(*there)).collect();
    let values: Vec<f64> = table.values.iter().zip(&there).filter(|(_, there)| **there > 0).map(|(v, _)| *v).collect();
    column::<DoubleType, W>(&mut group, &values, Some(&there))?;
    let mut there = vec![0; rows];
    for (row, _) in &table.texts {
        there.get_mut(*row).into_iter().for_each(|level| *level = 1);
    }
    let texts: Vec<ByteArray> = table.texts.drain(..).map(|(_, text)| text.into_bytes().into()).collect();
    column::<ByteArrayType, W>(&mut group, &texts, Some(&there))?;
    let names = table.qualities.iter().map(|(quality, count)| (ByteArray::from(quality.validity().name()), *count));
    column::<ByteArrayType, W>(&mut group, &spread(names), None)?;
    let reasons = table.qualities.iter().map(|(quality, count)| (i32::from(quality.reason_bits()), *count));
    column::<Int32Type, W>(&mut group, &spread(reasons), None)?;
    column::<Int64Type, W>(&mut group, &table.counts, None)?;
    // The schema has it where kinds are told.
    let kinds = table.kinds.iter().map(|(kind, count)| (ByteArray::from(kind.name()), *count));
    column::<ByteArrayType, W>(&mut group, &spread(kinds), None)?;
    table.clear();
    group.close().map(drop)
}

/// Each value as often as it is there.
fn spread<T: Clone>(runs: impl Iterator<Item = (T, usize)>) -> Vec<T> {
    runs.flat_map(|(value, count)| iter::repeat_n(value, count)).collect()
}

fn column<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(values, there, None)?;
    column.close()
}

fn said(error: ParquetError) -> ExportError {
    ExportError::Write(match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    })
}
