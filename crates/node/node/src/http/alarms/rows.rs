//! Rows of the journal of alarms, as the history has them.

use super::super::problem::Problem;
use crate::control::alarms::{JOURNAL_TOPIC, JournalRow};
use std::ops::ControlFlow;
use tieline_core::{Filter, Timestamp, Value};
use tieline_history::{HistoryQuery, HistorySource};

/// Calls with each row of a time, the oldest first, until it is told to break.
pub(super) fn each_row(
    source: &HistorySource,
    (from, to): (Timestamp, Timestamp),
    mut each: impl FnMut(JournalRow) -> ControlFlow<()>,
) -> Result<(), Problem> {
    let failed = |error: tieline_store::StoreError| Problem::unavailable(error.to_string());
    let topic = Filter::new(JOURNAL_TOPIC).map_err(|error| Problem::unavailable(error.to_string()))?;
    let query = HistoryQuery { from: Some(from), to: Some(to), ..HistoryQuery::of(topic) };
    for row in source.reader().map_err(failed)?.query(query).map_err(failed)? {
        let row = row.map_err(failed)?;
        // What is no row was written by somebody else: history can be imported.
        let Some(row) = row_of(&row.point.value) else { continue };
        if each(row).is_break() {
            break;
        }
    }
    Ok(())
}

fn row_of(value: &Value) -> Option<JournalRow> {
    match value {
        Value::Text(text) => serde_json::from_str(text).ok(),
        Value::Bytes(bytes) => serde_json::from_slice(bytes).ok(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => None,
    }
}
