//! Samples of files as an export writes them: CSV, JSON with one object a line, Parquet. Columns and members may be in any order.
//!
//! A file that tells kinds is read exactly. Without them a number is an integer where it is written as one, and what is neither a
//! number, `null`, `true` nor `false` is a text.

use crate::export::harmless;
use crate::table::VALIDITIES;
use crate::{Row, ValueKind};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row as ParquetRow};
use serde_json::Value as Json;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use tieline_core::{Body, Point, Quality, Timestamp, Topic, Value};

/// Bytes of the longest line of a JSON file.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// The columns and members that exports and queries write. Others are refused: a quality under another name would be lost.
const CSV_COLUMNS: [&str; 8] = ["topic", "time", "value", "quality", "why", "count", "kind", "edited"];
const PARQUET_COLUMNS: [&str; 9] = ["topic", "time", "value", "text", "quality", "why", "count", "kind", "edited"];
const JSON_MEMBERS: [&str; 9] = ["topic", "t", "v", "q", "why", "count", "kind", "edited", "payload"];

/// A sample that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Whose.
    pub topic: Topic,
    /// When.
    pub time: Timestamp,
    /// What.
    pub body: Body,
}

/// Why an import ended early.
#[derive(Debug)]
pub enum ImportError {
    /// The file cannot be read.
    Read(io::Error),
    /// Its name ends with nothing that is known.
    Format,
    /// The file as a whole, or its first line, is wrong; what is.
    File(String),
    /// A row is no sample: its number from 1, and what is wrong.
    Row(u64, String),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Format => {
                f.write_str("is of no known format, expected a name that ends with .csv, .json or .parquet")
            }
            Self::File(what) => f.write_str(what),
            Self::Row(number, what) => write!(f, "row {number}: {what}"),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Samples, as they are read.
type Samples = Box<dyn Iterator<Item = Result<Imported, ImportError>>>;

/// Reads a file, whose name says what it is.
///
/// # Errors
/// It cannot be opened, or is of no known format.
pub fn import(path: &Path) -> Result<Samples, ImportError> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => csv(File::open(path)?),
        Some("json") => Ok(json(BufReader::new(File::open(path)?))),
        Some("parquet") => parquet(File::open(path)?),
        Some(_) | None => Err(ImportError::Format),
    }
}

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportedValue {
    /// A text, which may stand for anything.
    Text(String),
    /// A double, and nothing else.
    Double(f64),
    /// Nothing.
    Null,
    /// JSON.
    Json(Json),
}

impl Imported {
    /// A sample of its parts, as texts.
    ///
    /// # Errors
    /// One of them is not what it is to be; which, and what was expected.
    pub fn new(
        topic: &str,
        time: &str,
        value: ImportedValue,
        quality: (&str, Quality),
        kind: Option<&str>,
    ) -> Result<Self, String> {
        let topic = Topic::new(topic).map_err(|error| format!("the topic is {topic:?}: {error}"))?;
        let time = time.parse().map_err(|error| format!("the time is {time:?}: {error}"))?;
        let quality = self::quality(quality.0, quality.1)?;
        let kind = kind.map(|name| ValueKind::from_name(name).ok_or_else(|| format!("the kind {name:?} is not known")));
        let body = match (kind.transpose()?, value) {
            (Some(kind @ (ValueKind::Payload | ValueKind::PayloadBytes)), value) => {
                let text = text_of(&value).ok_or_else(|| mismatch(kind, &value))?;
                let is_hex = kind == ValueKind::PayloadBytes;
                let bytes = if is_hex { hex(&text).ok_or_else(|| mismatch(kind, &value))? } else { text.into_bytes() };
                Body::Opaque(bytes.into())
            }
            (Some(kind), value) => {
                let found = of_kind(kind, &value).ok_or_else(|| mismatch(kind, &value))?;
                Body::Point(Point { value: found, quality, time })
            }
            (None, value) => {
                let value = of_no_kind(value).ok_or("the value is an object or an array, expected a scalar")?;
                Body::Point(Point { value, quality, time })
            }
        };
        Ok(Self { topic, time, body })
    }
}

impl From<Imported> for Row {
    fn from(sample: Imported) -> Self {
        let Imported { topic, time, body } = sample;
        let of = |value, quality| Point { value, quality, time };
        let (point, is_payload) = match body {
            Body::Point(point) => (point, false),
            Body::Published(published) => (of(published.value().clone(), published.quality()), false),
            Body::Opaque(bytes) => match str::from_utf8(&bytes) {
                Ok(text) => (of(Value::Text(text.into()), Quality::GOOD), true),
                Err(_) => (of(Value::Bytes(bytes.as_ref().into()), Quality::GOOD), true),
            },
        };
        Self { topic, point: Point { time, ..point }, count: 1, is_payload, number: 0, edited: None }
    }
}

/// The quality of a word and reasons; without a word, that of the reasons.
///
/// # Errors
/// The word is none.
pub fn quality(word: &str, reasons: Quality) -> Result<Quality, String> {
    if word.is_empty() {
        return Ok(reasons);
    }
    let known = VALIDITIES.into_iter().find(|validity| validity.name() == word);
    let known = known.ok_or_else(|| format!("the quality is {word:?}, expected good, uncertain or bad"))?;
    Ok(reasons.with_validity(known))
}

/// The value of a JSON scalar, or of bytes as `{"hex": …}`; none of anything else.
#[must_use]
pub fn of_json(json: Json) -> Option<Value> {
    of_no_kind(ImportedValue::Json(json))
}

/// Reasons of their names.
///
/// # Errors
/// One is not known.
pub fn reasons<'n>(names: impl Iterator<Item = &'n str>) -> Result<Quality, String> {
    names.filter(|name| !name.is_empty()).try_fold(Quality::GOOD, |all, name| {
        let reason = Quality::from_reason(name).ok_or_else(|| format!("the reason {name:?} is not known"))?;
        Ok(all.with(reason))
    })
}

fn mismatch(kind: ValueKind, value: &ImportedValue) -> String {
    let shown = match value {
        ImportedValue::Text(text) => format!("{text:?}"),
        ImportedValue::Double(double) => double.to_string(),
        ImportedValue::Null => "null".to_owned(),
        ImportedValue::Json(json) => json.to_string(),
    };
    format!("the value is {shown}, expected one of kind {}", kind.name())
}

/// The text of a value that is one, or is written as one.
fn text_of(value: &ImportedValue) -> Option<String> {
    match value {
        ImportedValue::Text(text) | ImportedValue::Json(Json::String(text)) => Some(text.clone()),
        ImportedValue::Json(Json::Object(members)) => members.get("hex")?.as_str().map(str::to_owned),
        ImportedValue::Json(number @ Json::Number(_)) => Some(number.to_string()),
        ImportedValue::Double(_) | ImportedValue::Null | ImportedValue::Json(_) => None,
    }
}

fn of_kind(kind: ValueKind, value: &ImportedValue) -> Option<Value> {
    let number = match value {
        ImportedValue::Double(double) => Some(*double),
        other => text_of(other).and_then(|text| text.parse().ok()),
    };
    Some(match kind {
        ValueKind::Null => Value::Null,
        ValueKind::Boolean => match (value, number) {
            (ImportedValue::Json(Json::Bool(state)), _) => Value::Bool(*state),
            (_, Some(number)) => Value::Bool(number != 0.0),
            (other, None) => Value::Bool(text_of(other)?.parse().ok()?),
        },
        // What a double does not hold exactly has its text beside it.
        ValueKind::Integer => match text_of(value) {
            Some(text) => Value::Int(text.parse().ok()?),
            None => Value::Int(tieline_core::nearest_int(number?)?),
        },
        ValueKind::Double => Value::Float(number?),
        ValueKind::Text => Value::Text(text_of(value)?.into()),
        ValueKind::Bytes => Value::Bytes(hex(&text_of(value)?)?.into()),
        ValueKind::Payload | ValueKind::PayloadBytes => return None,
    })
}

fn of_no_kind(value: ImportedValue) -> Option<Value> {
    let of_text = |text: String| match text.as_str() {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match (text.parse(), text.parse()) {
            (Ok(integer), _) => Value::Int(integer),
            (Err(_), Ok(double)) => Value::Float(double),
            (Err(_), Err(_)) => Value::Text(text.into()),
        },
    };
    Some(match value {
        ImportedValue::Null | ImportedValue::Json(Json::Null) => Value::Null,
        ImportedValue::Double(double) => Value::Float(double),
        ImportedValue::Text(text) => of_text(text),
        ImportedValue::Json(Json::Bool(state)) => Value::Bool(state),
        ImportedValue::Json(Json::String(text)) => Value::Text(text.into()),
        ImportedValue::Json(Json::Number(number)) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Float(number.as_f64()?),
        },
        ImportedValue::Json(bytes @ Json::Object(_)) => {
            Value::Bytes(hex(&text_of(&ImportedValue::Json(bytes))?)?.into())
        }
        ImportedValue::Json(Json::Array(_)) => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect())?
}

fn csv(file: File) -> Result<Samples, ImportError> {
    let mut reader = csv::Reader::from_reader(file);
    let failed = |error: csv::Error| ImportError::File(error.to_string());
    let header = reader.headers().map_err(failed)?.clone();
    let place = |name: &str| header.iter().position(|column| column == name);
    let needed = |name: &str| {
        let found = header.iter().collect::<Vec<_>>().join(",");
        let words = format!("the first line is {found:?}, expected columns, separated by commas; {name} is missing");
        place(name).ok_or(ImportError::File(words))
    };
    let (topic, time, value) = (needed("topic")?, needed("time")?, needed("value")?);
    refuse_unknown("column", header.iter(), &CSV_COLUMNS).map_err(ImportError::File)?;
    let others = ["quality", "why", "kind"].map(place);
    let rows = reader.into_records().zip(1..).map(move |(record, number)| {
        let record = record.map_err(|error| ImportError::Row(number, error.to_string()))?;
        let cell = |place: usize| record.get(place).unwrap_or_default();
        let [quality, why, kind] = others.map(|place| place.map_or("", cell));
        let is_text = matches!(kind, "" | "text" | "payload");
        let value = if is_text { plain(cell(value)) } else { cell(value) };
        let sample = reasons(why.split(' ')).and_then(|why| {
            let value = ImportedValue::Text(value.to_owned());
            Imported::new(
                plain(cell(topic)),
                cell(time),
                value,
                (quality, why),
                Some(kind).filter(|kind| !kind.is_empty()),
            )
        });
        sample.map_err(|what| ImportError::Row(number, what))
    });
    Ok(Box::new(rows))
}

fn refuse_unknown<'n>(what: &str, mut names: impl Iterator<Item = &'n str>, known: &[&str]) -> Result<(), String> {
    let unknown = names.find(|name| !known.contains(name));
    let words = |name| format!("the {what} {name:?} is unknown, expected one of {}", known.join(", "));
    unknown.map_or(Ok(()), |name| Err(words(name)))
}

/// A text without the apostrophe that an export puts before formulas.
fn plain(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|text| *harmless(text) == *cell).unwrap_or(cell)
}

fn json(reader: impl io::BufRead + 'static) -> Samples {
    let mut reader = reader;
    let mut number = 0;
    Box::new(std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            match io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error.into())),
            }
            let text = line.trim_ascii().strip_suffix(b",").unwrap_or(line.trim_ascii());
            if matches!(text, b"" | b"[" | b"]" | b"[]") {
                continue;
            }
            number += 1;
            return Some(sample_of_json(text).map_err(|what| ImportError::Row(number, what)));
        }
    }))
}

fn sample_of_json(text: &[u8]) -> Result<Imported, String> {
    let row: Json =
        serde_json::from_slice(text).map_err(|error| format!("it is no JSON object in one line: {error}"))?;
    let members = row.as_object().ok_or("it is no JSON object, expected one on each line")?;
    refuse_unknown("member", members.keys().map(String::as_str), &JSON_MEMBERS)?;
    let member = |name: &str| row.get(name).and_then(Json::as_str);
    let needed = |name: &str| member(name).ok_or_else(|| format!("the member {name} is missing, expected a text"));
    let value = row.get("v").cloned().ok_or("the member v is missing, expected the value")?;
    let why = row.get("why").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let quality = (member("q").unwrap_or_default(), reasons(why)?);
    let is_payload = row.get("payload").and_then(Json::as_bool).unwrap_or_default();
    let kind = member("kind").or_else(|| payload_kind(is_payload, &value));
    Imported::new(needed("topic")?, needed("t")?, ImportedValue::Json(value), quality, kind)
}

/// The kind of a value that a query gave without one: with the mark `payload`, it is a message as it was published.
#[must_use]
pub fn payload_kind(is_payload: bool, value: &Json) -> Option<&'static str> {
    let kind = if value.is_object() { ValueKind::PayloadBytes } else { ValueKind::Payload };
    is_payload.then_some(kind.name())
}

fn parquet(file: File) -> Result<Samples, ImportError> {
    let failed = |error: parquet::errors::ParquetError| ImportError::File(error.to_string());
    let reader = SerializedFileReader::new(file).map_err(failed)?;
    let columns = reader.metadata().file_metadata().schema().get_fields().to_vec();
    refuse_unknown("column", columns.iter().map(|column| column.name()), &PARQUET_COLUMNS)
        .map_err(|words| ImportError::File(format!("{words}, as tieline history export and query write them")))?;
    let rows = reader.into_iter().zip(1..).map(|(row, number)| {
        let row = row.map_err(|error| ImportError::Row(number, error.to_string()))?;
        sample_of_parquet(&row).map_err(|what| ImportError::Row(number, what))
    });
    Ok(Box::new(rows))
}

fn sample_of_parquet(row: &ParquetRow) -> Result<Imported, String> {
    let field = |name: &str| row.get_column_iter().find(|(known, _)| *known == name).map(|(_, field)| field);
    let text = |name: &str| match field(name) {
        Some(Field::Str(text)) => Some(text.as_str()),
        Some(_) | None => None,
    };
    let time = match field("time") {
        Some(Field::TimestampMicros(micros) | Field::Long(micros)) => Timestamp::from_micros(*micros),
        Some(_) | None => return Err("the column time is missing, expected microseconds".to_owned()),
    };
    let why = match field("why") {
        Some(Field::Int(bits)) => Quality::from_bits(u16::try_from(*bits).map_err(|_| "why has unknown bits")?),
        Some(_) | None => Quality::GOOD,
    };
    let value = match (text("text"), field("value")) {
        (Some(text), _) => ImportedValue::Text(text.to_owned()),
        (None, Some(Field::Double(double))) => ImportedValue::Double(*double),
        (None, Some(_) | None) => ImportedValue::Null,
    };
    let topic = text("topic").ok_or("the column topic is missing, expected a text")?;
    // Without kinds, a text beside a value is an integer that no double holds.
    let kind = text("kind").or(match (text("text"), field("value")) {
        (Some(_), Some(Field::Double(_))) => Some("integer"),
        (Some(_), _) => Some("text"),
        (None, _) => None,
    });
    Imported::new(topic, &time.to_string(), value, (text("quality").unwrap_or_default(), why), kind)
}

#[cfg(test)]
mod tests;
