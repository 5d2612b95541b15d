//! Deltas of publishers (docs/delta.md, Publishers): gives the whole values that they make.

use super::state::Bus;
use bytes::Bytes;
use tieline_core::Topic;
use tieline_delta::{Intake, Refusal};

impl Bus {
    /// What of a publisher's offer is taken; none where nothing is.
    #[must_use]
    pub fn takes_deltas(&self, offer: &str) -> Option<String> {
        self.deltas.takes(offer)
    }

    /// The value that a marked message says.
    ///
    /// # Errors
    /// It says none; it is counted.
    pub fn rebuild(
        &mut self,
        intake: &mut Intake,
        topic: &Topic,
        payload: &Bytes,
        is_repeated: bool,
    ) -> Result<Bytes, Refusal> {
        let rebuilt = intake.take(topic, payload, is_repeated, self.deltas.codecs_mut());
        let is_delta = payload.first().is_some_and(|first| first >> 5 > 1);
        self.counters.published_deltas += u64::from(is_delta && rebuilt.is_ok());
        self.counters.deltas_refused += u64::from(rebuilt.is_err());
        rebuilt
    }
}
