//! What is recorded of what passes the bus, and who waits for it to be stored.
//!
//! A turn of the bus gives one batch. Whoever must not be told before the batch is durable leaves a receipt with it,
//! which comes back to the bus when the journal has it, or has refused it.

use crate::bus::BusHandle;
use crate::config::HistoryConfig;
use std::path::Path;
use tieline_core::{Body, Filter, Now, Point, Timestamp, Update};
use tieline_history::{HistoryError, HistoryHandle, HistoryOptions, HistoryStatus, HistoryWriter};
use tieline_journal::Limits;
use tieline_mqtt::PacketId;
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
    writer: Option<HistoryHandle>,
    received: Timestamp,
    updates: Vec<Update>,
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
        durability: config.durability,
        journal: Limits { total_octets: config.journal_octets_max, ..Limits::default() },
        retention: Retention { age: config.keep, octets: config.store_octets_max },
        ..HistoryOptions::default()
    };
    HistoryWriter::open(folder, options).map(Some)
}

impl Recorder {
    /// Records what the configuration names.
    #[must_use]
    pub fn new(config: &HistoryConfig, writer: Option<HistoryHandle>, bus: BusHandle) -> Self {
        let (record, received) = (config.record.clone(), Timestamp::default());
        Self { record, writer, received, updates: Vec::new(), receipts: Vec::new(), bus }
    }

    /// Takes an update, if it is to be recorded; true when `receipt` will come back.
    pub fn record(&mut self, now: Now, update: &Update, receipt: Option<Receipt>) -> bool {
        // A cleared topic has no value to record.
        let is_clear = matches!(&update.body, Body::Opaque(octets) if octets.is_empty());
        if is_clear || self.writer.is_none() || !self.record.iter().any(|filter| filter.matches(&update.topic)) {
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
        self.received = now.utc;
        self.updates.push(update);
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
        let updates = std::mem::take(&mut self.updates);
        let Some(writer) = self.writer.as_ref().filter(|_| !updates.is_empty()) else {
            return (!receipts.is_empty()).then_some((receipts, true));
        };
        if receipts.is_empty() {
            writer.record(self.received, updates);
            return None;
        }
        let bus = self.bus.clone();
        let told = Box::new(move |stored: Result<_, _>| bus.tell_stored(receipts, stored.is_ok()));
        writer.submit(self.received, updates, told);
        None
    }

    /// How history is doing; none where it is off.
    #[must_use]
    pub fn status(&self) -> Option<HistoryStatus> {
        self.writer.as_ref().map(HistoryHandle::status)
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
