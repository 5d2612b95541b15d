//! What the owner of a server says and learns.

use crate::asdu::{Address, CauseCode, Cp56, Element, TimeTag};
use crate::link::{LinkConfig, LinkError};
use core::time::Duration;

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Windows and deadlines of the link.
    pub link: LinkConfig,
    /// Reports of changes that wait or are on their way to be sent. When there are more, the oldest is dropped and counted, and
    /// the value of its point follows once the others are sent.
    pub reports_max: usize,
    /// Commands that the owner has not answered. More are refused.
    pub commands_max: usize,
    /// Interrogations that wait or are under way. More are refused.
    pub interrogations_max: usize,
    /// How long a selection holds.
    pub select_timeout: Duration,
    /// Whether commands that were carried out are terminated (ACTTERM).
    pub terminates_commands: bool,
    /// Whether clients may set the clock of the station.
    pub takes_clock: bool,
    /// How often points are sent that say that they are cyclic; none never.
    pub cyclic_every: Option<Duration>,
    /// Whether each request waits until the owner says how it is treated ([`ServerEvent::Request`]).
    pub is_treated: bool,
}

impl ServerConfig {
    /// A station that does what the standard allows.
    pub const DEFAULT: Self = Self {
        link: LinkConfig::DEFAULT,
        reports_max: 1000,
        commands_max: 16,
        interrogations_max: 8,
        select_timeout: Duration::from_secs(10),
        terminates_commands: true,
        takes_clock: true,
        cyclic_every: None,
        is_treated: false,
    };
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a counter interrogation does to the counters before it is answered (FRZ of QCC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freeze {
    /// Keeps the counts that are read from then on.
    Freeze,
    /// The same, and the counters begin at 0 again.
    FreezeAndReset,
    /// The counters begin at 0 again.
    Reset,
}

impl Freeze {
    /// QCC that asks for it, of a group from 1 to 4, or of all counters (5).
    #[must_use]
    pub const fn qualifier(self, group: u8) -> u8 {
        let bits = match self {
            Self::Freeze => 1,
            Self::FreezeAndReset => 2,
            Self::Reset => 3,
        };
        group & 0x3F | bits << 6
    }
}

/// What the owner learns.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// The client has started data transfer.
    Started,
    /// The client has stopped data transfer.
    Stopped,
    /// A request waits for [`crate::Server::treat`], where [`ServerConfig::is_treated`].
    Request {
        /// To treat it with.
        id: u64,
    },
    /// A command that is to be carried out, to be answered with [`crate::Server::answer`]. It was selected where its point
    /// says so.
    Command {
        /// To answer with.
        id: u64,
        /// Which station.
        common_address: u16,
        /// Which object.
        address: Address,
        /// What is to be done.
        element: Element,
        /// When the client sent it, where it says.
        time: TimeTag,
        /// The originator address of the client.
        originator: u8,
    },
    /// The client has set the clock; time stamps follow it.
    ClockSet {
        /// Which station; [`crate::Header::BROADCAST`] all.
        common_address: u16,
        /// What it shows.
        time: Cp56,
    },
    /// The client has frozen or reset counters, which has been done.
    Frozen {
        /// Which station.
        common_address: u16,
        /// Which counters: 1 to 4 a group, 5 all.
        group: u8,
        /// What was done.
        freeze: Freeze,
    },
    /// The client asks for a reset of the process (QRP), which is confirmed.
    Reset {
        /// Which station; [`crate::Header::BROADCAST`] all.
        common_address: u16,
        /// 1 the process, 2 events with a time that wait, which are dropped.
        qualifier: u8,
    },
    /// The connection is to be closed.
    Closing(LinkError),
}

/// What the owner says to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAnswer {
    /// It is not carried out.
    Refused,
    /// It is carried out; [`crate::Server::terminate`] says when it is done.
    Accepted,
    /// It was carried out.
    Done,
}

/// How a request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment<'a> {
    /// It is answered.
    Answer,
    /// It gets a negative confirmation; a read the cause of an unknown object.
    Refuse,
    /// It gets no answer.
    Ignore {
        /// Whether a command is carried out all the same.
        is_done: bool,
    },
    /// These bytes, which need be no frame, come in place of an answer.
    Noise(&'a [u8]),
}

/// What a server counts, besides its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// ASDUs of the client.
    pub requests: u64,
    /// Confirmations that are positive.
    pub confirmed: u64,
    /// Confirmations that are negative, without those below.
    pub refused: u64,
    /// Requests of unknown types, causes, common addresses and object addresses.
    pub unknown: u64,
    /// Requests that could not be read, which are dropped.
    pub malformed: u64,
    /// Requests with the test bit, which are dropped.
    pub tests: u64,
    /// Requests that were dropped because the client does not acknowledge the answers.
    pub unanswered: u64,
    /// Objects that were sent because they changed.
    pub reported: u64,
    /// Reports that were dropped because too many waited.
    pub reports_dropped: u64,
    /// Times at which cyclic points were not sent because the ones before were not.
    pub cycles_missed: u64,
    /// Connections that were closed because the client broke the rules, or was silent.
    pub broken: u64,
}

/// A change that clients are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Of which station.
    pub common_address: u16,
    /// Of which object.
    pub address: Address,
    /// What it says.
    pub element: Element,
    /// Since when, where a time is sent.
    pub time: TimeTag,
    /// Why: [`CauseCode::SPONTANEOUS`], [`CauseCode::RETURN_REMOTE`] or [`CauseCode::RETURN_LOCAL`].
    pub cause: CauseCode,
}
