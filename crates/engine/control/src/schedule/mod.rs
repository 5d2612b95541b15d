//! Reservations: who may command a device, and when.
//!
//! The semantics are those of VOLTTRON's actuator agent. A task has slots at devices. Slots of one device never overlap,
//! but may touch. A request that overlaps others' slots fails, or pre-empts their tasks:
//!
//! | request | `LOW`, not started | `LOW`, started | `LOW_PREEMPT` | `HIGH` |
//! |---|---|---|---|---|
//! | `HIGH` | pre-empts | fails | pre-empts, after the grace time where it has started | fails |
//! | `LOW`, `LOW_PREEMPT` | fails | fails | fails | fails |
//!
//! A task that is pre-empted loses all of its slots except those that are current, which end with the grace time.
//!
//! # Clocks
//!
//! Slots are on the wall clock, and who holds a device is a function of the table and of what the wall clock says: there is
//! never more than one holder. A wall clock that steps back by up to [`CLOCK_SLACK`] is taken as standing still, so that a
//! correction does not end a slot that has just begun. The grace time and leases are on the monotonic clock.
//!
//! # Leases
//!
//! A task with a lease ends when its requester gave no sign of life for so long. The lease counts from the moment at which
//! the task first has a device; after a restart it begins again.

mod conflicts;
mod leases;
mod parse;
mod request;
mod table;
#[cfg(test)]
mod tests;

pub use request::{
    Announcement, NewSchedule, Owner, Priority, RequestType, ScheduleData, ScheduleEvent, ScheduleLimits,
    ScheduleResult, Slot, SlotRequest, TaskRecord,
};
pub(crate) use table::until;
pub use table::{CLOCK_SLACK, Schedule};
