//! Decides who is told of which alarm, when, and when nobody has to be told any more.
//!
//! In: routes ([`Route`]), alarms as they change ([`Notice`]), whether there is a flood, results of attempts to send
//! ([`Outcome`]), time, and what was saved before a restart ([`Saved`]).
//! Out: messages to send ([`Message`]), and what must outlive a restart ([`Record`]).
//!
//! Never: a clock, a socket, an address of a person, a word of a message; whether an alarm is annunciated (the caller says
//! what holds of it, [`Standing::of`]).
//!
//! # An alarm and its routes
//!
//! An alarm that calls takes every route whose [`Choice`] it meets. The steps of a route are due some time after the alarm began
//! to call, the first no earlier than `group_wait`: by then the alarm is known as cause or consequence, and one message has the
//! count of its consequences. A step makes one message for its receiver, and after the last one all receivers of the route
//! are told again every `repeat`. This ends when the alarm is acknowledged, hidden, or the consequence of another. When it
//! returns, everybody who was told gets one message more. An alarm that returns before its first step is never heard of.
//!
//! That a receiver fails is an alarm like any other, below [`RECEIVER_TOPICS`]. The receiver is not told of it: a step that leads to it
//! is left out, and the next one is due at once.
//!
//! # Floods
//!
//! While there is a flood, steps that are due are held, and their receiver gets one summary of all of them; the next
//! no sooner than [`Settings::summary_every`], and only when there is more. At the end of the flood each receiver of a
//! summary is told what still calls. Repetitions wait until then.
//!
//! # At least once
//!
//! Each receiver is sent one message at a time. An attempt that fails is repeated after a pause that doubles from
//! [`Settings::retry_min`] to [`Settings::retry_max`]; after [`Settings::retry_for`] the message is given up. That an alarm has returned
//! is told after what was told of it before. A message may arrive twice, when the node stops between its arrival and the record of it:
//! both have the same [`Message::key`].
//!
//! The order matters: first every record that [`Notify::poll_record`] gives goes to the disk, then what
//! [`Notify::poll_send`] gives goes out.
//!
//! # Restarts
//!
//! [`Saved`] with all records applied is the state. After [`Notify::restore`], give every alarm that is not normal to
//! [`Notify::handle_all`]: what is missing has returned. A pause goes on where it
//! was by the wall clock, but is never longer than it was at first, whatever the wall clock says. Pauses of retries begin
//! again.
//!
//! # Example
//!
//! ```
//! use core::time::Duration;
//! use tieline_core::{Filter, Now, Timestamp, Topic, Value};
//! use tieline_notify::{AlarmName, Choice, MessageKind, Notice, Notify, Outcome, Route, Settings, Standing, Step};
//!
//! let choice = Choice { filter: Filter::new("site/#")?, severity_min: 700, groups: vec![] };
//! let steps = vec![Step { to: "duty".into(), after: Duration::ZERO }];
//! let route = Route::new(choice, steps, Duration::from_secs(5), None)?;
//! let mut notify = Notify::new(Settings::default(), vec![route]);
//! let now = Now::default();
//! notify.handle_notice(now, Notice {
//!     alarm: AlarmName { topic: Topic::new("site/a/current")?, kind: "high".into() },
//!     seq: 12, standing: Standing::Calling, priority: "high".into(), severity: 700, state: "unacknowledged".into(),
//!     group: "".into(), text: "overload".into(), value: Value::Float(412.0), since: Timestamp::default(), count: 0,
//! });
//! let now = now.later(Duration::from_secs(5));
//! assert_eq!(notify.timeout(), Some(now.mono));
//! notify.handle_timeout(now);
//! while let Some(record) = notify.poll_record() { /* to the disk */ }
//! let message = notify.poll_send(now).ok_or("nothing to send")?;
//! assert_eq!((message.kind, &*message.to), (MessageKind::Raised, "duty"));
//! notify.handle_outcome(now, message.id, Outcome::Delivered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read first: `notice.rs`, `route.rs`, then `engine/mod.rs`, `engine/outbox.rs`.
#![no_std]
extern crate alloc;

mod engine;
mod notice;
mod record;
mod route;
mod settings;

pub use engine::{End, Notify, Outcome};
pub use notice::{AlarmName, Holds, Message, MessageKind, Notice, RECEIVER_TOPICS, Standing};
pub use record::{CourseRecord, EpisodeRecord, Record, RecordError, Saved};
pub use route::{Choice, Route, RouteError, RouteId, STEPS_MAX, Step};
pub use settings::{Settings, Stats};

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
