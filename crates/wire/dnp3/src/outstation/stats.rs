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
    /// Controls refused, whoever refused them.
    pub controls_refused: u64,
    /// Events dropped because the buffer of their type was full.
    pub events_dropped: u64,
    /// Gauge: events that wait for being reported or confirmed.
    pub events_waiting: u64,
}
