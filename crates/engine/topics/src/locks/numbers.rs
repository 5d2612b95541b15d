//! Numbers of acquisitions: each higher than all before it, also those of a node that crashed.

use tieline_core::Timestamp;

/// Numbers that are reserved at a time. After a crash, those of them that were not given out are never given out.
const BLOCK: u64 = 1024;

/// Numbers, given out from a block that is reserved on the disk.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The last that was given out, or must not be.
    last: u64,
    /// The last that may be given out.
    upto: u64,
    /// The last of the block that is being reserved.
    asked: Option<u64>,
    /// The highest that was ever reserved.
    reserved: u64,
    /// Whether a lock waits for a number.
    is_wanted: bool,
}

impl Numbers {
    pub(super) const fn begin_after(&mut self, reserved: u64) {
        if reserved > self.reserved {
            (self.last, self.upto, self.reserved) = (reserved, reserved, reserved);
        }
    }

    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) const fn take(&mut self) -> Option<u64> {
        if self.last >= self.upto {
            self.is_wanted = true;
            return None;
        }
        self.last += 1;
        Some(self.last)
    }

    /// The block to be reserved next, where one is wanted, or will be soon. Nodes without locks reserve none. The first block of
    /// a node begins at the milliseconds since 1970 at least: so numbers grow, too, where the folder with the ledger is older
    /// than the last acquisition, as after the restore of a backup.
    pub(super) fn poll_reservation(&mut self, utc: Timestamp) -> Option<u64> {
        let is_first = self.upto == self.last && self.is_wanted;
        let is_half = self.upto > self.last && self.upto - self.last < BLOCK / 2;
        if self.asked.is_some() || !(is_first || is_half) {
            return None;
        }
        let clock = if is_first { u64::try_from(utc.millis()).unwrap_or(0) } else { 0 };
        let upto = self.reserved.max(clock) + BLOCK;
        if is_first {
            self.last = self.last.max(upto - BLOCK);
            self.upto = self.last;
        }
        (self.asked, self.reserved) = (Some(upto), upto);
        Some(upto)
    }

    pub(super) const fn handle_reserved(&mut self, is_durable: bool) {
        if let Some(upto) = self.asked.take()
            && is_durable
        {
            self.upto = upto;
        }
        self.is_wanted = false;
    }
}
