//! The outstation's tests: its parts, its behaviour by clause, and the certification procedures.

mod certification;
mod events;
mod requests;
mod script;
pub(super) mod station;
mod traces;
mod unsolicited;
