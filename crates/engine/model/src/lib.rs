//! Computes the values of the points of a simulated device, and its faults.
//!
//! In: points with curves, faults, a seed, time, commands. Out: [`Reading`](tieline_core::Reading)s of points, and how the
//! device treats a request: answers, answers late, refuses, or does not answer ([`Conduct`]).
//!
//! Never: a protocol, a socket, a topic, a clock. The node's driver of simulated devices, or a server of a protocol, has these.
//!
//! # Reproducible
//!
//! The time of a device goes in steps of equal length from its start. All values depend on the seed, the start, the number of
//! the step, and the commands with the step they came in; they do not depend on when they are read. Random numbers are hashes
//! of seed, point and step, so there is no sequence to lose. The exception is a device that was not read for more than
//! [`STEPS_MAX`] steps: it then takes longer steps, so that the work of one read is bounded.
//!
//! # Curves
//!
//! A curve is a word with arguments in parentheses, separated by commas, semicolons or spaces. `X` is a number or the name of
//! another point of the device; a duration is a whole number with `ms`, `s`, `m`, `h` or `d`.
//!
//! | curve | value |
//! |---|---|
//! | (none) | the start value, or what was commanded |
//! | `ramp(from to period)` | a straight line, again and again |
//! | `triangle(from to period)` | a straight line there and back |
//! | `sine(mean amplitude period [shift])` | a sine wave; with a shift it is later |
//! | `square(low high period [share])` | high for a share (0 to 1, default 0.5) of the period, then low |
//! | `toggle(period [share])` | the same with 0 and 1 |
//! | `day(v1 v2 …)` | values that are spread evenly over the day from 0:00 UTC, and straight lines between them |
//! | `steps(FILE [period])` | values of a file, each until the next; see [`Steps`] |
//! | `walk(min max rate)` | a random walk with a standard deviation of `rate` after one second, reflected at its bounds |
//! | `lag(tau)` | what was commanded, with a first-order lag |
//! | `follow(X tau)` | `X` with a first-order lag; a command goes to `X` |
//! | `sum(X [per])` | the integral of `X` over time in units of `per` (default `1h`: kW become kWh) |
//! | `linear(X factor [offset])` | `X` × factor + offset |
//! | `product(X X)` | a product |
//! | `when(X X X)` | the second if the first is not 0, else the third |
//! | `above(X limit [band])` | 1 while `X` is above the limit; it ends `band` below the limit |
//!
//! # Limits
//!
//! [`POINTS_MAX`], [`FAULTS_MAX`], [`VALUES_MAX`] and [`STEPS_MAX`]; a model above one is refused.
//!
//! # Example
//!
//! ```
//! use tieline_core::{PointId, Value};
//! use tieline_model::{Course, Curve, Device, Kind, Model, PointSpec};
//!
//! let no_files = |_: &str| Err("no files here".into());
//! let curve = |text: &str| Curve::parse(text, &mut { no_files });
//! let model = Model::new(vec![
//!     PointSpec { start: Some(20.0), writable: true, ..PointSpec::new("setpoint", Kind::Float) },
//!     PointSpec { curve: curve("follow(setpoint 5m)")?, ..PointSpec::new("temperature", Kind::Float) },
//! ])?;
//! let mut device = Device::new(model.into(), [].into(), Course::default());
//! device.handle_command(PointId(0), &Value::Float(25.0))?;
//! device.handle_time(core::time::Duration::from_secs(3600));
//! let reading = device.reading(PointId(1)).ok_or("no such point")?;
//! assert!(matches!(reading.value, Value::Float(x) if (24.99..25.0).contains(&x)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read first: `device.rs`, then `curve.rs`.
#![no_std]
extern crate alloc;

mod curve;
mod device;
mod fault;
mod model;
mod parse;
mod random;
mod steps;
mod wave;

pub use curve::{Curve, Operand, Relation};
pub use device::{CommandError, Conduct, Course, Device, STEPS_MAX};
pub use fault::{Effect, FAULTS_MAX, Fault, FaultKind, When};
pub use model::{Kind, Model, ModelError, POINTS_MAX, PointSpec};
pub use parse::CurveError;
pub use random::Seed;
pub use steps::Steps;
pub use wave::{VALUES_MAX, Wave};

#[cfg(test)]
mod tests;
