//! What the owner of a client says and learns.

use crate::asdu::{Address, AsduError, CauseCode, Element, Form, Header, Object, TypeId};
use crate::link::{LinkConfig, LinkError};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::Instant;

/// QOI of the whole station.
pub(super) const STATION: u8 = 20;
/// QCC of all counters, read without a freeze.
pub(super) const ALL_COUNTERS: u8 = 5;

/// How a client works.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Windows and deadlines of the link.
    pub link: LinkConfig,
    /// Which controlling station this is; 0 none.
    pub originator: u8,
    /// The stations behind the connection that are asked at its start.
    pub common_addresses: Vec<u16>,
    /// What they are asked at its start, and after each of their restarts, in this order.
    pub at_start: Vec<Procedure>,
    /// QOI of each request for states: 20 the whole station, 21 to 36 groups.
    pub interrogations: Vec<u8>,
    /// QCC of each request for counters: 5 all, 1 to 4 groups.
    pub counters: Vec<u8>,
    /// How often their clocks are set afterwards; none never.
    pub clock_every: Option<Duration>,
    /// How far their clocks are ahead of UTC.
    pub utc_offset_minutes: i16,
    /// How long a confirmation, the next data of an interrogation, or a termination may take.
    pub answer_timeout: Duration,
    /// When a command has ended.
    pub command_end: CommandEnd,
    /// Requests of the owner that wait or are under way.
    pub queue_max: usize,
    /// Whether data transfer is started as soon as there is a connection; otherwise [`crate::Client::start`] does it.
    pub starts: bool,
}

impl ClientConfig {
    /// Of one station, which is interrogated at the start.
    #[must_use]
    pub fn new(common_address: u16) -> Self {
        Self {
            link: LinkConfig::DEFAULT,
            originator: 0,
            common_addresses: Vec::from([common_address]),
            at_start: Vec::from([Procedure::Interrogation]),
            interrogations: Vec::from([STATION]),
            counters: Vec::from([ALL_COUNTERS]),
            clock_every: None,
            utc_offset_minutes: 0,
            answer_timeout: Duration::from_secs(10),
            command_end: CommandEnd::Confirmation,
            queue_max: 256,
            starts: true,
        }
    }
}

/// When a command has ended. The standard leaves it to the station whether it terminates commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandEnd {
    /// With the confirmation of its execution.
    #[default]
    Confirmation,
    /// With its termination.
    Termination,
}

/// What is asked of a whole station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// Sets its clock.
    Clock,
    /// Asks for states, as [`ClientConfig::interrogations`] says.
    Interrogation,
    /// Asks for counters, as [`ClientConfig::counters`] says.
    Counters,
}

impl Procedure {
    /// What it is, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock synchronisation",
            Self::Interrogation => "interrogation",
            Self::Counters => "counter interrogation",
        }
    }

    pub(super) fn requests(self, config: &ClientConfig, common_address: u16) -> Vec<Request> {
        let of = |qualifiers: &[u8], request: fn(u16, u8) -> Request| {
            qualifiers.iter().map(|qualifier| request(common_address, *qualifier)).collect()
        };
        match self {
            Self::Clock => Vec::from([Request::Clock { common_address }]),
            Self::Interrogation => of(&config.interrogations, |common_address, qualifier| Request::Interrogation {
                common_address,
                qualifier,
            }),
            Self::Counters => {
                of(&config.counters, |common_address, qualifier| Request::Counters { common_address, qualifier })
            }
        }
    }
}

/// What a station is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// For all states, or those of a group.
    Interrogation {
        /// Which station.
        common_address: u16,
        /// QOI: 20 the whole station, 21 to 36 groups.
        qualifier: u8,
    },
    /// For counters, or to freeze or reset them.
    Counters {
        /// Which station.
        common_address: u16,
        /// QCC: 5 all, 1 to 4 groups; of [`crate::Freeze::qualifier`] where they are not to be read.
        qualifier: u8,
    },
    /// To set its clock to the time when it is asked.
    Clock {
        /// Which station.
        common_address: u16,
    },
    /// For one object.
    Read {
        /// Which station.
        common_address: u16,
        /// Which object.
        address: Address,
    },
    /// Whether it is there.
    Test {
        /// Which station.
        common_address: u16,
    },
    /// To do something.
    Command(CommandRequest),
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommandRequest {
    /// Which station.
    pub common_address: u16,
    /// Which object.
    pub address: Address,
    /// What it is to do; S/E is set as it is sent.
    pub element: Element,
    /// Whether it is selected first. What has no S/E is executed at once.
    pub select: bool,
    /// Whether it carries the time when it is sent.
    pub with_time: bool,
}

impl CommandRequest {
    pub(super) const fn needs_select(&self) -> bool {
        self.select && self.element.qualifier().is_some()
    }

    const fn is_command(&self) -> bool {
        self.element.qualifier().is_some() || matches!(self.element.form(), Form::SetBits)
    }
}

impl Request {
    pub(super) const fn common_address(&self) -> u16 {
        match self {
            Self::Interrogation { common_address, .. }
            | Self::Counters { common_address, .. }
            | Self::Clock { common_address }
            | Self::Read { common_address, .. }
            | Self::Test { common_address }
            | Self::Command(CommandRequest { common_address, .. }) => *common_address,
        }
    }

    pub(super) const fn is_legal(&self) -> bool {
        match self {
            Self::Command(command) => command.is_command(),
            Self::Interrogation { .. }
            | Self::Counters { .. }
            | Self::Clock { .. }
            | Self::Read { .. }
            | Self::Test { .. } => true,
        }
    }

    pub(super) const fn command(&self) -> Option<&CommandRequest> {
        match self {
            Self::Command(command) => Some(command),
            Self::Interrogation { .. }
            | Self::Counters { .. }
            | Self::Clock { .. }
            | Self::Read { .. }
            | Self::Test { .. } => None,
        }
    }
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no connection, or data transfer is not started.
    Disconnected,
    /// [`ClientConfig::queue_max`] is reached.
    Full,
    /// A command whose element is none.
    NoCommand,
}

impl SubmitError {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "away",
            Self::Full => "busy",
            Self::NoCommand => "not_a_command",
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disconnected => "there is no connection on which data transfer is started",
            Self::Full => "too many requests wait already",
            Self::NoCommand => "an element that is not a command",
        })
    }
}

impl core::error::Error for SubmitError {}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// That of the client itself, at the start of a connection or of a station, or by the clock.
    Own(Procedure, u16),
    /// The owner's, by its number.
    Owner(u64),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The station refuses it: with a negative confirmation or termination, or because it does not know what was asked.
    Refused {
        /// The cause of the answer.
        cause: CauseCode,
        /// Whether it was only selected.
        at_select: bool,
    },
    /// There is no answer, or none that fits.
    Failed {
        /// Why.
        reason: Failure,
        /// Whether a command was sent, other than to select: it may have been done all the same.
        maybe_done: bool,
    },
}

/// Why a request ended without an answer that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Its turn did not come before its deadline.
    TooLate,
    /// No confirmation in time.
    NoConfirmation,
    /// A confirmation, but no termination in time.
    NoTermination,
    /// The confirmation says something else than what was asked.
    Mismatch,
    /// The connection ended.
    Disconnected,
}

impl Failure {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLate => "timeout",
            Self::NoConfirmation => "no_confirmation",
            Self::NoTermination => "no_termination",
            Self::Mismatch => "mismatch",
            Self::Disconnected => "connection_lost",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLate => "it could not be sent in time",
            Self::NoConfirmation => "no confirmation in time",
            Self::NoTermination => "it was confirmed, but not terminated in time",
            Self::Mismatch => "the confirmation says something else than what was asked",
            Self::Disconnected => "the connection was lost",
        })
    }
}

/// What the owner learns.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// Data transfer is started.
    Started,
    /// What a station measured, in order.
    Objects {
        /// Why, of which station, in which type.
        header: Header,
        /// At least one.
        objects: Vec<Object>,
    },
    /// A station has started; it is asked again what it is asked at the start.
    Initialized {
        /// Which.
        common_address: u16,
        /// COI: 0 power on, 1 a reset at the station, 2 one from elsewhere; the high bit: its parameters changed.
        cause: u8,
    },
    /// A request has ended.
    Ended {
        /// Whose it was.
        origin: Origin,
        /// What became of it.
        outcome: Outcome,
    },
    /// What is asked at the start has ended, well or not.
    Ready,
    /// An ASDU that cannot be read.
    Malformed {
        /// Its type; none where there is no header.
        type_id: Option<TypeId>,
        /// Why it cannot be read.
        error: AsduError,
    },
    /// The connection is to be closed.
    Closing(LinkError),
}

/// What a client counts, besides its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Objects with values.
    pub objects: u64,
    /// Of these, objects that were reported without a request.
    pub spontaneous: u64,
    /// Requests sent, selects and executes each.
    pub requests: u64,
    /// Requests that were done.
    pub done: u64,
    /// Requests that stations refused.
    pub refused: u64,
    /// Requests that ended without an answer.
    pub failed: u64,
    /// ASDUs of types that are not known here.
    pub unknown_types: u64,
    /// ASDUs that could not be read.
    pub malformed: u64,
    /// ASDUs with the test bit, which are dropped.
    pub tests: u64,
    /// Answers to nothing that was asked.
    pub unexpected: u64,
    /// Connections that were closed because the other side broke the rules, or was silent.
    pub broken: u64,
}

/// A request with its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) origin: Origin,
    pub(super) request: Request,
    /// From when on nothing more is sent for it.
    pub(super) until: Instant,
}
