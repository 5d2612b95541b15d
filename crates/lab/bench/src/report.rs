//! Rows as JSON for programs and as a table for eyes, and a line that says how far a run is.

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use serde_json::Value;
use std::io::{IsTerminal, Write};

/// Why a row has no figures; a key of every such row.
const INVALID: &str = "invalid";

/// Writes rows: one JSON array with a row a line, or a table of `columns` (heading, key).
///
/// # Errors
/// The output is gone.
pub fn write_rows<R: Serialize>(out: &mut dyn Write, rows: &[R], columns: &[(&str, &str)], json: bool) -> Result<()> {
    if json {
        let lines = rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        writeln!(out, "[{}]", lines.join(",\n "))?;
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|(heading, _)| *heading));
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut reasons = Vec::new();
    for row in rows {
        let row = serde_json::to_value(row)?;
        let invalid = row.get(INVALID).and_then(Value::as_str);
        reasons.extend(invalid.map(str::to_owned));
        table.add_row(columns.iter().map(|(_, key)| cell(row.get(*key), invalid.is_some())));
    }
    writeln!(out, "{table}")?;
    for reason in reasons {
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
            if invalid { "INVALID" } else { "–" }.to_owned()
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

/// One line on standard error that is written over again and again, where that is a terminal.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// A line for a person who watches; none where standard error is a file or a pipe, or where nobody wants one.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        Self { shown: wanted && std::io::stderr().is_terminal() }
    }

    /// Shows what is being done.
    pub fn show(&self, what: &str) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K{what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
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
        let write = |json| {
            let mut out = Vec::new();
            write_rows(&mut out, &rows, &columns, json).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            write(true),
            "[{\"sessions\":1,\"cpu_us\":6.25},\n {\"sessions\":2,\"invalid\":\"3 exchanges were lost\"}]\n"
        );
        let table = write(false);
        assert!(table.contains("6.25") && table.contains("INVALID: 3 exchanges were lost"), "{table}");
    }
}
