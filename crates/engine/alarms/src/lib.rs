//! Decides which alarms there are, which of them call an operator, and what becomes of each.
//!
//! In: rules ([`Rules`], read from `alarms.csv`), the tree of places ([`PlaceName`]), values with their quality, presence of
//! places, results of commands, what persons do, time, and what was saved before a restart ([`Saved`]).
//! Out: changes of alarms in order ([`Event`]), each with the alarm after it and whether it is annunciated; the alarms as they
//! are ([`Alarm`]).
//!
//! Never: a clock, a topic tree, a file, a decision about the rights of a person (the caller has checked them).
//!
//! # An alarm
//!
//! There is one for each topic and [`Kind`] that a rule is for. Its state are flags that do not exclude each other ([`Flags`]):
//!
//! ```text
//!                 rule, after on_delay                    person, for one occurrence
//! normal ──────────────────────────────▶ active, unacked ───────────────────────────▶ active, acked
//!    ▲                                          │ rule, with hysteresis,                    │
//!    │                                          ▼ after off_delay                           ▼
//!    │◀──────────────── person ───────── gone, unacked                     gone, acked: normal, or latched until reset
//! ```
//!
//! and besides: shelved, suppressed by its rule, out of service (each hides it: it goes on, and nobody is called), chattering,
//! uncertain. Each activation has a number of its own, `seq`, greater than all before it: who acknowledges names it. While an
//! alarm chatters, its activations are counted and share one number.
//!
//! # What is heard
//!
//! An active alarm that is neither hidden nor the consequence of another is annunciated, once for each occurrence. What was
//! hidden, or was a consequence, and is still active when that ends, is annunciated then, with a new number.
//!
//! An alarm is the consequence of the nearest active alarm above it: `high` of `high_high`, and what is below a place of the
//! `away` of that place. What came up to [`Settings::gather`] before its cause is moved under it; what came earlier is not.
//! Consequences are acknowledged with their cause. When a cause returns, its consequences have as long to return in silence.
//!
//! # Quality
//!
//! Bad quality neither raises nor clears an alarm, except of the kinds that are about quality: what is stays, marked uncertain,
//! and what was delayed begins again with the next good value. Before the first value of a topic nothing is decided.
//!
//! # Restarts
//!
//! Every change that outlives a restart comes as an [`Event`] whose record ([`Record`]) replaces the one before. [`Saved`] with
//! all of them applied is the state, and [`Alarms::restore`] takes it in. Delays begin again, activations of an alarm that did
//! not chatter yet are forgotten, and so is a flood.
//!
//! # Limits
//!
//! [`Settings::alarms_max`]; what is beyond is not made, and [`Stats::refused`] counts it. Rules: as many as
//! [`Rules::parse`] is told.
//!
//! # Example
//!
//! ```
//! use tieline_alarms::{Alarms, By, Event, Kind, Rules, Settings, Target, Transition};
//! use tieline_core::{Now, Point, Topic, Value};
//!
//! let rules = Rules::parse("topic,kind,limit,priority\nsite/+/current,high,400,high\n", 1000, false);
//! let rules = rules.map_err(|errors| errors[0].to_string())?;
//! let (now, topic) = (Now::default(), Topic::new("site/a/current")?);
//! let mut alarms = Alarms::new(Settings::default(), rules);
//! let input = alarms.declare(now, &topic).ok_or("no rule")?;
//! alarms.handle_point(now, input, &Point { value: Value::Float(412.0), ..Point::default() });
//! let Some(Event::Change(change)) = alarms.poll_event() else { return Err("no change".into()) };
//! assert_eq!((change.transition, change.is_annunciated), (Transition::Raised, true));
//! let target = Target { topic: "site/a/current", kind: Kind::High };
//! alarms.acknowledge(now, target, change.alarm.record.seq, By { who: "anna", why: "" })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The node itself
//!
//! [`Condition`] are the conditions of a node that are alarmed by rules of its own ([`Rules::with_conditions`]).
//!
//! # Reports
//!
//! [`Report`] makes of the rows of a journal the figures that an alarm system is rated by (ISA-18.2).
//!
//! Read first: `words.rs`, `alarm.rs`, then `engine/mod.rs`, `engine/life.rs`, `engine/causes.rs`.
#![no_std]
extern crate alloc;

mod alarm;
mod conditions;
mod engine;
mod flood;
mod matcher;
mod record;
mod report;
mod rows;
mod rule;
mod settings;
mod table;
mod words;

pub use alarm::{Alarm, AlarmId, By, Change, Event, Flags, Refusal, Service, Shelf, Target};
pub use conditions::{CONDITIONS, Condition};
pub use engine::{Alarms, PlaceName};
pub use record::{Record, RecordError, Saved};
pub use report::{Figures, Frequent, Measure, REPORT_BEFORE, REPORT_SPAN_MAX, Rating, Report, ReportRow, Responses};
pub use rows::InputId;
pub use rule::{Limit, Rule, Suppression, TopicPattern};
pub use settings::{Counts, PriorityCounts, Settings, Stats};
pub use table::{RuleError, Rules};
pub use words::{Kind, Priority, State, Transition};

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
