//! The outstation's tests: its parts, its behaviour by clause, and the certification procedures.

mod certification;
mod events;
mod group;
mod requests;
mod script;
mod sizes;
pub(super) mod station;
mod subset;
mod traces;
mod unsolicited;
mod validation;
