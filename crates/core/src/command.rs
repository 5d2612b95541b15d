//! A request to change something in the field, and what became of it.

use crate::{PointId, Value};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// How a device is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CommandMode {
    /// Select, check the echo, then operate: the safe way, and the default.
    #[default]
    SelectBeforeOperate,
    /// Operate at once.
    DirectOperate,
}

impl CommandMode {
    /// The word for it in requests and in the audit log: `select` or `direct`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SelectBeforeOperate => "select",
            Self::DirectOperate => "direct",
        }
    }
}

/// A command for one point of one device, checked and in raw units.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Which point of the device.
    pub point: PointId,
    /// The raw value to set.
    pub value: Value,
    /// How to ask.
    pub mode: CommandMode,
}

/// Why a command was not carried out, or is not known to have been. The name is for programs, the detail for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A stable word in `snake_case`: the device's own status (`local`, `no_select`, `not_supported`, …: IEEE 1815
    /// table of control status codes) or the node's (`unknown_topic`, `not_writable`, `out_of_range`, `wrong_type`,
    /// `busy`, `away`, `timeout`, …).
    pub reason: &'static str,
    /// One lowercase sentence: what was found and what was expected.
    pub detail: String,
    /// Whether an operate had been sent and no answer to it is known: the device may have done it all the same.
    pub maybe_operated: bool,
}

impl Refusal {
    /// A command that was certainly not carried out.
    #[must_use]
    pub const fn new(reason: &'static str, detail: String) -> Self {
        Self { reason, detail, maybe_operated: false }
    }

    /// A command that was sent, and of which nothing more is known.
    #[must_use]
    pub const fn unknown(reason: &'static str, detail: String) -> Self {
        Self { reason, detail, maybe_operated: true }
    }

    /// A command whose device was removed or reconnected before there was an outcome.
    #[must_use]
    pub fn reconfigured(sent: bool) -> Self {
        let (name, why) = ("reconfigured", "the device was removed or reconnected by a reload of the configuration");
        match sent {
            true => Self::unknown(name, format!("{why} before it answered; the command may have been carried out")),
            false => Self::new(name, format!("{why} before the command was sent")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.detail)
    }
}

/// What became of a command: done, refused, or not known, with a reason.
pub type CommandOutcome = Result<(), Refusal>;
