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
//! | two states | `true`, `false`, `1`, `0`, the texts `"on"`, `"off"`, `"true"`, `"false"`, `"1"`, `"0"`, and the point's own two words, or else `"open"` and `"close"`, in any case |
//! | integer | a whole number |
//! | float | a finite number |
//!
//! Without words of the point's own, `"open"` is false and `"close"` or `"closed"` is true, as of a switch: a closed
//! breaker conducts. A closed valve does not: such a point names its words ([`Accepts::Bool`]), and they alone hold.
//!
//! # Limits
//!
//! [`Limits`] names them; a request beyond one is refused with `queue_full` or `audit_full`, which [`Stats`] count.
//!
//! # Example
//!
//! ```
//! use tieline_control::{Accepts, Control, ControlPoint, Limits, Modes, Request};
//! use tieline_core::{CommandMode, DeviceId, Now, PointId, Topic, Value};
//!
//! let (now, device, topic) = (Now::default(), DeviceId(1), Topic::new("feeder/breaker")?);
//! let mut control = Control::new(Limits::default(), 1);
//! control.add_point(ControlPoint {
//!     topic: topic.clone(),
//!     device,
//!     point: PointId(0),
//!     accepts: Accepts::Bool { invert: false, words: Some(("open".into(), "close".into())) },
//!     modes: Modes { select: true, direct: false, preferred: CommandMode::SelectBeforeOperate },
//! })?;
//! control.handle_link(now, device, true);
//!
//! let who = "anna".into();
//! let value = Value::from("open");
//! let request = Request { id: 1, topic, topic_exists: true, value, mode: None, timeout: None, who };
//! control.handle_request(now, request).map_err(|refusal| refusal.to_string())?;
//! let dispatch = control.poll_command(now).ok_or("nothing to send")?;
//! assert_eq!(dispatch.command.value, Value::Bool(false));
//! control.handle_outcome(now, device, dispatch.ticket, Ok(()));
//! assert!(control.poll_done().is_some_and(|done| done.outcome.is_ok()));
//! assert_eq!(core::iter::from_fn(|| control.poll_audit()).count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
