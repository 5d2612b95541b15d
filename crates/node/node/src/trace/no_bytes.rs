//! The decoder of devices whose bytes no trace has: those that do not exist, and those whose driver has no tap.

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
