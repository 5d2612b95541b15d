//! Pending acknowledgements: who waits until a batch of the ledger is on the disk.

use crate::bus::{Receipt, Wire};
use tieline_core::{Body, PublishedPoint};
use tieline_journal::Sample;
use tieline_net::Session;

/// An acknowledgement that waits until a batch is on the disk.
#[derive(Debug)]
pub enum PendingAck {
    /// The sender of a message.
    Receipt(Receipt),
    /// A message that history is given then.
    Record {
        /// What is recorded.
        sample: Box<Sample>,
        /// Who waits for history.
        receipt: Receipt,
    },
    /// A connection whose output is held until then.
    HeldOutput {
        /// Its place on the bus.
        key: usize,
        /// The connection.
        session: Session<Wire>,
    },
    /// A session whose exchanges go on then, up to a session change.
    SessionChanges {
        /// Its place on the bus.
        key: usize,
        /// Its number.
        number: u64,
        /// The last session change that the batch holds.
        upto: u64,
    },
    /// Locks that wait for their numbers.
    LockNumbers,
    /// Changes of alarms that are told then, up to one.
    Alarms {
        /// The number of the one behind it.
        upto: u64,
    },
}

impl PendingAck {
    /// Whether it goes on without a disk that hangs: sessions live in memory then, and alarms have to be told.
    pub(super) const fn goes_on_without_disk(&self) -> bool {
        matches!(self, Self::HeldOutput { .. } | Self::Alarms { .. })
    }

    /// Bytes that wait with it: its own, and those that it holds.
    pub(super) fn bytes(&self) -> usize {
        let held = match self {
            Self::Record { sample, .. } => {
                let bytes = match &sample.update.body {
                    Body::Opaque(bytes) => bytes.len(),
                    Body::Published(point) => size_of::<PublishedPoint>() + point.payload().len(),
                    Body::Point(_) => 0,
                };
                size_of::<Sample>() + bytes
            }
            Self::Receipt(_)
            | Self::HeldOutput { .. }
            | Self::SessionChanges { .. }
            | Self::LockNumbers
            | Self::Alarms { .. } => 0,
        };
        size_of::<(u64, Self)>() + held
    }
}
