//! Decides which command may be sent to which device, and tracks its result.
//!
//! In: requests to set a topic, results of links and commands, time. Out: commands in raw units, one at a time for each
//! device; exactly one result for each request; records for the audit log.
//!
//! Never: a protocol, a socket, a decision about the rights of a user (the caller has checked them).
//!
//! # Processing of a request
//!
//! ```text
//! request ─▶ checks ─▶ queue of the device ─▶ sent ─▶ outcome ─▶ done
//!              │ refused     │ away, timeout    │ away, timeout: may have been carried out
//!              ▼             ▼                  ▼
//!            Err           done               done, and later a `late` or `unanswered` record
//! ```
//!
//! [`Control::handle_request`] refuses a request at once, or accepts it. An accepted request ends in exactly one
//! [`Done`]. A command whose request has timed out still occupies its device until its result arrives, its link is
//! lost, or [`Limits::unanswered_after`] passes: a device never has two outstanding commands.
//!
//! # Refusals of the node
//!
//! | reason | when |
//! |---|---|
//! | `unknown_topic` | no such topic |
//! | `not_writable` | the topic exists, but cannot be commanded |
//! | `wrong_type` | the value does not have the type of the point |
//! | `out_of_range` | the value is outside the limits of the point, or its raw value is beyond 64 bits |
//! | `not_supported_mode` | the point does not allow select-before-operate, or direct operate |
//! | `away` | the device is not connected, or was lost before it answered |
//! | `busy` | a command for the same point is in progress |
//! | `queue_full` | too many requests wait for the device, or in total |
//! | `audit_full` | the audit log is too slow: no command is sent that could not be recorded |
//! | `timeout` | no result in time |
//!
//! All other reasons are from the device.
//!
//! # Values
//!
//! | point | accepted values |
//! |---|---|
//! | two states | `true`, `false`, `1`, `0`, the texts `"on"`, `"off"`, `"true"`, `"false"`, `"1"`, `"0"`, and the two state names of the point, or else `"open"` and `"close"`, in any case |
//! | integer | a whole number |
//! | float | a finite number |
//!
//! Without state names of the point, `"open"` is false and `"close"` or `"closed"` is true, as for a switch: a closed
//! breaker conducts. A closed valve does not: such a point has state names ([`Accepts::Bool`]), and only these are
//! accepted.
//!
//! # Limits
//!
//! [`Limits`] has them. A request above a limit is refused with `queue_full` or `audit_full`, which [`Stats`] count.
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
//! control.handle_outcome(now, device, dispatch.command_id, Ok(()));
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
pub use request::{CommandId, Dispatch, Done, Request};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
