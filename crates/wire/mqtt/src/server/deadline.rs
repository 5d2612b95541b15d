//! When a client has been silent, or slow, for too long.

use super::{Phase, ServerSession};
use core::time::Duration;
use tieline_core::Instant;

/// Bytes a second that a packet may come at, once it has had its time: the slowest radio is faster.
const BYTES_PER_S_MIN: u64 = 128;

impl ServerSession {
    /// When the session ends unless a packet comes to its end.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Greeting { deadline } | Phase::Authenticating { deadline } => Some(deadline),
            Phase::Open { .. } => self.keep_alive_deadline().into_iter().chain(self.packet_deadline()).min(),
            Phase::Idle | Phase::Deciding | Phase::Closed => None,
        }
    }

    fn keep_alive_deadline(&self) -> Option<Instant> {
        // [MQTT-3.1.2-22]: one and a half times the keep alive.
        let half_s = u64::from(self.link.keep_alive_s) * 3;
        (half_s > 0).then(|| self.link.last_packet + Duration::from_millis(half_s * 500))
    }

    /// A packet that has begun is to end, whatever the keep alive: bytes that trickle hold memory.
    fn packet_deadline(&self) -> Option<Instant> {
        let slowest = Duration::from_secs(self.decoder.awaited_bytes() as u64 / BYTES_PER_S_MIN);
        self.link.packet_began.map(|began| began + self.config.packet_timeout + slowest)
    }
}
