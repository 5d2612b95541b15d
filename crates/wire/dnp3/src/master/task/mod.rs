//! What the owner of a master may ask of its outstation.
//!
//! ```text
//! Request, its objects encoded ── Master::submit ──▶ Task, waits ──▶ sent ──▶ Answer …, then the outcome
//! ```
//!
//! A request is encoded when it is made, so that what waits is small and what is sent cannot fail.

mod answer;
mod build;

pub use answer::Answer;
pub(super) use answer::Echo;
pub use build::{ControlProcedure, DeadBand, Freeze, Restart, Selection};

use super::{SubmitError, TimeSync};
use crate::GroupVar;
use crate::app::Function;
use crate::link::{Broadcast, LinkAddress};
use alloc::vec::Vec;
use tieline_core::Instant;

/// One request to an outstation.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The code of the function that is sent first, whether it has a meaning or not.
    pub(super) code: u8,
    /// The object headers with their objects; empty where they are written as they are sent.
    pub(super) objects: Vec<u8>,
    pub(super) meaning: Meaning,
    pub(super) addressee: Addressee,
    /// Nothing is sent for it from here on.
    pub(super) until: Option<Instant>,
}

/// To whom a request goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressee {
    /// The outstation of the configuration.
    #[default]
    Outstation,
    /// Every outstation on the line; none answers.
    All(Broadcast),
    /// FFFC: the one outstation at the other end, whatever its address; [`Answer::Address`] tells it.
    Own,
}

/// What the answer to a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It brings objects.
    Read,
    /// It says that it was done; asking twice does no harm.
    Write,
    /// It says that it was done; asking twice does it twice.
    Act,
    /// It echoes controls.
    Control(ControlProcedure),
    /// It is the first half of a time synchronisation.
    Time(TimeSync),
    /// It tells how long the outstation took.
    Delay,
    /// A file job knows; asking twice does no harm.
    File,
    /// The owner knows.
    Raw,
}

impl Request {
    /// Sends it to somebody else than the outstation of the configuration.
    #[must_use]
    pub const fn to(mut self, addressee: Addressee) -> Self {
        self.addressee = addressee;
        self
    }

    /// Sends nothing for it from `until` on: nobody waits for it any more.
    #[must_use]
    pub const fn until(mut self, until: Instant) -> Self {
        self.until = Some(until);
        self
    }

    /// The code of the function that is sent first; only [`Request::raw`] gives one without a meaning.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self.meaning {
            Meaning::Control(procedure) => procedure.function().code(),
            Meaning::Time(TimeSync::DelayMeasure) => Function::DelayMeasure.code(),
            Meaning::Time(TimeSync::Lan | TimeSync::Never) => Function::RecordCurrentTime.code(),
            Meaning::Time(TimeSync::Write) => Function::Write.code(),
            Meaning::Read | Meaning::Write | Meaning::Act | Meaning::Delay | Meaning::File | Meaning::Raw => self.code,
        }
    }

    /// Whether no answer comes: by the function, because an outstation takes no response, or because it is a broadcast.
    #[must_use]
    pub const fn is_unanswered(&self) -> bool {
        let unanswered = match Function::from_code(self.code()) {
            Some(function) => function.is_unanswered() || function.is_response(),
            // An outstation says that it does not know it (IIN2.0).
            None => false,
        };
        matches!(self.addressee, Addressee::All(_)) || unanswered
    }

    /// Whether it can be sent in `bytes_max` bytes, and make sense without an answer where it gets none.
    pub(super) fn check(&self, bytes_max: u16) -> Result<(), SubmitError> {
        if self.objects.len() + 2 > usize::from(bytes_max) {
            return Err(SubmitError::TooLong);
        }
        let needs_answer = match self.meaning {
            Meaning::Read | Meaning::Delay | Meaning::File => true,
            Meaning::Time(how) => how != TimeSync::Write,
            Meaning::Control(procedure) => procedure.selects(),
            Meaning::Write | Meaning::Act | Meaning::Raw => false,
        };
        if needs_answer && self.is_unanswered() { Err(SubmitError::Unanswerable) } else { Ok(()) }
    }
}

/// A request that was taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) request: Request,
    /// The owner's name for it.
    pub(super) token: u64,
}

impl Task {
    /// Whether an output may operate when it is sent: it must not be sent twice.
    pub(super) const fn operates(&self) -> bool {
        matches!(self.request.meaning, Meaning::Control(procedure) if !procedure.selects())
    }

    /// Whether it must not be sent twice.
    pub(super) const fn is_once(&self) -> bool {
        match self.request.meaning {
            Meaning::Control(procedure) => !procedure.selects(),
            Meaning::Act | Meaning::Raw => true,
            Meaning::Read | Meaning::Write | Meaning::Time(_) | Meaning::Delay | Meaning::File => false,
        }
    }

    /// Whether it goes ahead of what is no control.
    pub(super) const fn is_control(&self) -> bool {
        matches!(self.request.meaning, Meaning::Control(_))
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.request.until.is_some_and(|until| until <= now)
    }

    /// Where it goes; `outstation` is that of the configuration.
    pub(super) const fn destination(&self, outstation: LinkAddress) -> LinkAddress {
        match self.request.addressee {
            Addressee::Outstation => outstation,
            Addressee::Own => LinkAddress::OWN,
            Addressee::All(broadcast) => broadcast.address(),
        }
    }
}

/// Whether a group is that of controls.
const fn is_control(object: GroupVar) -> bool {
    matches!(object.group, 12 | 41)
}
