//! The part of a trace that a simulated device has: there are no bytes.

use crate::trace::{Capture, Decoder, Message};
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
