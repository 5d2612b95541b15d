//! What is written down of every request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use tieline_core::{CommandMode, DeviceId, Timestamp, Topic};

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It was taken.
    Requested,
    /// It was refused before it was taken. The last record of a request.
    Refused,
    /// Its command was given to the device's protocol.
    Sent,
    /// The device carried it out. The last record.
    Succeeded,
    /// The device refused it. The last record.
    Failed,
    /// It was given up before anything was sent. The last record.
    Dropped,
    /// No outcome in time; it may have been carried out. Followed by [`Phase::Late`] or [`Phase::Unanswered`].
    TimedOut,
    /// The device was lost before it answered, or its answer cannot be used; the command may have been carried out. The
    /// last record.
    Lost,
    /// The outcome came after the time was over. The last record.
    Late,
    /// No outcome came at all. The last record.
    Unanswered,
    /// A reading showed that it was carried out.
    Confirmed,
    /// No reading showed it in time.
    Unconfirmed,
    /// A task has reserved devices.
    Reserved,
    /// A task lost its reservation to one of a higher priority.
    Preempted,
    /// The time of a holder at a device is over.
    ReservationEnded,
    /// A holder has ended.
    HolderGone,
    /// A holder gave no sign of life for the time of its lease.
    LeaseExpired,
    /// A pattern was set on.
    OverrideOn,
    /// A pattern was set off, or its time is over.
    OverrideOff,
    /// A tag was placed.
    TagPlaced,
    /// A tag was lifted.
    TagLifted,
}

impl Phase {
    /// Whether the command of a point was carried out, where it has ended or it is not known; none of what happens before and of
    /// what is no command.
    #[must_use]
    pub const fn success(self) -> Option<bool> {
        match self {
            Self::Succeeded | Self::Confirmed => Some(true),
            Self::Refused | Self::Failed | Self::Dropped | Self::TimedOut | Self::Lost | Self::Unconfirmed => {
                Some(false)
            }
            _ => None,
        }
    }

    /// The word in the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Refused => "refused",
            Self::Sent => "sent",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Unanswered => "unanswered",
            Self::Confirmed => "confirmed",
            Self::Unconfirmed => "unconfirmed",
            Self::Reserved => "reserved",
            Self::Preempted => "preempted",
            Self::ReservationEnded => "reservation_ended",
            Self::HolderGone => "holder_gone",
            Self::LeaseExpired => "lease_expired",
            Self::OverrideOn => "override_on",
            Self::OverrideOff => "override_off",
            Self::TagPlaced => "tag_placed",
            Self::TagLifted => "tag_lifted",
        }
    }
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Grows by one with each record: a gap shows a loss.
    pub id: u64,
    /// When.
    pub time: Timestamp,
    /// The number of the request; zero of what is of none.
    pub request: u64,
    /// The caller's number of the call that asked for many points.
    pub group: Option<u64>,
    /// Who asked, as the caller said.
    pub who: Arc<str>,
    /// Which topic; cut where it is long and unknown.
    pub topic: Topic,
    /// Which device, where the topic is known.
    pub device: Option<DeviceId>,
    /// The value as JSON, as it was asked for; cut where it is long.
    pub value: Box<str>,
    /// The mode that was taken, or asked for.
    pub mode: Option<CommandMode>,
    /// What happened.
    pub phase: Phase,
    /// Why, as in [`tieline_core::Refusal`]; empty where all went well.
    pub reason: &'static str,
    /// The same for people.
    pub detail: String,
}

/// A record of no command that was taken.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) request: u64,
    pub(crate) group: Option<u64>,
    pub(crate) who: Arc<str>,
    pub(crate) topic: Topic,
    pub(crate) device: Option<DeviceId>,
    pub(crate) value: Box<str>,
    pub(crate) mode: Option<CommandMode>,
    pub(crate) phase: Phase,
}
