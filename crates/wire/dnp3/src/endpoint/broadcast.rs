//! User data to all outstations (IEEE 1815 9.2.4.1.4).

use super::{Received, Service};
use crate::link::{Frame, Function};

/// A frame recognised without being kept: a 32-bit FNV-1a hash of its bytes, which hold its length; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BroadcastFrame(u32);

impl BroadcastFrame {
    /// No frame.
    pub(super) const NONE: Self = Self(0);

    fn of(frame: &Frame<'_>) -> Self {
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        Self(frame.bytes().iter().fold(0x811c_9dc5, mix).max(1))
    }
}

impl Service<'_> {
    /// User data to all is taken whether it asks for an acknowledgement or not, and never acknowledged: the answers of all
    /// stations would meet on the line. Its frame count counts for nobody. A sender that waits for the acknowledgement
    /// sends the frame again: that is not taken again.
    pub(super) fn take_broadcast(&mut self, function: Function, frame: &Frame<'_>) -> Option<Received> {
        let asks = function == Function::ConfirmedUserData;
        let this = if asks { BroadcastFrame::of(frame) } else { BroadcastFrame::NONE };
        if core::mem::replace(self.broadcast, this) == this && asks {
            self.counters.repeated += 1;
            return None;
        }
        self.take(frame)
    }
}
