//! The next samples of the journal for a database.

use super::counts::By;
use crate::store_thread::entry_of;
use tieline_core::{Body, Filter, Value};
use tieline_databases::{DatabaseError, Row};
use tieline_journal::{Decoder, Item, Reader, Sample, Seq, place_of};
use tieline_store::FolderStorage;
use tracing::warn;

/// Bytes of journal of one batch, give or take a record.
const BATCH_BYTES: usize = 8 << 20;

/// Samples on their way.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    pub(super) records: u64,
    pub(super) missing: u64,
    /// The last record that was read.
    pub(super) upto: Option<Seq>,
    /// The position that it gives the database; none where no record is of this count.
    pub(super) to: Option<u64>,
    /// Whether there are samples of records of the other count.
    pub(super) has_others: bool,
    /// Whether there was more than fits.
    pub(super) is_full: bool,
}

/// Which records are read for a database.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The database's name here.
    pub(super) name: &'a str,
    pub(super) topics: &'a [Filter],
    /// Which count: its records alone.
    pub(super) by: By,
    /// Whether samples of records of the other count are missing in the database.
    pub(super) misses_others: bool,
}

/// Reads a batch of at most so many rows and records, give or take a record.
pub(super) fn gather(
    (reader, decoder): (&mut Reader<FolderStorage>, &mut Decoder),
    wanted: Wanted<'_>,
    durable: Seq,
    (rows_max, records_max): (usize, u64),
) -> Result<Batch, DatabaseError> {
    let (mut batch, mut bytes, mut gone) = (Batch::default(), 0, 0);
    let is_wanted = |sample: &Sample| wanted.topics.iter().any(|filter| filter.matches(&sample.update.topic));
    loop {
        if batch.rows.len() >= rows_max || bytes >= BATCH_BYTES || batch.records >= records_max {
            batch.is_full = true;
            return Ok(batch);
        }
        let item = reader.next(durable);
        match item.map_err(|error| DatabaseError::Refused(format!("the journal cannot be read: {error}")))? {
            None => return Ok(batch),
            Some(Item::Record { seq, payload }) => {
                bytes += payload.len();
                (batch.upto, batch.records) = (Some(seq), batch.records + 1);
                let position = wanted.by.position_of(seq, place_of(payload));
                batch.to = position.or(batch.to);
                if position.is_none() && wanted.by == By::Sequence {
                    // What is gone before a record of the core was of the core.
                    batch.missing -= std::mem::take(&mut gone);
                }
                match decoder.decode(payload) {
                    Ok(samples) if position.is_none() => {
                        batch.has_others |= !samples.is_empty();
                        batch.missing += u64::from(wanted.misses_others && !samples.is_empty());
                    }
                    Ok(samples) => batch.rows.extend(samples.into_iter().filter(is_wanted).map(row_of)),
                    Err(_) => batch.missing += 1,
                }
            }
            Some(Item::Lost(lost)) => {
                warn!(database = wanted.name, first = lost.first.0, records = lost.records, "journal records are gone");
                gone += lost.records;
                batch.missing += lost.records;
                batch.upto = Some(Seq(lost.first.0.saturating_add(lost.records)).previous());
            }
        }
    }
}

/// A sample as databases take it.
fn row_of(sample: Sample) -> Row {
    let again = sample.again;
    let entry = entry_of(Seq(0), sample);
    let (value, quality) = match entry.body {
        Body::Point(point) => (point.value, point.quality),
        Body::Published(point) => (point.value().clone(), point.quality()),
        Body::Opaque(bytes) => {
            let value = match std::str::from_utf8(&bytes) {
                Ok(text) => Value::Text(text.into()),
                Err(_) => Value::Bytes(bytes.to_vec().into()),
            };
            (value, tieline_core::Quality::GOOD)
        }
    };
    Row { topic: entry.topic, time: entry.time, value, quality, again }
}
