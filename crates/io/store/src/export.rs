//! Rows as text, CSV, JSON, Parquet or Arrow, as they come.

use crate::{Piece, Row, StoreError, arrow_stream, parquet_file};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use tieline_core::{Topic, Value, Words, json_string, json_value};

/// What an answer is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// RFC 4180, with a header: `topic,time,value,quality,why,count`; reasons are separated by spaces. A text that a
    /// spreadsheet would take for a formula begins with an apostrophe.
    Csv,
    /// An array of objects: those of a point, and `topic` and `count`; `payload` where it is a message as it was published.
    Json,
    /// Columns `topic`, `time` (microseconds, UTC), `value` (double or null), `text` (what is no double), `quality`,
    /// `why` (the reasons as bits), `count`.
    Parquet,
    /// The same columns as a stream of Arrow's format for processes (IPC); topics and qualities are dictionaries.
    Arrow,
}

/// What of an answer is written.
pub trait Answer: Iterator<Item = Result<Row, StoreError>> {
    /// The topics that rows may be of.
    fn topics(&self) -> Vec<Topic>;

    /// The rows that come next, as they lie together.
    fn piece(&mut self) -> Option<Result<Piece, StoreError>>;
}

impl Words for Format {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("table", Self::Table),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("parquet", Self::Parquet),
        ("arrow", Self::Arrow),
    ];
}

impl Format {
    /// The format's media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Table => "text/plain; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Json => "application/json",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Columns, or members, behind the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// `kind`: what values are, so that an import takes them exactly; but in tables and Arrow streams.
    pub kinds: bool,
    /// `edited`: the edit that changed a row last. In JSON rows that were edited always have it, and a table shows it.
    pub edited: bool,
}

impl Extras {
    /// What an import needs.
    pub const KINDS: Self = Self { kinds: true, edited: false };
}

/// Why an export ended early.
#[derive(Debug)]
pub enum ExportError {
    /// The rows could not be read.
    Store(StoreError),
    /// What was to be written to did not take it.
    Write(io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the export: {error}"),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes an answer and says how many rows it has, or until nobody wants it any more. Writes in small pieces: give a buffered writer.
///
/// # Errors
/// Reading or writing failed; what was written is incomplete then.
pub fn export<W: Write + Send>(
    answer: &mut impl Answer,
    format: Format,
    is_wanted: impl Fn() -> bool,
    out: W,
) -> Result<u64, ExportError> {
    export_with(answer, format, Extras::default(), is_wanted, out)
}

/// The same, with columns behind the others.
///
/// # Errors
/// Reading or writing failed; what was written is incomplete then.
pub fn export_with<W: Write + Send>(
    answer: &mut impl Answer,
    format: Format,
    extras: Extras,
    is_wanted: impl Fn() -> bool,
    mut out: W,
) -> Result<u64, ExportError> {
    let topics = if format == Format::Arrow { answer.topics() } else { Vec::new() };
    let count = match format {
        Format::Table => table(answer.take_while(|_| is_wanted()), &mut out),
        Format::Csv => csv(answer.take_while(|_| is_wanted()), extras, &mut out),
        Format::Json => json(answer.take_while(|_| is_wanted()), extras, &mut out),
        Format::Parquet => parquet_file::write(pieces(answer, is_wanted), extras, &mut out),
        Format::Arrow => arrow_stream::write(pieces(answer, is_wanted), &topics, extras, &mut out),
    }?;
    out.flush()?;
    Ok(count)
}

fn pieces(answer: &mut impl Answer, is_wanted: impl Fn() -> bool) -> impl Iterator<Item = Result<Piece, StoreError>> {
    std::iter::from_fn(move || answer.piece()).take_while(move |_| is_wanted())
}

/// Rows in memory.
#[derive(Debug)]
pub struct RowPage(std::vec::IntoIter<Row>);

impl From<Vec<Row>> for RowPage {
    fn from(rows: Vec<Row>) -> Self {
        Self(rows.into_iter())
    }
}

impl Iterator for RowPage {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl Answer for RowPage {
    fn topics(&self) -> Vec<Topic> {
        let mut topics: Vec<Topic> = self.0.as_slice().iter().map(|row| row.topic.clone()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    fn piece(&mut self) -> Option<Result<Piece, StoreError>> {
        self.0.next().map(|row| Ok(Piece::Row(row)))
    }
}

/// A value of a table: a number without what only counting in binary has put behind its fifteenth digit.
fn cell(value: &Value) -> String {
    match value {
        Value::Float(x) if x.is_finite() => plain(&Value::Float(format!("{x:.14e}").parse().unwrap_or(*x))),
        _ => plain(value),
    }
}

/// Rows whose widths decide the columns of a table.
const TABLE_ROWS_MEASURED: usize = 1000;

fn table(rows: impl Iterator<Item = Result<Row, StoreError>>, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut rows = rows.peekable();
    let mut head = Vec::new();
    while head.len() < TABLE_ROWS_MEASURED {
        let Some(row) = rows.next() else { break };
        head.push(row?);
    }
    let width = |cell: fn(&Row) -> usize, least: usize| head.iter().map(cell).max().unwrap_or(0).max(least);
    let topic_width = width(|row| row.topic.chars().count(), 5);
    let value_width = width(|row| cell(&row.point.value).chars().count(), 5).min(40);
    if head.is_empty() {
        writeln!(out, "none")?;
        return Ok(0);
    }
    writeln!(out, "{:topic_width$}  {:27}  {:>value_width$}  quality", "topic", "time", "value")?;
    let mut count = 0;
    for row in head.into_iter().map(Ok).chain(rows) {
        let row = row?;
        let time = row.point.time.to_string();
        write!(out, "{:topic_width$}  {time:27}  {:>value_width$}  ", &*row.topic, cell(&row.point.value))?;
        out.write_all(row.point.quality.validity().name().as_bytes())?;
        for reason in row.point.quality.reasons() {
            write!(out, " {reason}")?;
        }
        if let Some(id) = row.edited {
            write!(out, " edited:{id}")?;
        }
        out.write_all(b"\n")?;
        count += 1;
    }
    Ok(count)
}

fn csv(
    rows: impl Iterator<Item = Result<Row, StoreError>>,
    extras: Extras,
    out: &mut impl Write,
) -> Result<u64, ExportError> {
    let mut csv = csv::Writer::from_writer(out);
    let failed = |error: csv::Error| ExportError::Write(error.into());
    csv.write_record(with_extras(CSV_COLUMNS, ["kind", "edited"], extras)).map_err(failed)?;
    let mut count = 0;
    for row in rows {
        let row = row?;
        let why: Vec<&str> = row.point.quality.reasons().collect();
        let (time, rows) = (row.point.time.to_string(), row.count.to_string());
        let (topic, value) = (harmless(&row.topic), value_cell(&row.point.value));
        let quality = row.point.quality.validity().name();
        let edited = row.edited.map(|id| id.to_string()).unwrap_or_default();
        let cells: [&str; CSV_COLUMNS.len()] = [&topic, &time, &value, quality, &why.join(" "), &rows];
        csv.write_record(with_extras(cells, [row.kind().name(), &edited], extras)).map_err(failed)?;
        count += 1;
    }
    csv.flush()?;
    Ok(count)
}

/// The columns of CSV.
const CSV_COLUMNS: [&str; 6] = ["topic", "time", "value", "quality", "why", "count"];

fn with_extras<'c>(
    cells: [&'c str; CSV_COLUMNS.len()],
    [kind, edited]: [&'c str; 2],
    extras: Extras,
) -> impl Iterator<Item = &'c str> {
    cells.into_iter().chain(extras.kinds.then_some(kind)).chain(extras.edited.then_some(edited))
}

pub(crate) fn value_cell(value: &Value) -> String {
    let text = plain(value);
    match value {
        Value::Text(_) => harmless(&text).into_owned(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bytes(_) => text,
    }
}

/// A text as a spreadsheet shows it and computes nothing: one that would be a formula there begins with an apostrophe.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    // Some programs pass over blanks before a formula.
    let begins = |signs: &[char]| text.trim_start_matches([' ', '\u{a0}']).starts_with(signs);
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if begins(&['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']) && !is_number {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Appends a row as a JSON object.
pub fn write_row(row: &Row, text: &mut String) {
    write_json(row, Extras::default(), text);
}

fn write_json(row: &Row, extras: Extras, text: &mut String) {
    text.push_str("{\"topic\":");
    json_string(&row.topic, text);
    text.push_str(if row.is_payload { ",\"payload\":true" } else { "" });
    let _ = write!(text, ",\"count\":{},", row.count);
    if extras.kinds {
        let _ = write!(text, "\"kind\":\"{}\",", row.kind().name());
    }
    if let Some(id) = row.edited {
        let _ = write!(text, "\"edited\":{id},");
    }
    // The point's own members follow: its opening brace is dropped.
    let at = text.len();
    row.point.write_json(text);
    text.remove(at);
}

fn json(
    rows: impl Iterator<Item = Result<Row, StoreError>>,
    extras: Extras,
    out: &mut impl Write,
) -> Result<u64, ExportError> {
    let mut text = String::new();
    let mut count = 0;
    for row in rows {
        text.push_str(if count == 0 { "[\n" } else { ",\n" });
        write_json(&row?, extras, &mut text);
        out.write_all(text.as_bytes())?;
        text.clear();
        count += 1;
    }
    out.write_all(if count == 0 { b"[]\n" } else { b"\n]\n" })?;
    Ok(count)
}

/// A value as a person reads it: as in JSON, but text bare and bytes as hexadecimal digits.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
        Value::Float(x) if !x.is_finite() => x.to_string().to_lowercase(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            let mut out = String::new();
            json_value(value, &mut out);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_for_people() {
        let cells = [1_176.899_999_999_999_9, 47.400_000_000_000_006, 0.1, -2.0, 1e300, 1.0 / 3.0];
        let shown = cells.map(|x| cell(&Value::Float(x)));
        assert_eq!(shown, ["1176.9", "47.4", "0.1", "-2.0", "1e300", "0.333333333333333"]);
        let mut out = Vec::new();
        assert_eq!(export(&mut RowPage::from(Vec::new()), Format::Table, || true, &mut out).unwrap(), 0);
        assert_eq!(out, b"none\n");
    }

    fn check(value: Value, expect: &str) {
        assert_eq!(value_cell(&value), expect);
    }

    #[test]
    fn a_spreadsheet_computes_nothing_of_what_it_opens() {
        for text in
            ["=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "=cmd|' /C calc'!A0", "-", "\u{ff1d}1"]
        {
            check(Value::Text(text.into()), &format!("'{text}"));
        }
        for text in ["open", "-12.5", "+3", "a=b", "", "'=1"] {
            check(Value::Text(text.into()), text);
        }
        check(Value::Float(-1.5), "-1.5");
        check(Value::Int(-7), "-7");
        check(Value::Float(f64::NEG_INFINITY), "-inf");
        assert_eq!((harmless("=a/b"), harmless("a/=b")), (Cow::Borrowed("'=a/b"), Cow::Borrowed("a/=b")));
    }
}
