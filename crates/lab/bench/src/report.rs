//! Rows as JSON for programs and as a table for eyes, and a line that says how far a run is.

use crate::table::{self, Column, NOTHING};
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Why a row has no figures; a key of every such row.
const INVALID: &str = "invalid";

/// How rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One JSON array with a row a line, and all that is known of each.
    Json,
    /// Tables of at most so many characters a line.
    Table {
        /// Characters of a line.
        width: usize,
    },
    /// One table with every column, however wide.
    Wide,
}

/// Writes rows: as JSON, or the `columns` (heading, key) of them as a table.
///
/// # Errors
/// The output is gone.
pub fn write_rows<'c, R: Serialize>(
    out: &mut dyn Write,
    rows: &[R],
    columns: &[(&'c str, &'c str)],
    shape: Shape,
) -> Result<()> {
    if shape == Shape::Json {
        let lines = rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        writeln!(out, "[{}]", lines.join(",\n "))?;
        return Ok(());
    }
    let rows = rows.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    let invalid = |row: &Value| row.get(INVALID).and_then(Value::as_str).map(str::to_owned);
    let column = |&(heading, key): &(&'c str, &'c str)| Column {
        heading,
        cells: rows.iter().map(|row| cell(row.get(key), invalid(row).is_some())).collect(),
    };
    let columns: Vec<Column<'_>> = columns.iter().map(column).collect();
    let text = match shape {
        Shape::Json | Shape::Wide => table::wide(&columns),
        Shape::Table { width } => table::fitted(&columns, width),
    };
    out.write_all(text.as_bytes())?;
    for reason in rows.iter().filter_map(invalid) {
        writeln!(out, "INVALID: {reason}")?;
    }
    Ok(())
}

fn cell(value: Option<&Value>, invalid: bool) -> String {
    match value {
        Some(Value::Number(number)) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => count.to_string(),
            (None, Some(x)) => figure(x),
            (None, None) => number.to_string(),
        },
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(true)) => "on".to_owned(),
        Some(Value::Bool(false)) => "off".to_owned(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => {
            if invalid { "INVALID" } else { NOTHING }.to_owned()
        }
    }
}

/// Three figures or so, however large.
fn figure(x: f64) -> String {
    match x.abs() {
        size if size >= 100.0 => format!("{x:.0}"),
        size if size >= 10.0 => format!("{x:.1}"),
        size if size >= 1.0 => format!("{x:.2}"),
        size if size >= 0.01 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

/// From one line of progress to the next, where lines are not written over.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How far a run is, on standard error: one line that is written over again and again where that is a terminal, and
/// elsewhere a line every now and then. Each begins with the time since the run began.
#[derive(Debug)]
pub struct Progress {
    wanted: bool,
    began: Instant,
    /// When a line was written that stays.
    written: Cell<Option<Instant>>,
}

impl Progress {
    /// A line for who watches; none where nobody wants one.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        Self { wanted, began: Instant::now(), written: Cell::new(None) }
    }

    /// Shows what is being done.
    pub fn show(&self, what: &str) {
        if !self.wanted {
            return;
        }
        let elapsed = self.began.elapsed().as_secs();
        let line = format!("{:3}:{:02} {what}", elapsed / 60, elapsed % 60);
        // Nobody may watch; the run goes on.
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        } else if self.written.get().is_none_or(|written| written.elapsed() >= LINE_EVERY) {
            self.written.set(Some(Instant::now()));
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.wanted && std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        sessions: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu_us: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invalid: Option<String>,
    }

    #[test]
    fn writes_json_and_tables() {
        let rows = [
            Row { sessions: 1, cpu_us: Some(6.25), invalid: None },
            Row { sessions: 2, cpu_us: None, invalid: Some("3 exchanges were lost".into()) },
        ];
        let columns = [("sessions", "sessions"), ("CPU µs", "cpu_us")];
        let write = |shape| {
            let mut out = Vec::new();
            write_rows(&mut out, &rows, &columns, shape).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            write(Shape::Json),
            "[{\"sessions\":1,\"cpu_us\":6.25},\n {\"sessions\":2,\"invalid\":\"3 exchanges were lost\"}]\n"
        );
        for shape in [Shape::Table { width: 40 }, Shape::Wide] {
            let table = write(shape);
            assert!(table.contains("6.25") && table.contains("INVALID: 3 exchanges were lost"), "{table}");
        }
    }
}
