//! How a device treats a request: it answers, later or not as it should, or not at all.

use std::time::Duration;
use tieline_core::Now;

/// Bytes of an answer that is none of its protocol.
pub const NOISE_BYTES: usize = 16;

/// What a device does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What it is asked.
    Answer,
    /// It refuses.
    Refuse,
    /// These bytes, which are no answer, come in its place.
    Noise([u8; NOISE_BYTES]),
    /// No answer comes. Half of the requests are carried out all the same.
    Nothing {
        /// Whether this one is.
        is_carried_out: bool,
    },
    /// It is off: it has no connections.
    Off,
}

/// How a device treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// How long the answer takes.
    pub after: Duration,
    /// What it is.
    pub reply: Reply,
}

impl Treatment {
    /// Of a device that is well.
    pub const WELL: Self = Self { after: Duration::ZERO, reply: Reply::Answer };
}

/// Whether a device is there at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    There,
    /// It says nothing; its connections stay.
    Silent,
    /// It is off: it has no connections.
    Off,
}

/// What decides how requests are treated.
pub trait Treats {
    /// How the next request is treated.
    fn treat(&mut self, now: Now) -> Treatment;

    /// Whether the device says nothing at the moment, unasked neither.
    fn is_silent(&mut self, now: Now) -> bool;
}

/// A device that is always well.
#[derive(Clone, Copy, Debug)]
pub struct Well;

impl Treats for Well {
    fn treat(&mut self, _now: Now) -> Treatment {
        Treatment::WELL
    }

    fn is_silent(&mut self, _now: Now) -> bool {
        false
    }
}
