//! The decoder of devices that do not exist: no trace has bytes of theirs.

use super::{Capture, Decoder, Message};
use tieline_net::Direction;

/// Decodes nothing.
pub struct NoBytes;

impl Decoder for NoBytes {
    fn push(&mut self, _: u8, _: Direction, _: &[u8], _: &mut Vec<Message>) {}

    fn restart(&mut self, _: u8, _: &mut Vec<Message>) {}

    fn capture(&self) -> Capture {
        Capture::Messages { dissector: "data" }
    }
}
