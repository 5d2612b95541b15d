//! A control block that is published: one message at once for each change, and repetitions that become rarer.
//!
//! ```text
//!  change  min  2 min    4 min          8 min              …  max                    max
//!    ▼      ▼     ▼        ▼              ▼                     ▼                      ▼
//!  sq 0     1     2        3              4
//! ```
//!
//! Each message allows twice the time to the next one, and [`TIME_ALLOWED_MIN`] at least. `stNum` begins at 1 with each start and
//! rises with each change; `sqNum` is 0 then; both go from the highest to 1. Changes that wait for the network are sent each, in their
//! order: no pulse is lost.

use crate::frame::FrameHead;
use crate::path::Path;
use crate::pdu::PduHead;
use crate::time::{TimeQuality, UtcTime};
use crate::value::Value;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// Changes that may wait to be sent; the next is refused.
const WAITING_MAX: usize = 64;
/// The least time that a message allows.
pub const TIME_ALLOWED_MIN: Duration = Duration::from_millis(50);

/// How repetitions follow a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Between a change and its first repetition; each next one takes twice as long.
    pub min: Duration,
    /// Between two repetitions at most.
    pub max: Duration,
}

/// What is published besides the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherConfig {
    /// Where frames go, with which tag and APPID.
    pub frame: FrameHead,
    /// The reference of the control block.
    pub gocb_ref: Box<str>,
    /// The reference of the data set.
    pub dat_set: Box<str>,
    /// The identifier of the message; none: it has none.
    pub go_id: Option<Box<str>>,
    /// The revision of the configuration.
    pub conf_rev: u32,
    /// Whether it says that it needs commissioning.
    pub needs_commissioning: bool,
    /// What it says of its clock.
    pub time_quality: TimeQuality,
    /// How repetitions follow a change.
    pub curve: Curve,
}

/// What a publisher does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublisherError {
    /// The values do not fit a frame.
    TooLong,
    /// There is no value of that type at a path.
    NoValue,
    /// So many changes wait already.
    Full,
}

impl fmt::Display for PublisherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a data set that does not fit a frame of 1500 bytes"),
            Self::NoValue => write!(f, "no value of this type at this path of the data set"),
            Self::Full => write!(f, "{WAITING_MAX} changes wait for the network already"),
        }
    }
}

impl core::error::Error for PublisherError {}

/// What a publisher has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherCounters {
    /// Frames that were given out.
    pub frames: u64,
    /// Of these, the first ones of changes.
    pub changes: u64,
    /// Changes that were refused.
    pub refused: u64,
}

/// A control block that is published.
#[derive(Debug)]
pub struct Publisher {
    config: PublisherConfig,
    values: Vec<Value>,
    st_num: u32,
    /// That of the next message.
    sq_num: u32,
    /// When the values changed.
    time: UtcTime,
    /// Between the last message and the next one.
    interval: Duration,
    next: Option<Instant>,
    /// Frames of changes.
    waiting: VecDeque<Vec<u8>>,
    counters: PublisherCounters,
}

impl Publisher {
    /// With values, before its start.
    ///
    /// # Errors
    /// They do not fit a frame.
    pub fn new(config: PublisherConfig, values: Vec<Value>) -> Result<Self, PublisherError> {
        let (waiting, counters) = (VecDeque::new(), PublisherCounters::default());
        let time = UtcTime { seconds: 0, fraction: 0, quality: config.time_quality };
        let (interval, next) = (config.curve.max, None);
        // The longest numbers.
        let (st_num, sq_num) = (u32::MAX, u32::MAX);
        let mut publisher = Self { config, values, st_num, sq_num, time, interval, next, waiting, counters };
        let is_fit = publisher.frame(&mut Vec::new());
        (publisher.st_num, publisher.sq_num) = (0, 0);
        if is_fit { Ok(publisher) } else { Err(PublisherError::TooLong) }
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> &PublisherCounters {
        &self.counters
    }

    /// The values, which are those of the last change.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Sends the first message; harmless after the start.
    pub fn start(&mut self, now: Now) {
        if self.next.is_none() {
            self.changed(now);
        }
    }

    /// Gives values to some paths: one change, whatever they were before.
    ///
    /// # Errors
    /// A path has no value of that type, the values do not fit a frame, or too many changes wait. Nothing has changed then.
    pub fn set(&mut self, now: Now, changes: &[(Path, Value)]) -> Result<(), PublisherError> {
        let result = self.try_set(now, changes);
        self.counters.refused += u64::from(result.is_err());
        result
    }

    fn try_set(&mut self, now: Now, changes: &[(Path, Value)]) -> Result<(), PublisherError> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(PublisherError::Full);
        }
        let mut values = self.values.clone();
        for (path, value) in changes {
            let Some((member, deeper)) = path.places().split_first() else { return Err(PublisherError::NoValue) };
            let place = usize::from(*member).checked_sub(1).and_then(|at| values.get_mut(at));
            let place = place.and_then(|value| value.part_mut(deeper)).filter(|known| known.kind() == value.kind());
            *place.ok_or(PublisherError::NoValue)? = value.clone();
        }
        let before = core::mem::replace(&mut self.values, values);
        if !self.frame(&mut Vec::new()) {
            self.values = before;
            return Err(PublisherError::TooLong);
        }
        if self.next.is_some() {
            self.changed(now);
        }
        Ok(())
    }

    /// When [`Publisher::poll_transmit`] has something at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        if self.waiting.is_empty() { self.next } else { Some(Instant::ZERO) }
    }

    /// Appends the next frame to `out` and says whether there was one.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if let Some(frame) = self.waiting.pop_front() {
            out.extend_from_slice(&frame);
            self.counters.changes += 1;
        } else {
            let Some(due) = self.next.filter(|next| *next <= now.mono) else { return false };
            let passed = now.mono.since(due);
            self.interval = (self.interval * 2).min(self.config.curve.max);
            // One that is late is not followed by all that were missed.
            self.next = Some(if passed > self.interval { now.mono + self.interval } else { due + self.interval });
            self.frame(out);
            self.sq_num = next(self.sq_num);
        }
        self.counters.frames += 1;
        true
    }

    fn changed(&mut self, now: Now) {
        self.time = UtcTime::new(now.utc, self.config.time_quality);
        (self.st_num, self.sq_num, self.interval) = (next(self.st_num), 0, self.config.curve.min);
        let mut frame = Vec::new();
        self.frame(&mut frame);
        self.waiting.push_back(frame);
        (self.sq_num, self.next) = (1, Some(now.mono + self.interval));
    }

    /// Appends a frame; false where the values do not fit one.
    fn frame(&self, out: &mut Vec<u8>) -> bool {
        let config = &self.config;
        let allowed = (self.interval * 2).max(TIME_ALLOWED_MIN);
        let head = PduHead {
            gocb_ref: &config.gocb_ref,
            time_allowed_ms: u32::try_from(allowed.as_millis()).unwrap_or(u32::MAX),
            dat_set: &config.dat_set,
            go_id: config.go_id.as_deref(),
            time: self.time,
            st_num: self.st_num,
            sq_num: self.sq_num,
            is_simulated: config.frame.is_simulated,
            conf_rev: config.conf_rev,
            needs_commissioning: config.needs_commissioning,
        };
        let mut apdu = Vec::new();
        head.emit(&self.values, &mut apdu);
        config.frame.emit(&apdu, out)
    }
}

/// The number after this one, which is never 0.
const fn next(number: u32) -> u32 {
    match number.checked_add(1) {
        Some(next) => next,
        None => 1,
    }
}
