//! What the owner of a master learns.

use super::Answer;
use crate::Iin;
use crate::app::{CommandStatus, Values};
use crate::secure::{AuthError, SecurityEvent};
use alloc::boxed::Box;
use core::fmt;

/// What the owner of a master learns.
#[derive(Clone, Debug, PartialEq)]
pub enum MasterEvent {
    /// The outstation answers: the first valid fragment of a connection, or after [`MasterEvent::Offline`].
    Online,
    /// The outstation does not answer as it should: what is known of it may be old.
    Offline(OfflineReason),
    /// IIN1.7 came up: the outstation restarted. It is read again by itself.
    Restarted,
    /// IIN2.3 came up: events were lost in the outstation. It is read again by itself.
    EventsLost,
    /// Start-up is complete: disable unsolicited, integrity poll and enable unsolicited were done.
    Ready,
    /// Indications other than those of classes and broadcasts have changed.
    Indications(Iin),
    /// What one fragment brought: values of points and other objects, in the order of the wire.
    Values {
        /// What.
        values: Values,
        /// Whether it came unasked.
        unsolicited: bool,
    },
    /// What one fragment brought was given; it is confirmed from here on.
    FragmentEnd {
        /// Whether it came unasked.
        unsolicited: bool,
        /// Whether its confirm waits for [`Master::release_confirm`](super::Master::release_confirm).
        confirm_held: bool,
    },
    /// The link has answered a request for its status: an outstation without news is there.
    LinkAlive,
    /// What an answer brought besides measurements; the end of its task follows.
    Answer {
        /// The owner's name for the task.
        token: u64,
        /// What.
        answer: Answer,
    },
    /// Objects of file transfer that came with events or unasked, as they are: for [`FileTransfer`](super::FileTransfer).
    Files(Box<[u8]>),
    /// What the owner asked for has come to an end.
    TaskDone {
        /// The owner's name for it.
        token: u64,
        /// How it ended.
        outcome: TaskOutcome,
    },
    /// Of secure authentication.
    Security(Box<SecurityEvent>),
}

/// Why an outstation counts as away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfflineReason {
    /// There is no connection.
    Disconnected,
    /// It did not answer in time.
    Timeout,
    /// What it sent could not be read.
    Garbage,
}

impl OfflineReason {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Timeout => "timeout",
            Self::Garbage => "garbage",
        }
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// Done: read to the end, or operated.
    Done,
    /// Sent, and no answer comes: what became of it is not known.
    Sent,
    /// The outstation refused the control.
    Refused(CommandStatus),
    /// The outstation refused the request: IIN2 says why.
    Indicated(Iin),
    /// No answer in time.
    Timeout {
        /// Whether an operate had been sent: the outstation may have done it.
        maybe_operated: bool,
    },
    /// The connection ended.
    ConnectionLost {
        /// Whether an operate had been sent: the outstation may have done it.
        maybe_operated: bool,
    },
    /// The answer to a control is not what was sent (IEEE 1815 4.4.2); after a select, nothing was operated.
    BadEcho {
        /// Whether an operate had been sent: the outstation may have done it.
        maybe_operated: bool,
    },
    /// The answer cannot be read.
    Malformed,
    /// The answer has more fragments than allowed.
    TooLong,
    /// The outstation does not believe who we are, or the user may not ask for it: nothing was done.
    Unauthenticated(AuthError),
}

impl TaskOutcome {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Sent => "sent",
            Self::Refused(status) => status.name(),
            Self::Indicated(iin) if iin.contains(Iin::NO_FUNC_CODE_SUPPORT) => "function_not_supported",
            Self::Indicated(iin) if iin.contains(Iin::OBJECT_UNKNOWN) => "object_unknown",
            Self::Indicated(iin) if iin.contains(Iin::ALREADY_EXECUTING) => "already_executing",
            Self::Indicated(_) => "parameter_error",
            Self::Timeout { .. } => "timeout",
            Self::ConnectionLost { .. } => "connection_lost",
            Self::BadEcho { .. } => "bad_echo",
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Unauthenticated(error) => error.name(),
        }
    }

    /// Whether an output may have been operated although the outcome is no success.
    #[must_use]
    pub const fn maybe_operated(self) -> bool {
        match self {
            Self::Timeout { maybe_operated }
            | Self::ConnectionLost { maybe_operated }
            | Self::BadEcho { maybe_operated } => maybe_operated,
            Self::Done
            | Self::Sent
            | Self::Refused(_)
            | Self::Indicated(_)
            | Self::Malformed
            | Self::TooLong
            | Self::Unauthenticated(_) => false,
        }
    }
}

impl fmt::Display for TaskOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => f.write_str(status.meaning())?,
            Self::Indicated(iin) => {
                f.write_str("refused by the outstation:")?;
                self.name().split('_').try_for_each(|word| write!(f, " {word}"))?;
                write!(f, " (internal indications {:04x})", iin.0)?;
            }
            Self::Done => f.write_str("done")?,
            Self::Sent => f.write_str("sent; no answer comes")?,
            Self::Timeout { .. } => f.write_str("no answer in time")?,
            Self::ConnectionLost { .. } => f.write_str("the connection ended")?,
            Self::BadEcho { .. } => f.write_str("the answer is not what was sent")?,
            Self::Malformed => f.write_str("the answer cannot be read")?,
            Self::TooLong => f.write_str("the answer does not end")?,
            Self::Unauthenticated(error) => write!(f, "secure authentication: {}", error.name())?,
        }
        if self.maybe_operated() { f.write_str("; the output may have operated") } else { Ok(()) }
    }
}

/// Why a task was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// As many as [`MasterConfig::tasks_max`](super::MasterConfig::tasks_max) wait already.
    Full,
    /// There is no connection: a command that waits for one could come at a bad time.
    NotConnected,
    /// It is longer than [`MasterConfig::request_bytes_max`](super::MasterConfig::request_bytes_max).
    TooLong,
    /// It needs an answer, and nobody answers a broadcast.
    Unanswerable,
}

impl SubmitError {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "busy",
            Self::NotConnected => "away",
            Self::TooLong => "too_long",
            Self::Unanswerable => "unanswerable",
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "too many requests wait for this outstation",
            Self::NotConnected => "there is no connection to the outstation",
            Self::TooLong => "the request is longer than one fragment",
            Self::Unanswerable => "the request needs an answer, and nobody answers a broadcast",
        })
    }
}

impl core::error::Error for SubmitError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_refusal_says_what_was_refused() {
        let told = |iin| TaskOutcome::Indicated(iin).to_string();
        assert_eq!(
            told(Iin::NO_FUNC_CODE_SUPPORT),
            "refused by the outstation: function not supported (internal indications 0100)"
        );
        assert_eq!(
            told(Iin::PARAMETER_ERROR),
            "refused by the outstation: parameter error (internal indications 0400)"
        );
    }
}
