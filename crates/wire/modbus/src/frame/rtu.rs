//! RTU frames (Serial Line 2.5.1): unit 1, PDU, CRC 2. Nothing says where one begins; a pause of 3.5 characters does, and
//! pauses get lost between a line and a program. So a frame is what ends with the right check, wherever it began: noise
//! in front of it does not matter.

use super::{ADU_RTU_BYTES_MAX, crc};
use crate::Unit;
use alloc::vec::Vec;

/// Bytes of the shortest frame: unit, function, CRC.
const FRAME_BYTES_MIN: usize = 4;

/// The last bytes of a line, at most as many as a frame has.
#[derive(Debug, Default)]
pub(crate) struct RtuWindow(Vec<u8>);

impl RtuWindow {
    /// Forgets what came, and says how much that was.
    pub(crate) fn clear(&mut self) -> usize {
        let count = self.0.len();
        self.0.clear();
        count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a byte. When a frame ends with it, gives its unit, its PDU, and how many bytes of noise were before it;
    /// the owner clears the window then. `length_of` says, from unit and the start of a PDU, how many bytes the PDU has.
    pub(crate) fn push(
        &mut self,
        byte: u8,
        length_of: impl Fn(Unit, &[u8]) -> Option<usize>,
    ) -> Option<(Unit, &[u8], usize)> {
        if self.0.len() >= ADU_RTU_BYTES_MAX {
            self.0.drain(..1);
        }
        self.0.push(byte);
        let last_start = self.0.len().checked_sub(FRAME_BYTES_MIN)?;
        (0..=last_start).find_map(|start| {
            let frame = self.0.get(start..)?;
            let (unit, rest) = frame.split_first()?;
            let pdu_bytes = frame.len() - 3;
            if length_of(Unit(*unit), rest)? != pdu_bytes || crc(frame) != 0 {
                return None;
            }
            Some((Unit(*unit), rest.get(..pdu_bytes)?, start))
        })
    }

    /// All that came, when it is a frame of whatever length: what a pause is the end of.
    pub(crate) fn whole(&self) -> Option<(Unit, &[u8])> {
        let (unit, rest) = self.0.split_first()?;
        let pdu = rest.split_last_chunk::<2>()?.0;
        (self.0.len() >= FRAME_BYTES_MIN && crc(&self.0) == 0).then_some((Unit(*unit), pdu))
    }
}
