//! What a device logged while the node did not hear it: its trend logs go to history, page by page.
//!
//! ```text
//! online ─▶ its clock, what each log logs ─▶ ReadRange: by time, then by sequence number ─▶ history ─▶ stored ─┐
//!                                              ▲──────────────────── the next page ◀───────────────────────────┘
//! ```
//!
//! Live values are not touched. A page is asked for when the one before it is stored, so a log of any length has one request
//! on its way and one page in memory. What is interrupted begins again: history takes each record once.

mod clock;
mod pages;

use self::clock::DeviceClock;
use self::pages::Pages;
use super::device::{BacnetDevice, Task};
use super::values::{reading, refused};
use crate::config::{BacnetConfig, Numbered};
use crate::field::positions::{Known, Positions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_bacnet::client::{Failure, RequestError};
use tieline_bacnet::device::LogPart;
use tieline_bacnet::service::{LogDatum, LogRecord, LoggedProperty, Range};
use tieline_bacnet::{
    Date, DateTime, INSTANCE_ANY, ObjectId, ObjectType, PropertyId, PropertyRef, Time, Value as Wire,
};
use tieline_core::{Now, PointId, Reading, Timestamp, Topic};

/// How long history may take for a page before the device is asked again, later.
const STORED_WITHIN: Duration = Duration::from_secs(60);
/// From what was interrupted to the next attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Properties of the device object that say what its clock is.
const CLOCK: [PropertyId; 4] =
    [PropertyId::LOCAL_DATE, PropertyId::LOCAL_TIME, PropertyId::UTC_OFFSET, PropertyId::DAYLIGHT_SAVINGS_STATUS];

/// The past of a device.
pub(super) struct Past {
    /// The points of each log.
    logs: BTreeMap<ObjectId, Vec<u32>>,
    positions: Positions,
    backfill_max: Duration,
    /// Up to when all is known, while `is_present` is not set.
    known_until: Cell<Timestamp>,
    /// All is known up to the present.
    is_present: Cell<bool>,
    last_heard: Cell<Timestamp>,
    state: RefCell<State>,
    /// Pages that were given to history.
    pages: Cell<u64>,
    /// Records that were given to history.
    pub(super) records: Cell<u64>,
}

enum State {
    /// Nothing is asked for.
    Idle,
    /// The clock is.
    Clock { from: Timestamp, to: Timestamp },
    /// A page is.
    Page(Box<Pages>),
    /// A page is with history.
    Stored(Box<Pages>, u64),
}

impl Past {
    pub(super) fn new((device, bacnet): (&Numbered, &BacnetConfig), positions: &Positions, now: Timestamp) -> Self {
        let (config, mut logs) = (&device.config, BTreeMap::<ObjectId, Vec<u32>>::new());
        // Without history there is nowhere to put the past.
        for (point, number) in config.points.iter().zip(0..).filter(|_| device.recorded) {
            if let Some(log) = point.address.bacnet().and_then(|address| address.trend_log) {
                logs.entry(log).or_default().push(number);
            }
        }
        let oldest = earlier(now, bacnet.backfill_max);
        let known_until = positions.known_until(&config.topic).unwrap_or(oldest);
        Self {
            logs,
            positions: positions.clone(),
            backfill_max: bacnet.backfill_max,
            known_until: Cell::new(known_until),
            is_present: Cell::new(false),
            last_heard: Cell::new(known_until),
            state: RefCell::new(State::Idle),
            pages: Cell::new(0),
            records: Cell::new(0),
        }
    }

    /// The device will be asked. Should the node end before the device has been read, the time before it counts.
    pub(super) fn begin(&self, device: &Topic) {
        if !self.logs.is_empty() {
            self.positions.set(device, Known::Until(self.known_until.get()));
        }
    }

    /// Goes on where that of the device's configuration before was. What was being read is read again.
    pub(super) fn take_over(&self, before: &Self, device: &Topic) {
        self.pages.set(before.pages.get());
        self.records.set(before.records.get());
        if before.logs.is_empty() {
            return self.begin(device);
        }
        self.known_until.set(before.known_until.get());
        self.last_heard.set(before.last_heard.get());
        self.is_present.set(before.is_present.get());
    }

    /// The device has answered.
    pub(super) fn heard(&self, now: Now) {
        self.last_heard.set(now.utc);
    }

    /// The device does not answer any more.
    pub(super) fn went(&self, device: &Topic) {
        *self.state.borrow_mut() = State::Idle;
        if self.is_present.replace(false) && !self.logs.is_empty() {
            self.known_until.set(self.last_heard.get());
            self.positions.set(device, Known::Until(self.last_heard.get()));
        }
    }

    fn take(&self) -> State {
        self.state.replace(State::Idle)
    }
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(at.micros().saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
}

impl BacnetDevice {
    /// The device answers: what it logged meanwhile is read.
    pub(super) fn begin_past(&self, now: Now) {
        let past = &self.past;
        let is_idle = matches!(*past.state.borrow(), State::Idle);
        if past.logs.is_empty() || past.is_present.get() || !is_idle {
            return;
        }
        let from = past.known_until.get().max(earlier(now.utc, past.backfill_max));
        *past.state.borrow_mut() = State::Clock { from, to: now.utc };
        self.watch_past();
        let device = ObjectId::device(self.instance.get().unwrap_or(INSTANCE_ANY));
        let clock = CLOCK.iter().map(|property| PropertyRef::new(device, *property));
        let logged = past.logs.keys().map(|log| PropertyRef::new(*log, PropertyId::LOG_DEVICE_OBJECT_PROPERTY));
        if self.read(clock.chain(logged).collect::<Vec<_>>(), Task::PastClock).is_err() {
            self.past_interrupted();
        }
    }

    /// The clock of the device is known, and what its logs log.
    pub(super) fn past_clock(&self, now: Now, results: &[(PropertyRef, Result<Wire, Failure>)]) {
        let State::Clock { from, to } = self.past.take() else { return };
        if results.iter().any(|(_, result)| result.as_ref().is_err_and(|failure| failure.is_silence())) {
            return self.past_interrupted();
        }
        let said = |wanted| {
            let found = results.iter().find(|(reference, _)| reference.property == wanted);
            found.and_then(|(_, result)| result.as_ref().ok())
        };
        let date = said(PropertyId::LOCAL_DATE).and_then(|value| match value {
            Wire::Date(date) => Some(*date),
            _ => None,
        });
        let time = said(PropertyId::LOCAL_TIME).and_then(|value| match value {
            Wire::Time(time) => Some(*time),
            _ => None,
        });
        let local = date.zip(time).map(|(date, time): (Date, Time)| DateTime { date, time });
        let offset = said(PropertyId::UTC_OFFSET).and_then(|value| match value {
            Wire::Signed(minutes) => Some(*minutes),
            other => other.as_u32().map(i64::from),
        });
        let saving = said(PropertyId::DAYLIGHT_SAVINGS_STATUS) == Some(&Wire::Boolean(true));
        let clock = DeviceClock::of(now.utc, local, offset, saving);
        let logs = self.past.logs.iter().filter_map(|(log, points)| {
            let known = results.iter().find(|(reference, _)| reference.object == *log);
            let places = self.places(*log, points, known.and_then(|(_, result)| result.as_ref().ok()));
            (!places.is_empty()).then_some((*log, places))
        });
        let pages = Pages::new((from, to), clock, logs.collect());
        self.ask_page(Box::new(pages));
    }

    /// The place of each point in the records of a log; those that the log does not have are left out, with a warning.
    fn places(&self, log: ObjectId, points: &[u32], logged: Option<&Wire>) -> Vec<(u32, usize)> {
        let logged = logged.map(LoggedProperty::all_of).unwrap_or_default();
        let own = self.instance.get().map(ObjectId::device);
        let place = |number: &u32| {
            let point = self.point(*number)?;
            let wanted = point.address.bacnet()?.reference;
            let is_it = |logged: &LoggedProperty| {
                logged.reference == wanted && (logged.device.is_none() || logged.device == own)
            };
            let found = logged.iter().position(is_it);
            // What a plain log logs it may keep to itself.
            let is_silent = logged.is_empty() && log.object_type() == ObjectType::TREND_LOG;
            if found.is_none() && !is_silent {
                tracing::warn!(device = %self.topic, point = point.name, %log, "the trend log does not log the point");
            }
            found.or(is_silent.then_some(0)).map(|place| (*number, place))
        };
        points.iter().filter_map(place).collect()
    }

    /// Asks for the next page, or ends where there is none.
    fn ask_page(&self, pages: Box<Pages>) {
        let Some((log, range)) = pages.wanted() else { return self.past_done(&pages) };
        *self.past.state.borrow_mut() = State::Page(pages);
        if self.read_log(log, range).is_err() {
            self.past_interrupted();
        }
    }

    fn read_log(&self, log: ObjectId, range: Range) -> Result<(), RequestError> {
        let job = self
            .link
            .with(|site, now| site.call(self.member, |device, client| device.read_log(now, client, log, Some(range))));
        if let Some(job) = job.transpose()? {
            self.add_task(job, Task::Log);
        }
        Ok(())
    }

    /// A page, or why there is none.
    pub(super) fn log_read(&self, now: Now, part: Result<LogPart, Failure>) {
        let State::Page(mut pages) = self.past.take() else { return };
        let part = match part {
            Ok(part) => part,
            Err(failure) if failure.is_silence() => {
                self.past_interrupted();
                return self.unheard(now, &failure);
            }
            Err(failure) => return self.log_refused(pages, &failure),
        };
        self.past.heard(now);
        let readings = self.readings_of(&pages, &part.records);
        self.past.records.update(|records| records + u64::try_from(readings.len()).unwrap_or(0));
        pages.advance(&part);
        let number = self.past.pages.get() + 1;
        self.past.pages.set(number);
        *self.past.state.borrow_mut() = State::Stored(pages, number);
        if let Some(reporter) = self.reporter() {
            reporter.past(readings, number);
        }
    }

    fn log_refused(&self, mut pages: Box<Pages>, failure: &Failure) {
        if let Some(log) = pages.refused(failure) {
            tracing::warn!(device = %self.topic, %log, %failure, "the device does not give its trend log");
        }
        self.ask_page(pages);
    }

    /// What the records of the time that is wanted say of points.
    fn readings_of(&self, pages: &Pages, records: &[LogRecord]) -> Vec<Reading> {
        let found = pages.found(records);
        found.filter_map(|(number, at, datum, record)| self.past_reading(number, at, datum, record)).collect()
    }

    fn past_reading(&self, number: u32, at: Timestamp, datum: &LogDatum, record: &LogRecord) -> Option<Reading> {
        let (id, point) = (PointId(number), self.point(number)?);
        let flags = record.status.map(Wire::BitString).filter(|_| self.config.status_flags);
        let found = match datum {
            LogDatum::Value(Wire::Null) | LogDatum::Failure(_) => refused(id),
            LogDatum::Value(value) => reading(id, value, point.kind, flags.as_ref()),
            // What became of the log is of no point.
            LogDatum::Status(_) | LogDatum::TimeChange(_) | LogDatum::Several(_) => return None,
        };
        Some(Reading { time: Some(at), ..found })
    }

    /// History has a page.
    pub(super) fn past_settled(&self, number: u64) {
        match self.past.take() {
            State::Stored(pages, waited) if waited == number => self.ask_page(pages),
            other => *self.past.state.borrow_mut() = other,
        }
    }

    fn past_done(&self, pages: &Pages) {
        self.past.is_present.set(true);
        self.past.positions.set(&self.topic, Known::Present);
        let records = self.past.records.get();
        tracing::info!(device = %self.topic, from = %pages.from, to = %pages.to, records, "trend logs are read");
    }

    /// It goes on later, unless the device goes and comes first.
    fn past_interrupted(&self) {
        *self.past.state.borrow_mut() = State::Idle;
        let Some(this) = self.this.get().cloned() else { return };
        tokio::task::spawn_local(async move {
            tokio::time::sleep(AGAIN_AFTER).await;
            if let Some(device) = this.upgrade()
                && device.presence.is_online()
            {
                device.begin_past(device.now());
            }
        });
    }

    /// A page that history does not take is asked for again later.
    fn watch_past(&self) {
        let Some(this) = self.this.get().cloned() else { return };
        tokio::task::spawn_local(async move {
            let mut seen = None;
            loop {
                tokio::time::sleep(STORED_WITHIN).await;
                let Some(device) = this.upgrade() else { return };
                let waits = match &*device.past.state.borrow() {
                    State::Idle => return,
                    State::Clock { .. } | State::Page(_) => None,
                    State::Stored(_, number) => Some(*number),
                };
                if waits.is_some() && waits == seen {
                    tracing::warn!(device = %device.topic, "history does not take the trend logs; they are read again later");
                    return device.past_interrupted();
                }
                seen = waits;
            }
        });
    }
}
