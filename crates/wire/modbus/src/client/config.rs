//! What the owner of a client says and learns.

use crate::{ExceptionCode, Framing, Request, RequestError, Response, Unit};
use core::fmt;
use core::time::Duration;
use tieline_core::Instant;

/// Transactions that a server on TCP may take at a time (Messaging on TCP/IP 4.2.2: 1 to 16).
pub const IN_FLIGHT_MAX: u8 = 16;

/// How a client works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// How bytes travel.
    pub framing: Framing,
    /// Requests in flight at a time on TCP, 1 to [`IN_FLIGHT_MAX`]; always 1 with RTU frames. Many devices lose
    /// requests beyond the first, so an answer that is lost among several makes it 1 for good.
    pub in_flight: u8,
    /// Transactions that wait, fly, or have ended with an event that was not taken yet.
    pub queue_max: usize,
    /// How long an answer may take after its request has left.
    pub answer_timeout: Duration,
    /// How often a read is sent again when its answer is lost. A write never is.
    pub retries: u8,
    /// How long all units have for a broadcast before the next request (Serial Line 2.4.1: 100 to 200 ms).
    pub turnaround: Duration,
    /// A pause between what a device sent and the next request, where it needs more than the standard's.
    pub pause: Duration,
}

impl ClientConfig {
    /// With one request in flight, a second for an answer, and one retry.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        Self {
            framing,
            in_flight: 1,
            queue_max: 256,
            answer_timeout: Duration::from_secs(1),
            retries: 1,
            turnaround: Duration::from_millis(100),
            pause: Duration::ZERO,
        }
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// In turn with the other units.
    #[default]
    Normal,
    /// Before all that is normal: commands.
    Urgent,
}

/// A request to a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The owner's number; the event of its end has it.
    pub id: u64,
    /// Which device.
    pub unit: Unit,
    /// What is asked.
    pub request: Request,
    /// When the owner waits no longer.
    pub deadline: Instant,
    /// Who goes first.
    pub priority: Priority,
}

/// Why a transaction is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no connection.
    Disconnected,
    /// [`ClientConfig::queue_max`] is reached.
    Full,
    /// The request is not legal.
    Request(RequestError),
    /// A read from all units: nobody would answer.
    Broadcast,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("there is no connection"),
            Self::Full => f.write_str("too many transactions wait already"),
            Self::Request(error) => error.fmt(f),
            Self::Broadcast => f.write_str("a read from unit 0, which is all units of the line, expected a write"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// Why a transaction ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Its deadline passed.
    TimedOut,
    /// No answer came in time, to none of the attempts.
    Lost,
    /// What came was no answer to it.
    Garbage,
    /// The connection ended.
    Disconnected,
}

impl Failure {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Garbage => "garbage",
            Self::Disconnected => "disconnected",
        }
    }
}

/// What the owner learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// It was done.
    Answer {
        /// Of the transaction.
        id: u64,
        /// What came back.
        response: Response,
    },
    /// It was refused.
    Exception {
        /// Of the transaction.
        id: u64,
        /// Why.
        code: ExceptionCode,
    },
    /// A broadcast is on the line, and its turnaround delay has passed: nobody answers one.
    Sent {
        /// Of the transaction.
        id: u64,
    },
    /// There is no answer. A write that was sent may have been done all the same.
    Failed {
        /// Of the transaction.
        id: u64,
        /// Why there is none.
        reason: Failure,
        /// Whether the request went out at least once.
        sent: bool,
    },
    /// An answer was lost while several requests were in flight: from now on there is one.
    WindowReduced {
        /// How many there were.
        from: u8,
    },
    /// Nothing answers on this connection, or its stream is out of step: it is closed, and what is open fails.
    Closing,
}

/// What a client counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Requests sent, repeated ones too.
    pub requests: u64,
    /// Transactions that were done.
    pub answers: u64,
    /// Transactions that were refused.
    pub exceptions: u64,
    /// Transactions that ended without an answer.
    pub failures: u64,
    /// Broadcasts.
    pub broadcasts: u64,
    /// Answers that did not come in time.
    pub lost: u64,
    /// Reads sent again.
    pub retries: u64,
    /// Answers that came too late, or to nothing that was asked.
    pub stale: u64,
    /// Answers that did not fit their request.
    pub mismatches: u64,
    /// Bytes that were part of no answer.
    pub noise_bytes: u64,
}
