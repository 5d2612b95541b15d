//! How long states stood, as text, CSV or JSON.

use crate::export::{harmless, plain, value_cell};
use crate::{ExportError, Format, StoreError};
use std::fmt::Write as _;
use std::io::Write;
use tieline_core::{Timestamp, Topic, Value, json_string, json_value};

/// How long a topic was in a state, in all or in a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    /// Whose.
    pub topic: Topic,
    /// When the bucket begins.
    pub start: Timestamp,
    /// The value; none where it is unknown: the sample before was bad.
    pub state: Option<Value>,
    /// How long, in seconds.
    pub seconds: f64,
    /// Which part of the bucket that is.
    pub share: f64,
    /// How often the state was entered.
    pub count: u64,
    /// The last edit whose time meets the bucket.
    pub edited: Option<u64>,
}

/// The formats of states.
pub const STATE_FORMATS: [Format; 3] = [Format::Table, Format::Csv, Format::Json];

/// Writes states and says how many. Other formats than [`STATE_FORMATS`] are written as JSON.
///
/// # Errors
/// Reading or writing failed; what was written is incomplete then.
pub fn export_states<W: Write>(
    rows: impl Iterator<Item = Result<StateRow, StoreError>>,
    format: Format,
    mut out: W,
) -> Result<u64, ExportError> {
    let count = match format {
        Format::Table => table(rows, &mut out),
        Format::Csv => csv(rows, &mut out),
        Format::Json | Format::Parquet | Format::Arrow => json(rows, &mut out),
    }?;
    out.flush()?;
    Ok(count)
}

impl StateRow {
    const fn quality(&self) -> &'static str {
        if self.state.is_some() { "good" } else { "bad" }
    }

    fn state_text(&self) -> String {
        self.state.as_ref().map_or_else(|| "unknown".to_owned(), plain)
    }
}

fn table(rows: impl Iterator<Item = Result<StateRow, StoreError>>, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut count = 0;
    for row in rows {
        let row = row?;
        if count == 0 {
            writeln!(
                out,
                "{:24}  {:>16}  {:>14}  {:>7}  {:>8}  topic",
                "from", "state", "seconds", "share", "entered"
            )?;
        }
        let share = format!("{:.2} %", row.share * 100.0);
        let (start, state, topic) = (row.start.to_string(), row.state_text(), &*row.topic);
        writeln!(out, "{start:24}  {state:>16}  {:>14.3}  {share:>7}  {:>8}  {topic}", row.seconds, row.count)?;
        count += 1;
    }
    if count == 0 {
        writeln!(out, "none")?;
    }
    Ok(count)
}

fn csv(rows: impl Iterator<Item = Result<StateRow, StoreError>>, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut csv = csv::Writer::from_writer(out);
    let failed = |error: csv::Error| ExportError::Write(error.into());
    csv.write_record(["topic", "time", "value", "quality", "seconds", "share", "count"]).map_err(failed)?;
    let mut count = 0;
    for row in rows {
        let row = row?;
        csv.write_record([
            &*harmless(&row.topic),
            &row.start.to_string(),
            &row.state.as_ref().map(value_cell).unwrap_or_default(),
            row.quality(),
            &row.seconds.to_string(),
            &row.share.to_string(),
            &row.count.to_string(),
        ])
        .map_err(failed)?;
        count += 1;
    }
    csv.flush()?;
    Ok(count)
}

fn json(rows: impl Iterator<Item = Result<StateRow, StoreError>>, out: &mut impl Write) -> Result<u64, ExportError> {
    let (mut text, mut count) = (String::new(), 0);
    for row in rows {
        let row = row?;
        text.push_str(if count == 0 { "[\n" } else { ",\n" });
        text.push_str("{\"topic\":");
        json_string(&row.topic, &mut text);
        text.push_str(",\"v\":");
        json_value(row.state.as_ref().unwrap_or(&Value::Null), &mut text);
        let StateRow { start, seconds, share, count: entered, .. } = &row;
        let quality = row.quality();
        let _ = write!(
            text,
            ",\"q\":\"{quality}\",\"t\":\"{start}\",\"seconds\":{seconds},\"share\":{share},\"count\":{entered}"
        );
        if let Some(id) = row.edited {
            let _ = write!(text, ",\"edited\":{id}");
        }
        text.push('}');
        out.write_all(text.as_bytes())?;
        text.clear();
        count += 1;
    }
    out.write_all(if count == 0 { b"[]\n" } else { b"\n]\n" })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(format: Format) -> String {
        let row = |state, seconds, count| StateRow {
            topic: Topic::new("a/b").unwrap(),
            start: Timestamp::from_millis(0),
            state,
            seconds,
            share: seconds / 10.0,
            count,
            edited: (count == 1).then_some(7),
        };
        let rows = [row(Some(Value::Text("=open".into())), 7.5, 2), row(None, 2.5, 1)];
        let mut out = Vec::new();
        assert_eq!(export_states(rows.into_iter().map(Ok), format, &mut out).unwrap(), 2);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn states_are_written_for_people_and_programs() {
        let csv = "topic,time,value,quality,seconds,share,count\n\
             a/b,1970-01-01T00:00:00.000Z,'=open,good,7.5,0.75,2\n\
             a/b,1970-01-01T00:00:00.000Z,,bad,2.5,0.25,1\n";
        assert_eq!(exported(Format::Csv), csv);
        let json: Vec<serde_json::Value> = serde_json::from_str(&exported(Format::Json)).unwrap();
        assert_eq!((&json[0]["v"], &json[1]["v"], &json[1]["q"]), (&"=open".into(), &().into(), &"bad".into()));
        assert!(exported(Format::Table).contains(" unknown "));
        let mut out = Vec::new();
        export_states(std::iter::empty(), Format::Table, &mut out).unwrap();
        assert_eq!(out, b"none\n");
    }
}
