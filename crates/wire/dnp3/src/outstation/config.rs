//! How an outstation behaves, with the defaults.

use super::events::EventLimits;
use crate::Classes;
use crate::lean::LeanConfig;
use core::time::Duration;

/// How an outstation behaves. Every duration may be anything; zero means at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutstationConfig {
    /// Its own link address, 0 to 65519. Default 10.
    pub address: u16,
    /// The link address of its master: the only one whose requests are answered, and where unsolicited responses go.
    /// Default 1.
    pub master: u16,
    /// Whether requests to FFFC, to any outstation of the link, are answered. Default false.
    pub answers_self_address: bool,
    /// The longest fragment that is sent, 272 (so that every octet string fits) to 2048 bytes; what is beyond is brought
    /// within. Default 2048.
    pub fragment_bytes_sent_max: u16,
    /// The longest fragment that is received, 249 bytes and up. Default 2048.
    pub fragment_bytes_received_max: u16,
    /// How long a solicited response waits for its confirm before its events wait for another request. Default 5 s.
    pub confirm_timeout: Duration,
    /// How long a selection holds. Default 10 s.
    pub select_timeout: Duration,
    /// The most controls in one request; the rest are answered with status 8, too many operations. Default 16.
    pub controls_max: u8,
    /// What a cold or warm restart is answered with: the time until the next request makes sense, whole milliseconds
    /// up to 65535 and whole seconds beyond. Default 5 s.
    pub restart_delay: Duration,
    /// How often IIN1.4 asks for the time, counted from the start and from each time that was written; none never
    /// asks. Default none.
    pub need_time_every: Option<Duration>,
    /// Whether event times are to be trusted (group 51 variation 1) before a master has set the clock. Default true:
    /// the machine it runs on keeps time by itself.
    pub clock_synchronized: bool,
    /// How many events of each type are kept. Default 100.
    pub event_limits: EventLimits,
    /// Unsolicited responses; none does not know the functions. Default as [`UnsolicitedConfig::default`].
    pub unsolicited: Option<UnsolicitedConfig>,
    /// Whether lean messages are offered or accepted (docs/dnp3-lean.md). Default none.
    pub lean: Option<LeanConfig>,
}

/// How an outstation reports on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsolicitedConfig {
    /// The classes that are enabled at start, before any master has asked. Default none, as the standard has it.
    pub classes: Classes,
    /// How long each response waits for its confirm. Default 5 s.
    pub confirm_timeout: Duration,
    /// How often a response with events is repeated; none repeats until it is confirmed. After the last repetition
    /// it waits for another event, a request or another connection. Default none.
    pub retries_max: Option<u16>,
    /// How long an event waits for others before a response is sent. Default zero: at once.
    pub hold_time: Duration,
    /// How many waiting events end the hold time. Default 10.
    pub events_before_hold_ends: u16,
    /// The most events in one response; as many as fit the fragment at most. Default 100.
    pub events_max: u16,
    /// Classes whose events do not wait for the end of a response of many fragments: they are reported between two of
    /// them, and the response goes on when they are confirmed. Default none: events wait, as most masters expect.
    pub protection: Classes,
}

impl Default for OutstationConfig {
    fn default() -> Self {
        Self {
            address: 10,
            master: 1,
            answers_self_address: false,
            fragment_bytes_sent_max: 2048,
            fragment_bytes_received_max: 2048,
            confirm_timeout: Duration::from_secs(5),
            select_timeout: Duration::from_secs(10),
            controls_max: 16,
            restart_delay: Duration::from_secs(5),
            need_time_every: None,
            clock_synchronized: true,
            event_limits: EventLimits::default(),
            unsolicited: Some(UnsolicitedConfig::default()),
            lean: None,
        }
    }
}

impl Default for UnsolicitedConfig {
    fn default() -> Self {
        Self {
            classes: Classes::NONE,
            confirm_timeout: Duration::from_secs(5),
            retries_max: None,
            hold_time: Duration::ZERO,
            events_before_hold_ends: 10,
            events_max: 100,
            protection: Classes::NONE,
        }
    }
}
