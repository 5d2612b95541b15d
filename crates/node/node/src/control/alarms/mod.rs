//! Alarms as programs see them: an alarm and a row of the journal as JSON, requests of persons and what became of them.
//!
//! What is decided is decided by `tieline_alarms`; the bus owns it (`bus/alarms/`), gives it values, and keeps and publishes what comes
//! out.

mod request;
mod shown;

pub use request::{AlarmAction, AlarmBody, AlarmRequest, AlarmResult, AlarmTarget};
pub use shown::{AlarmName, AlarmShown, JournalRow, limit_of};

/// The last values of alarms that are not normal are below it: `$alarms/TOPIC/KIND`.
pub const ALARM_PREFIX: &str = "$alarms/";
/// Each change of an alarm is published here, and recorded.
pub const JOURNAL_TOPIC: &str = "$alarms-journal";
/// Requests of persons are published to topics that begin so.
pub const REQUEST_PREFIX: &str = "$alarm-command/";
