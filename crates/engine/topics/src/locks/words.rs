//! What is asked of locks, what is answered, and what is shown.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use tieline_core::Timestamp;

/// The answer to a request.
pub type LockAnswer = Result<Acquired, LockRefusal>;

/// Limits of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLimits {
    /// Bytes of a name.
    pub name_bytes_max: usize,
    /// Locks that an owner may have and wait for.
    pub owner_max: usize,
    /// Owners that may wait for a lock.
    pub waiting_max: usize,
    /// Locks that are held, and requests that wait, of all owners.
    pub total_max: usize,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self { name_bytes_max: 256, owner_max: 64, waiting_max: 1024, total_max: 100_000 }
    }
}

/// Who has a lock, or waits for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockOwner {
    /// The number of the session.
    pub session: u64,
    /// The one of those for which the session asks, by a name that no other of them has; empty where it asks for its own client.
    pub within: Arc<str>,
    /// The client for which the session asks: its own, or one that is connected elsewhere.
    pub client: Arc<str>,
    /// The session's own client, where it asks for another.
    pub via: Option<Arc<str>>,
}

impl LockOwner {
    /// A session that asks for its own client.
    #[must_use]
    pub fn new(session: u64, client: Arc<str>) -> Self {
        Self { session, within: "".into(), client, via: None }
    }

    /// Orders before all others of the session.
    #[must_use]
    pub fn first_of(session: u64) -> Self {
        Self::new(session, "".into())
    }
}

/// What ends the possession of a lock, beside its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// The end of the session.
    Session,
    /// The end of the connection.
    Connection,
}

/// What an owner asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// The name of the lock.
    pub name: &'a str,
    /// Who asks.
    pub owner: LockOwner,
    /// How long it has the lock.
    pub scope: LockScope,
    /// How long it waits for it; none: as long as its scope lasts.
    pub wait: Option<Duration>,
}

/// What an owner has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The name of the lock.
    pub name: Arc<str>,
    /// The number of the acquisition.
    pub number: u64,
    /// How long it has the lock.
    pub scope: LockScope,
}

/// Why an owner does not get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefusal {
    /// Another has it, and the caller does not wait.
    Held,
    /// The time of the caller is over.
    TimedOut,
    /// The owner asked again, and that request waits in the place of this one.
    Replaced,
    /// The owner has given up, or its session or connection has ended.
    GivenUp,
    /// The name is too long, or empty.
    Name {
        /// Bytes of the longest.
        max: usize,
    },
    /// The owner has and waits for as many as it may.
    OwnerFull {
        /// How many.
        max: usize,
    },
    /// As many wait for the lock as may.
    WaitingFull {
        /// How many.
        max: usize,
    },
    /// All owners together have and wait for as many as they may.
    Full {
        /// How many.
        max: usize,
    },
    /// The number of the acquisition could not be reserved on the disk.
    NoNumber,
}

impl LockRefusal {
    /// A word for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::TimedOut => "timeout",
            Self::Replaced => "replaced",
            Self::GivenUp => "given_up",
            Self::Name { .. } => "malformed",
            Self::OwnerFull { .. } | Self::WaitingFull { .. } | Self::Full { .. } => "limit",
            Self::NoNumber => "disk",
        }
    }
}

impl fmt::Display for LockRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("another session has the lock"),
            Self::TimedOut => f.write_str("another session had the lock for as long as this one waited"),
            Self::Replaced => f.write_str("the session asked again, and the later request waits in place of this one"),
            Self::GivenUp => f.write_str("the session has given up its request, or its connection has ended"),
            Self::Name { max } => write!(f, "the name of a lock has 1 to {max} bytes"),
            Self::OwnerFull { max } => write!(f, "the session has or waits for {max} locks, as many as it may"),
            Self::WaitingFull { max } => write!(f, "{max} sessions wait for the lock, as many as may"),
            Self::Full { max } => write!(f, "{max} locks are held or waited for on this node, as many as may be"),
            Self::NoNumber => f.write_str("the number of the acquisition cannot be written to the disk, see /healthz"),
        }
    }
}

impl core::error::Error for LockRefusal {}

/// A lock is not held as is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotHeld {
    /// The owner does not have the lock.
    Lock(String),
    /// The owner has the lock by another acquisition.
    Number {
        /// The name of the lock.
        name: String,
        /// The number by which the owner has it.
        found: u64,
        /// The number that was expected.
        expected: u64,
    },
}

impl fmt::Display for NotHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(name) => write!(f, "this session does not have the lock {name}"),
            Self::Number { name, found, expected } => {
                write!(f, "this session has the lock {name} with the number {found}, expected {expected}")
            }
        }
    }
}

impl core::error::Error for NotHeld {}

/// A lock as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who has it; none while its number is being reserved.
    pub owner: Option<&'a LockOwner>,
    /// How long it is had.
    pub scope: Option<LockScope>,
    /// The number of the acquisition.
    pub number: Option<u64>,
    /// When it was acquired.
    pub since: Option<Timestamp>,
    /// How many wait for it.
    pub waiting: usize,
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounters {
    /// Locks that are held.
    pub held: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Acquisitions.
    pub acquired: u64,
    /// Requests refused because another has the lock.
    pub refused_held: u64,
    /// Requests whose time was over.
    pub timed_out: u64,
    /// Requests refused by a limit.
    pub limited: u64,
    /// Requests refused because their number could not be reserved.
    pub unnumbered: u64,
    /// Locks that ended with their session or connection.
    pub ended: u64,
    /// Locks that were taken away by an operator.
    pub revoked: u64,
}
