//! Which command may go to which device, and what became of it.
//!
//! In: requests to set a topic, what became of links and commands, time. Out: commands in raw units, one at a time for
//! each device; one end for each request; a record of everything for the audit log.
//!
//! Never: a protocol, a socket, a decision about who may command (the caller has asked that before).
//!
//! # A request's way
//!
//! ```text
//! request ─▶ checks ─▶ queue of the device ─▶ sent ─▶ outcome ─▶ done
//!              │ refused     │ away, timeout    │ away, timeout: may have been carried out
//!              ▼             ▼                  ▼
//!            Err           done               done, and later a `late` or `unanswered` record
//! ```
//!
//! [`Control::handle_request`] answers at once with a refusal, or takes the request; one that was taken ends in exactly
//! one [`Done`]. A command whose request has timed out still occupies its device until its outcome comes, its link is
//! lost, or [`Limits::unanswered_after`] passes: two commands are never out at one device.
//!
//! # Refusals of this node
//!
//! | reason | when |
//! |---|---|
//! | `unknown_topic` | no such topic |
//! | `not_writable` | the topic exists and cannot be commanded |
//! | `wrong_type` | the value is not of the point's type |
//! | `out_of_range` | the value is beyond the point's limits, or its raw value beyond 64 bits |
//! | `not_supported_mode` | the point does not allow select-before-operate, or direct operate |
//! | `away` | the device is not connected, or was lost before it answered |
//! | `busy` | a command for the same point is under way |
//! | `queue_full` | too many requests wait for the device, or altogether |
//! | `audit_full` | the audit log does not keep up: nothing is commanded that could not be recorded |
//! | `timeout` | no outcome in time |
//!
//! Any other reason is the device's own.
//!
//! # Values
//!
//! | point | takes |
//! |---|---|
//! | two states | `true`, `false`, `1`, `0`, the texts `"on"`, `"off"`, `"true"`, `"false"`, `"1"`, `"0"`, and the point's own two words, in any case |
//! | integer | a whole number |
//! | float | a finite number |
//!
//! `"open"` and `"close"` mean nothing by themselves: a closed breaker conducts, a closed valve does not. A point that
//! wants such words names them ([`Accepts::Bool`]).
//!
//! # Limits
//!
//! [`Limits`] names them; a request beyond one is refused with `queue_full` or `audit_full`, which [`Stats`] count.
//!
//! Read first: `point.rs`, then `control.rs`.
#![no_std]
extern crate alloc;

mod audit;
mod control;
mod limits;
mod point;
mod request;

pub use audit::{AuditRecord, Phase};
pub use control::Control;
pub use limits::{Limits, Stats};
pub use point::{Accepts, ControlPoint, Modes, PointError, Scaling};
pub use request::{Dispatch, Done, Request, Ticket};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
