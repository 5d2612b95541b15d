//! Rows as a Parquet file: row groups of a bounded size, dictionary and zstd.

use crate::export::{ExportError, Kinds, plain};
use crate::{Row, StoreError};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;
use tieline_core::Value;

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

pub(crate) fn write<W: Write + Send>(
    rows: impl Iterator<Item = Result<Row, StoreError>>,
    kinds: Kinds,
    out: &mut W,
) -> Result<u64, ExportError> {
    let schema = SCHEMA.replace("{kind}", if kinds == Kinds::Told { KIND } else { "" });
    let schema = Arc::new(parse_message_type(&schema).map_err(said)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("tieline".to_owned());
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build())).map_err(said)?;
    let mut columns = Columns::default();
    let mut count = 0;
    for row in rows {
        columns.push(&row?);
        count += 1;
        if columns.topic.len() >= GROUP_ROWS {
            columns.write(&mut file).map_err(said)?;
        }
    }
    columns.write(&mut file).map_err(said)?;
    file.close().map_err(said)?;
    Ok(count)
}

#[derive(Default)]
struct Columns {
    topic: Vec<ByteArray>,
    time: Vec<i64>,
    value: Vec<f64>,
    value_there: Vec<i16>,
    text: Vec<ByteArray>,
    text_there: Vec<i16>,
    quality: Vec<ByteArray>,
    why: Vec<i32>,
    count: Vec<i64>,
    kind: Vec<ByteArray>,
}

impl Columns {
    fn push(&mut self, row: &Row) {
        // Rows of a topic follow each other and share its bytes.
        let topic = match self.topic.last() {
            Some(last) if last.data() == row.topic.as_bytes() => last.clone(),
            Some(_) | None => ByteArray::from(&*row.topic),
        };
        self.topic.push(topic);
        self.time.push(row.point.time.micros());
        let number = row.point.value.as_f64();
        self.value.extend(number);
        self.value_there.push(number.is_some().into());
        let text = (!is_exact(&row.point.value)).then(|| plain(&row.point.value));
        self.text_there.push(text.is_some().into());
        self.text.extend(text.map(|text| ByteArray::from(text.into_bytes())));
        self.quality.push(ByteArray::from(row.point.quality.validity().name()));
        self.why.push(row.point.quality.reason_bits().into());
        self.count.push(i64::try_from(row.count).unwrap_or(i64::MAX));
        self.kind.push(ByteArray::from(row.kind().name()));
    }

    /// Writes what is held as a row group, and holds nothing then.
    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        if self.topic.is_empty() {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        column::<ByteArrayType, W>(&mut group, &self.topic, None)?;
        column::<Int64Type, W>(&mut group, &self.time, None)?;
        column::<DoubleType, W>(&mut group, &self.value, Some(&self.value_there))?;
        column::<ByteArrayType, W>(&mut group, &self.text, Some(&self.text_there))?;
        column::<ByteArrayType, W>(&mut group, &self.quality, None)?;
        column::<Int32Type, W>(&mut group, &self.why, None)?;
        column::<Int64Type, W>(&mut group, &self.count, None)?;
        // The schema has it where kinds are told.
        column::<ByteArrayType, W>(&mut group, &self.kind, None)?;
        group.close()?;
        *self = Self::default();
        Ok(())
    }
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

/// Whether the column of doubles says all of the value.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Float(_) => true,
        Value::Int(i) => i.unsigned_abs() <= 1 << 53,
        Value::Text(_) | Value::Bytes(_) => false,
    }
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
