//! What an outstation counts.

use crate::endpoint::EndpointCounters;

/// What an outstation has seen and done since it was made. Gauges say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutstationStats {
    /// Of the link and transport layers.
    pub endpoint: EndpointCounters,
    /// Requests taken, confirms not counted.
    pub requests: u64,
    /// Requests that repeated the one before and were answered with the same response.
    pub requests_repeated: u64,
    /// Fragments that are no request: too short, of several fragments, or responses.
    pub fragments_malformed: u64,
    /// Requests answered with IIN2.0, 2.1 or 2.2.
    pub requests_refused: u64,
    /// Solicited responses sent, each fragment counted.
    pub responses: u64,
    /// Unsolicited responses sent, repetitions not counted.
    pub unsolicited: u64,
    /// Unsolicited responses sent again.
    pub unsolicited_repeated: u64,
    /// Confirms that were awaited.
    pub confirms: u64,
    /// Confirms that were not.
    pub confirms_unexpected: u64,
    /// Confirms that did not come in time.
    pub confirms_missed: u64,
    /// Controls operated with success.
    pub controls_operated: u64,
    /// Controls refused, by this library or by the owner.
    pub controls_refused: u64,
    /// Events dropped because the buffer of their type was full.
    pub events_dropped: u64,
    /// Gauge: events that wait for being reported or confirmed.
    pub events_waiting: u64,
}

/// What the application layer counts, by the names of [`OutstationStats`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) requests_repeated: u64,
    pub(super) fragments_malformed: u64,
    pub(super) requests_refused: u64,
    pub(super) responses: u64,
    pub(super) unsolicited: u64,
    pub(super) unsolicited_repeated: u64,
    pub(super) confirms: u64,
    pub(super) confirms_unexpected: u64,
    pub(super) confirms_missed: u64,
    pub(super) controls_operated: u64,
    pub(super) controls_refused: u64,
}

impl Counts {
    /// With what other parts count.
    pub(super) const fn with(
        &self,
        endpoint: EndpointCounters,
        events_dropped: u64,
        events_waiting: u64,
    ) -> OutstationStats {
        OutstationStats {
            endpoint,
            requests: self.requests,
            requests_repeated: self.requests_repeated,
            fragments_malformed: self.fragments_malformed,
            requests_refused: self.requests_refused,
            responses: self.responses,
            unsolicited: self.unsolicited,
            unsolicited_repeated: self.unsolicited_repeated,
            confirms: self.confirms,
            confirms_unexpected: self.confirms_unexpected,
            confirms_missed: self.confirms_missed,
            controls_operated: self.controls_operated,
            controls_refused: self.controls_refused,
            events_dropped,
            events_waiting,
        }
    }
}
