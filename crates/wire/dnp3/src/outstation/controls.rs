//! Who decides on controls, and what the owner hears.

use crate::app::{Attribute, CommandStatus};
use crate::secure::SecurityEvent;
use crate::{Classes, Control, DnpTime, Measurement};
use alloc::boxed::Box;
use core::time::Duration;

/// What the application says to a control. It answers at once, within the call, because the response to the master
/// carries its answer; what takes longer it accepts, and reports as a change of the output's point.
///
/// Called only for controls that the protocol allows: a selection that has passed its time, does not match, or was not
/// made, local mode, reserved control codes, and points that do not exist are refused before.
pub trait ControlHandler {
    /// May this be operated? Nothing must happen yet.
    fn select(&mut self, index: u16, control: &Control) -> CommandStatus;

    /// Operate it.
    fn operate(&mut self, index: u16, control: &Control, how: Operate) -> CommandStatus;
}

/// How a control came to be operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operate {
    /// After a matching selection.
    Selected,
    /// Directly, to be answered.
    Direct,
    /// Directly, without an answer.
    DirectNoAck,
}

/// Accepts every control of a point that exists: for tests and simulators.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl ControlHandler for AcceptAll {
    fn select(&mut self, _index: u16, _control: &Control) -> CommandStatus {
        CommandStatus::Success
    }

    fn operate(&mut self, _index: u16, _control: &Control, _how: Operate) -> CommandStatus {
        CommandStatus::Success
    }
}

/// Refuses every control with "not supported": an outstation that only reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefuseAll;

impl ControlHandler for RefuseAll {
    fn select(&mut self, _index: u16, _control: &Control) -> CommandStatus {
        CommandStatus::NotSupported
    }

    fn operate(&mut self, _index: u16, _control: &Control, _how: Operate) -> CommandStatus {
        CommandStatus::NotSupported
    }
}

/// The application's decisions on controls, owned by an outstation.
pub type BoxedControlHandler = Box<dyn ControlHandler + Send>;

/// What the owner of an outstation learns.
#[derive(Clone, Debug, PartialEq)]
pub enum OutstationEvent {
    /// A control was operated, or refused by the application.
    Operated {
        /// The output's index, of a binary output or an analog output as the control tells.
        index: u16,
        /// What was asked for.
        control: Control,
        /// How.
        how: Operate,
        /// What the application answered.
        status: CommandStatus,
    },
    /// The master asked for a restart, and was answered. The owner decides, and calls
    /// [`restart`](super::Outstation::restart).
    RestartRequested {
        /// Everything, or only the application.
        cold: bool,
    },
    /// The master set the clock; the outstation stamps events with it from here on.
    ClockSet {
        /// The time that the master gave, brought forward to the moment of this call.
        time: DnpTime,
    },
    /// The master cleared IIN1.7.
    RestartCleared,
    /// The classes that are reported unsolicited changed.
    UnsolicitedEnabled(Classes),
    /// The master wrote a point: an octet string, in the database already.
    Written(Measurement),
    /// The master wrote a device attribute.
    AttributeWritten(Attribute),
    /// The master wrote dead-bands of analogs; the database has them.
    DeadBandsWritten,
    /// Counters or analogs were frozen.
    Frozen {
        /// Whether they were set to zero afterwards.
        cleared: bool,
    },
    /// The master put points into another class.
    ClassAssigned,
    /// Unsolicited responses stopped: no confirm came within the allowed repetitions.
    UnsolicitedGivenUp,
    /// Two masters of one address took the place from each other: the one that has it keeps it for so long. See [`Rivals`].
    ///
    /// [`Rivals`]: super::Rivals
    TwoMasters {
        /// For how long others are refused.
        kept: Duration,
    },
    /// Of secure authentication.
    Security(Box<SecurityEvent>),
}
