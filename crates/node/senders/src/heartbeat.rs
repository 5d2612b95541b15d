//! When heartbeats are due: messages at an interval, so that the silence of a node is noticed elsewhere.
//!
//! They are never queued: one that fails is not repeated, and there is one at a time for each receiver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Instant;

/// The heartbeats of all receivers.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    beats: BTreeMap<Arc<str>, Beat>,
}

#[derive(Debug)]
struct Beat {
    every: Duration,
    due: Instant,
    /// The last one has not ended.
    is_out: bool,
}

impl Heartbeats {
    /// These receivers get heartbeats; those of a new receiver begin at once.
    pub fn set<'a>(&mut self, now: Instant, all: impl Iterator<Item = (&'a Arc<str>, Duration)>) {
        let mut before = std::mem::take(&mut self.beats);
        self.beats = all
            .map(|(name, every)| {
                let beat = before.remove(name).unwrap_or(Beat { every, due: now, is_out: false });
                (Arc::clone(name), Beat { every, due: beat.due.min(now + every), ..beat })
            })
            .collect();
    }

    /// The receivers of heartbeats that are due; [`Heartbeats::finish`] is due for each.
    pub fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        for (name, beat) in self.beats.iter_mut().filter(|(_, beat)| beat.due <= now) {
            beat.due = now + beat.every;
            if !std::mem::replace(&mut beat.is_out, true) {
                due.push(Arc::clone(name));
            }
        }
        due
    }

    /// A heartbeat has ended.
    pub fn finish(&mut self, name: &str) {
        if let Some(beat) = self.beats.get_mut(name) {
            beat.is_out = false;
        }
    }

    pub fn timeout(&self) -> Option<Instant> {
        self.beats.values().map(|beat| beat.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_due_at_its_interval_and_one_at_a_time() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let (name, minute) = (Arc::from("watch"), Duration::from_mins(1));
        let mut beats = Heartbeats::default();
        assert_eq!((beats.timeout(), beats.take_due(at(0)).len()), (None, 0));
        beats.set(at(10), [(&name, minute)].into_iter());
        assert_eq!((beats.timeout(), beats.take_due(at(9)).len()), (Some(at(10)), 0));
        assert_eq!(beats.take_due(at(10)), [Arc::clone(&name)]);
        // The first has not ended: the second is left out, and not made up for.
        assert_eq!((beats.take_due(at(70)).len(), beats.timeout()), (0, Some(at(130))));
        beats.finish("watch");
        assert_eq!(beats.take_due(at(129)).len(), 0);
        assert_eq!(beats.take_due(at(500)), [Arc::clone(&name)]);
        beats.finish("watch");
        // Another interval holds from now on, and a receiver that is no more has none.
        beats.set(at(510), [(&name, Duration::from_secs(10))].into_iter());
        assert_eq!(beats.timeout(), Some(at(520)));
        beats.set(at(511), std::iter::empty());
        beats.finish("watch");
        assert_eq!(beats.timeout(), None);
    }
}
