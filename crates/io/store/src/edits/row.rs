//! The row of an edit: its columns, and what they stand for.

use super::{EDITS_FILE, EditKind, EditRecord, Ended, NewEdit};
use crate::StoreError;
use rusqlite::{Connection, Row};
use tieline_core::{Quality, Timestamp, Topic, Value, Words, json_value};

/// All columns, in the order of the table.
pub(super) const COLUMNS: &str = "id, topic, kind, from_us, to_us, value, quality, text, who, made_us, why, ended_us, ended_who, ended_why, is_erased";

/// The columns of an edit as a JSON array.
pub(super) fn row_text(db: &Connection, id: u64) -> Result<String, StoreError> {
    let sql = format!("SELECT json_array({COLUMNS}) FROM edits WHERE id = ?");
    Ok(db.prepare_cached(&sql)?.query_row([id.cast_signed()], |row| row.get(0))?)
}

/// A value as the column has it.
pub(super) fn json_of(value: &Value) -> String {
    let mut text = String::new();
    json_value(value, &mut text);
    text
}

/// The edit of a row with these columns.
pub(super) fn record(row: &Row<'_>) -> Result<EditRecord, StoreError> {
    let id = row.get::<_, i64>(0)?;
    let damaged = |what: &str| StoreError::Damaged(format!("{EDITS_FILE}: edit {id} has {what} that is none"));
    let time = |place| row.get(place).map(Timestamp::from_micros);
    let topic = Topic::new(&row.get::<_, String>(1)?).map_err(|_| damaged("a topic"))?;
    let kind = EditKind::of_word(&row.get::<_, String>(2)?).ok_or_else(|| damaged("a kind"))?;
    let value = row.get::<_, Option<String>>(5)?.map(|text| {
        let json = serde_json::from_str(&text).map_err(|_| damaged("a value"))?;
        crate::import::of_json(json).ok_or_else(|| damaged("a value"))
    });
    let quality = row.get::<_, Option<u16>>(6)?.map(Quality::from_bits);
    let ended = row.get::<_, Option<i64>>(11)?.map(Timestamp::from_micros);
    let ended = ended.map(|time| Ok::<_, StoreError>(Ended { who: row.get(12)?, time, why: row.get(13)? }));
    let edit = NewEdit {
        topic,
        kind,
        from: time(3)?,
        to: time(4)?,
        value: value.transpose()?,
        quality,
        text: row.get(7)?,
        who: row.get(8)?,
        made: time(9)?,
        why: row.get(10)?,
    };
    Ok(EditRecord { id: id.cast_unsigned(), edit, ended: ended.transpose()?, is_erased: row.get(14)? })
}
