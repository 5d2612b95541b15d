//! How long things take on the bus, for percentiles in metrics.
//!
//! Turns are all counted. Acknowledgements are counted by sample, so that a message costs nothing more: of those that wait
//! for the disk one at a time, of those that do not every 64th.

use std::time::Duration;
use tieline_core::{Histogram, Instant};
use tieline_mqtt::PacketId;

/// Of acknowledgements that wait for nothing, every so many-th is counted.
const AT_ONCE_EVERY: u32 = 64;
/// An acknowledgement that takes longer belongs to a session that has ended.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Durations that the bus's thread counts.
#[derive(Debug, Default)]
pub struct BusDurations {
    /// Turns: what has come is applied, and what is due is sent.
    pub turns: Histogram,
    acknowledgements: Histogram,
    watched: Option<Watched>,
    at_once: u32,
}

/// The message whose acknowledgement is measured.
#[derive(Debug)]
struct Watched {
    session: (usize, u64),
    packet_id: PacketId,
    since: Instant,
}

impl BusDurations {
    /// From a message of a client to its acknowledgement.
    #[must_use]
    pub const fn acknowledgements(&self) -> &Histogram {
        &self.acknowledgements
    }

    /// A message came that is acknowledged later.
    pub fn publish_waits(&mut self, now: Instant, session: (usize, u64), packet_id: PacketId) {
        if self.watched.as_ref().is_none_or(|watched| now.since(watched.since) > GONE_AFTER) {
            self.watched = Some(Watched { session, packet_id, since: now });
        }
    }

    /// A message that waited is acknowledged.
    pub fn publish_answered(&mut self, session: (usize, u64), packet_id: PacketId, now: impl FnOnce() -> Instant) {
        let is_it = |watched: &mut Watched| watched.packet_id == packet_id && watched.session == session;
        if let Some(watched) = self.watched.take_if(is_it) {
            self.acknowledgements.record(now().since(watched.since));
        }
    }

    /// A message that came at `since` is acknowledged at once.
    pub fn publish_done(&mut self, since: Instant, now: impl FnOnce() -> Instant) {
        if self.at_once == 0 {
            self.acknowledgements.record(now().since(since));
        }
        self.at_once = (self.at_once + 1) % AT_ONCE_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(0) + Duration::from_millis(ms)
    }

    #[test]
    fn one_message_at_a_time_is_watched() {
        let mut durations = BusDurations::default();
        let id = |number| PacketId::new(number).unwrap();
        durations.publish_waits(at(0), (1, 7), id(3));
        durations.publish_waits(at(5), (2, 8), id(3));
        durations.publish_answered((2, 8), id(3), || at(6));
        // The place was given to another session.
        durations.publish_answered((1, 8), id(3), || at(7));
        assert_eq!(durations.acknowledgements().count(), 0);
        durations.publish_answered((1, 7), id(3), || at(9));
        durations.publish_answered((1, 7), id(3), || at(9));
        assert_eq!(
            (durations.acknowledgements().count(), durations.acknowledgements().sum()),
            (1, Duration::from_millis(9))
        );
        durations.publish_waits(at(10), (1, 7), id(4));
        durations.publish_waits(at(70_011), (1, 7), id(5));
        durations.publish_answered((1, 7), id(5), || at(70_012));
        assert_eq!(durations.acknowledgements().sum(), Duration::from_millis(10));
    }

    #[test]
    fn every_64th_message_that_waits_for_nothing_is_counted() {
        let mut durations = BusDurations::default();
        (0..129).for_each(|_| durations.publish_done(at(0), || at(1)));
        assert_eq!(
            (durations.acknowledgements().count(), durations.acknowledgements().sum()),
            (3, Duration::from_millis(3))
        );
    }
}
