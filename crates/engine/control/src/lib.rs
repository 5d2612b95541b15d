//! Decides which command may be sent to which device, and tracks its result.
//!
//! In: requests to set topics, reservations and overrides, results of links and commands, readings, ends of holders, time.
//! Out: commands in raw units, one at a time for each device; exactly one result for each request; records for the audit
//! log; entries that must outlive a restart.
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
//! # Who may command
//!
//! [`Coordinator`] joins [`Control`] with reservations ([`Schedule`]), overrides ([`Overrides`]), tags ([`Tags`]) and rules
//! of points ([`PointRules`]). It takes a [`Batch`] of many points. Whether a command is allowed is checked when it is asked for, and
//! again at the moment when it is sent. A point that is set under a reservation is held: when the slot ends, is cancelled
//! or is pre-empted, or its holder ends ([`Coordinator::handle_holder_gone`]), it is reverted until the device has accepted
//! it and, where its rules say so, a reading has shown it. A command of the next holder for the point cancels the revert.
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
//! | `point_changed` | the configuration of the point changed before the command was sent; ask again |
//! | `busy` | a command for the same point is in progress |
//! | `queue_full` | too many requests wait for the device, or in total |
//! | `audit_full` | the audit log is too slow: no command is sent that could not be recorded |
//! | `timeout` | no result in time |
//! | `reserved`, `not_reserved` | another holder has the device; a reservation is required, and there is none |
//! | `override` | an override is on |
//! | `tagged` | a tag forbids it |
//! | `interlock` | another point does not have the required value, or its quality is not good |
//! | `too_often`, `too_fast`, `step_too_large`, `unknown_value` | the limits of change of the point |
//! | `not_revertible` | no value is known that a revert would restore |
//! | `holder_gone` | the requester ended while its command waited |
//! | `cancelled` | a revert was no longer necessary while it waited |
//! | `unconfirmed`, `superseded` | no reading showed the command in time; a later command was sent first |
//! | `batch_empty`, `batch_too_large` | the batch as a whole is refused |
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
//!     relinquishes: false,
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
//! Read first: `point.rs`, `control.rs`, then `coordinator/mod.rs`, `coordinator/job.rs`.
#![no_std]
extern crate alloc;

mod audit;
mod batch;
mod control;
mod coordinator;
mod entry;
mod limits;
mod overrides;
mod pattern;
mod point;
mod refusals;
mod request;
mod rules;
mod schedule;
mod tags;

pub use audit::{AuditRecord, Phase};
pub use batch::{Action, Answer, Batch, BatchDone, BatchEntry, BatchEvent, DryRun, PointOutcome, WouldSend};
pub use control::Control;
pub use coordinator::{Coordinator, CoordinatorLimits, CoordinatorStats, DevicePoints, PointChange};
pub use entry::{Entry, HoldRecord, OverrideRecord};
pub use limits::{Limits, Stats};
pub use overrides::{NewOverride, Overrides, STAGGER};
pub use pattern::{Pattern, PatternError};
pub use point::{Accepts, ControlPoint, Modes, PointError, Scaling};
pub use request::{CommandId, Dispatch, Done, Request};
pub use rules::{Comparison, Interlock, InterlockError, PointRules, ReadBack, RevertTo};
pub use schedule::{
    Announcement, CLOCK_SLACK, NewSchedule, Owner, Priority, RequestType, Schedule, ScheduleData, ScheduleEvent,
    ScheduleLimits, ScheduleResult, Slot, SlotRequest, TaskRecord,
};
pub use tags::{NewTag, TagKind, TagRecord, Tags};

#[cfg(test)]
mod model;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
