//! What is recorded of what passes the bus, and who waits for it to be stored.
//!
//! A turn of the bus gives one batch. Whoever must not be told before the batch is durable leaves a receipt with it,
//! which comes back to the bus when the journal has it, or has refused it.

use super::status::HistoryStatus;
use super::writer::{HistoryError, HistoryOptions, HistoryWriter};
use crate::bus::{BusHandle, BusInput};
use crate::config::{Durability, HistoryConfig};
use std::path::Path;
use std::sync::Arc;
use tieline_core::{Body, Filter, Now, Point, Update};
use tieline_mqtt::PacketId;
use tieline_journal::Sample;
use tieline_store::Retention;
use tokio::sync::oneshot;

/// Who waits until something is stored.
#[derive(Debug)]
pub enum Receipt {
    /// A client's QoS 1 or 2 message.
    Client {
        /// Its key on the bus.
        key: usize,
        /// Which client had the key.
        generation: u64,
        /// What is to be acknowledged.
        packet_id: PacketId,
    },
    /// A device's events.
    Field(crate::field::Receipt),
    /// A call of the API.
    Call(oneshot::Sender<bool>),
}

/// The receipts of one batch.
pub type Receipts = Vec<Receipt>;

/// Collects what is to be recorded.
#[derive(Debug)]
pub struct Recorder {
    record: Vec<Filter>,
    writer: Option<Arc<HistoryWriter>>,
    samples: Vec<Sample>,
    receipts: Receipts,
    bus: BusHandle,
}

/// Opens the journal and the store in `folder`.
///
/// # Errors
/// They cannot be opened.
pub fn open(config: &HistoryConfig, folder: &Path) -> Result<Option<HistoryWriter>, HistoryError> {
    if !config.enabled {
        return Ok(None);
    }
    let options = HistoryOptions {
        synced: config.durability == Durability::Synced,
        journal_octets_max: config.journal_octets_max,
        retention: Retention { age: config.keep, octets: config.store_octets_max },
    };
    HistoryWriter::open(folder, options).map(Some)
}

impl Recorder {
    /// Records what the configuration names.
    #[must_use]
    pub fn new(config: &HistoryConfig, writer: Option<Arc<HistoryWriter>>, bus: BusHandle) -> Self {
        Self { record: config.record.clone(), writer, samples: Vec::new(), receipts: Vec::new(), bus }
    }

    /// Takes an update, if it is to be recorded; true when `receipt` will come back.
    pub fn record(&mut self, now: Now, update: &Update, receipt: Option<Receipt>) -> bool {
        if self.writer.is_none() || !self.record.iter().any(|filter| filter.matches(&update.topic)) {
            self.receipts.extend(receipt.and_then(answer_at_once));
            return false;
        }
        let mut update = update.clone();
        // What reads as a point is stored as one, so that it can be drawn and averaged.
        if let Body::Opaque(octets) = &update.body
            && let Ok(point) = Point::from_json(octets, now.utc)
        {
            update.body = Body::Point(point);
        }
        self.samples.push(Sample::new(now.utc, update));
        self.receipts.extend(receipt);
        true
    }

    /// Adds somebody who waits for what was recorded so far in this turn.
    pub fn await_stored(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// Hands the turn's batch to the journal. Returns the receipts that need not wait, and whether they are stored.
    pub fn submit(&mut self) -> Option<(Receipts, bool)> {
        let receipts = std::mem::take(&mut self.receipts);
        let samples = std::mem::take(&mut self.samples);
        let Some(writer) = self.writer.as_ref().filter(|_| !samples.is_empty()) else {
            return (!receipts.is_empty()).then_some((receipts, true));
        };
        if receipts.is_empty() {
            writer.submit(samples, None);
            return None;
        }
        let bus = self.bus.clone();
        let told = Box::new(move |stored| bus.tell_blocking(BusInput::Stored(receipts, stored)));
        writer.submit(samples, Some(told));
        None
    }

    /// How history is doing; none where it is off.
    #[must_use]
    pub fn status(&self) -> Option<HistoryStatus> {
        self.writer.as_ref().map(|writer| writer.status())
    }
}

/// A receipt for something that is not recorded: only a call has to be told.
fn answer_at_once(receipt: Receipt) -> Option<Receipt> {
    match receipt {
        Receipt::Call(answer) => {
            let _ = answer.send(true);
            None
        }
        Receipt::Client { .. } => None,
        Receipt::Field(_) => Some(receipt),
    }
}
