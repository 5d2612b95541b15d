//! How a master behaves, with the defaults.

use crate::Classes;
use crate::lean::LeanConfig;
use crate::transport::FRAGMENT_BYTES_MIN;
use core::time::Duration;

/// How the clock of an outstation is set when it asks with IIN1.4 (IEEE 1815 10.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeSync {
    /// Not at all.
    Never,
    /// Function 24, then a write of g50v3: for networks.
    #[default]
    Lan,
    /// Function 23, then a write of g50v1 corrected by half of the way: for serial lines.
    DelayMeasure,
    /// A write of g50v1 alone: for outstations that know neither function.
    Write,
}

/// How a master behaves. Durations of zero mean at once, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterConfig {
    /// Its own link address, 0 to 65519. Default 1.
    pub address: u16,
    /// The link address of the outstation. Default 10.
    pub outstation: u16,
    /// The longest fragment that is received, 249 bytes and up. Default 2048.
    pub fragment_bytes_max: u16,
    /// Fragments of one response; a longer one fails with [`TaskOutcome::TooLong`](super::TaskOutcome::TooLong).
    /// Default 4096.
    pub fragments_max: u16,
    /// How long each fragment of a response may take. Default 5 s.
    pub response_timeout: Duration,
    /// Bytes of a request at most. Default 249, which every outstation takes (IEEE 1815 8.2).
    pub request_bytes_max: u16,
    /// How often a request is repeated that was not answered; an operate never is. Default 1: some outstations lose a
    /// request that crosses their unsolicited response.
    pub retries: u8,
    /// How long a procedure of start-up waits after it failed. Default 5 s.
    pub retry_delay: Duration,
    /// Silence after which the link is asked for its status; none never asks. Default 60 s.
    pub keep_alive: Option<Duration>,
    /// Classes that are kept from reporting at start-up, before the integrity poll. Default all events.
    pub disable_unsolicited: Classes,
    /// Classes read at start-up, after a restart and after an overflow; none never reads. Default all.
    pub integrity: Classes,
    /// Classes that may report after the integrity poll. Default all events.
    pub enable_unsolicited: Classes,
    /// Whether IIN1.7 is cleared. Default true.
    pub clear_restart: bool,
    /// Classes that are polled when IIN1.1-1.3 says that they have events. Default none: unsolicited brings them.
    pub event_poll: Classes,
    /// How the clock is set. Default [`TimeSync::Lan`].
    pub time_sync: TimeSync,
    /// The shortest time between two settings of the clock. Default 60 s.
    pub time_sync_interval_min: Duration,
    /// Controls that may wait, and other tasks that may: each has its own limit. Default 16.
    pub tasks_max: u8,
    /// Whether confirms of fragments with events wait for
    /// [`Master::release_confirm`](super::Master::release_confirm). Default false.
    pub hold_confirm: bool,
    /// Whether lean messages are offered or accepted (docs/dnp3-lean.md). Default none.
    pub lean: Option<LeanConfig>,
}

impl Default for MasterConfig {
    fn default() -> Self {
        Self {
            address: 1,
            outstation: 10,
            fragment_bytes_max: 2048,
            fragments_max: 4096,
            request_bytes_max: FRAGMENT_BYTES_MIN,
            response_timeout: Duration::from_secs(5),
            retries: 1,
            retry_delay: Duration::from_secs(5),
            keep_alive: Some(Duration::from_secs(60)),
            disable_unsolicited: Classes::EVENTS,
            integrity: Classes::ALL,
            enable_unsolicited: Classes::EVENTS,
            clear_restart: true,
            event_poll: Classes::NONE,
            time_sync: TimeSync::default(),
            time_sync_interval_min: Duration::from_secs(60),
            tasks_max: 16,
            hold_confirm: false,
            lean: None,
        }
    }
}
