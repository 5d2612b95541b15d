//! What a device logged while the node did not hear it: its trend logs go to history, page by page.
//!
//! ```text
//! online ─▶ its clock, what each log logs ─▶ ReadRange: by time, then by sequence number ─▶ history ─▶ stored ─┐
//!                                              ▲──────────────────── the next page ◀───────────────────────────┘
//! ```
//!
//! Live values are not touched. A page is asked for when the one before it is stored, so a log of any length has one request
//! on its way and one page in memory. What is interrupted begins again: history takes each record once.

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

/// Records of a page: what fits the device's answers is less.
const PAGE_RECORDS: i32 = 100;
/// The same of a device that gives up on those.
const SHORT_PAGE_RECORDS: i32 = 10;
/// Pages of one log at most, whatever the device says.
const PAGES_MAX: u32 = 100_000;
/// How long history may take for a page before the device is asked again, later.
const STORED_WITHIN: Duration = Duration::from_secs(60);
/// From what was interrupted to the next attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// A clock that is no further off than this is right.
const CLOCK_RIGHT_US: i64 = 300_000_000;
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

/// How far logs are read.
struct Pages {
    from: Timestamp,
    to: Timestamp,
    clock: DeviceClock,
    /// Logs that are still to be read, the present one last: each point, and its place in the records.
    logs: Vec<(ObjectId, Vec<(u32, usize)>)>,
    next: Next,
    count: i32,
    pages_left: u32,
}

/// Where the next page of a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Behind a moment of the device.
    Time(DateTime),
    Sequence(u32),
    /// Of a device that finds records neither by time nor by number: from the first on.
    Position(u32),
}

/// The clock of a device: minutes ahead of UTC by its zone, and how far it is ahead besides, for it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeviceClock {
    zone_minutes: i16,
    ahead_us: i64,
}

impl DeviceClock {
    /// Of what the device says. The standard counts its offset from UTC to the west, and without daylight saving.
    fn of(now: Timestamp, local: Option<DateTime>, utc_offset: Option<i64>, daylight_saving: bool) -> Self {
        let Some(local) = local.and_then(|local| local.timestamp(0)) else {
            let seconds = chrono::Local::now().offset().local_minus_utc();
            return Self { zone_minutes: i16::try_from(seconds / 60).unwrap_or(0), ahead_us: 0 };
        };
        let ahead_us = local.micros() - now.micros();
        let said = utc_offset.filter(|west| (-1440..=1440).contains(west));
        let saving = i64::from(daylight_saving) * 60;
        let is_right = |zone: i64| (ahead_us - zone * 60_000_000).abs() <= CLOCK_RIGHT_US;
        // Some devices count to the east: their clocks are right only then.
        let is_east = |west: i64| is_right(saving + west) && !is_right(saving - west);
        let said = said.map(|west| if is_east(west) { saving + west } else { saving - west });
        // A zone is a whole number of quarters of an hour.
        let quarter_us = 15 * 60_000_000;
        let guessed = || (ahead_us + quarter_us / 2).div_euclid(quarter_us) * 15;
        let zone = i16::try_from(said.unwrap_or_else(guessed)).unwrap_or(0);
        Self { zone_minutes: zone, ahead_us: ahead_us - i64::from(zone) * 60_000_000 }
    }

    /// A moment of the node, as the clock of the device had it, in UTC.
    fn moment(self, at: Timestamp) -> Timestamp {
        Timestamp::from_micros(at.micros().saturating_add(self.ahead_us))
    }

    fn local(self, at: Timestamp) -> DateTime {
        DateTime::from_timestamp(self.moment(at), self.zone_minutes)
    }
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
        if self.read(clock.chain(logged).collect(), Task::PastClock).is_err() {
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
        let next = Next::Time(clock.local(from));
        let logs = logs.collect();
        let pages = Pages { from, to, clock, logs, next, count: PAGE_RECORDS, pages_left: PAGES_MAX };
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
        let Some((log, _)) = pages.logs.last() else { return self.past_done(&pages) };
        let range = match pages.next {
            Next::Time(at) => Range::Time(at, pages.count),
            Next::Sequence(number) => Range::Sequence(number, pages.count),
            Next::Position(place) => Range::Position(place, pages.count),
        };
        let log = *log;
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
        let is_too_much = matches!(failure, Failure::Abort(_) | Failure::AnswerTooLong);
        match pages.next {
            _ if is_too_much && pages.count > SHORT_PAGE_RECORDS => pages.count = SHORT_PAGE_RECORDS,
            Next::Time(_) => pages.next = Next::Position(1),
            Next::Sequence(_) | Next::Position(_) => {
                if let Some((log, _)) = pages.logs.last() {
                    tracing::warn!(device = %self.topic, %log, %failure, "the device does not give its trend log");
                }
                pages.end_log();
            }
        }
        self.ask_page(pages);
    }

    /// What the records of the time that is wanted say of points.
    fn readings_of(&self, pages: &Pages, records: &[LogRecord]) -> Vec<Reading> {
        let Some((_, places)) = pages.logs.last() else { return Vec::new() };
        let (from, to) = (pages.clock.moment(pages.from), pages.clock.moment(pages.to));
        let mut readings = Vec::new();
        for record in records {
            let at = record.at.timestamp(pages.clock.zone_minutes).filter(|at| from < *at && *at <= to);
            let Some(at) = at else { continue };
            for (number, place) in places {
                let datum = match &record.datum {
                    LogDatum::Several(data) => data.get(*place),
                    datum => Some(datum).filter(|_| *place == 0),
                };
                readings.extend(datum.and_then(|datum| self.past_reading(*number, at, datum, record)));
            }
        }
        readings
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

impl Pages {
    /// The log is read: the next one begins.
    fn end_log(&mut self) {
        self.logs.pop();
        self.next = Next::Time(self.clock.local(self.from));
        (self.count, self.pages_left) = (PAGE_RECORDS, PAGES_MAX);
    }

    /// Finds where the page behind this one begins.
    fn advance(&mut self, part: &LogPart) {
        let last = part.records.last().map(|record| record.at);
        let to = self.clock.moment(self.to);
        let is_behind = last.and_then(|at| at.timestamp(self.clock.zone_minutes)).is_some_and(|at| at > to);
        self.pages_left = self.pages_left.saturating_sub(1);
        let Some(last) = last.filter(|_| !part.has_last && !is_behind && self.pages_left > 0) else {
            return self.end_log();
        };
        let count = u32::try_from(part.records.len()).unwrap_or(u32::MAX);
        let next = match (part.first_sequence, self.next) {
            (_, Next::Position(place)) => Next::Position(place.saturating_add(count)),
            // The number after the greatest is 1 (clause 12.25.14).
            (Some(first), Next::Time(_) | Next::Sequence(_)) => Next::Sequence(first.wrapping_add(count).max(1)),
            (None, Next::Time(_) | Next::Sequence(_)) => Next::Time(last),
        };
        if next == self.next {
            return self.end_log();
        }
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn check(local: &str, offset: Option<i64>, saving: bool, expect: (i16, i64)) {
        let local = DateTime::from_timestamp(at(local), 0);
        let clock = DeviceClock::of(at("2026-07-01T12:00:00Z"), Some(local), offset, saving);
        assert_eq!((clock.zone_minutes, clock.ahead_us / 1_000_000), expect);
    }

    #[test]
    fn clocks_are_of_a_zone_and_wrong_by_the_rest() {
        // Berlin in summer, its clock 3 s ahead: the offset counts to the west.
        check("2026-07-01T14:00:03Z", Some(-60), true, (120, 3));
        check("2026-07-01T14:00:03Z", None, false, (120, 3));
        check("2026-07-01T06:59:58Z", Some(300), false, (-300, -2));
        check("2026-07-01T12:00:00Z", Some(0), false, (0, 0));
        // One that counts to the east, and one of which nobody knows how.
        check("2026-07-01T14:00:03Z", Some(60), true, (120, 3));
        check("2026-07-01T13:20:00Z", Some(60), false, (-60, 8400));
        // A clock that nobody has set.
        check("2000-01-01T00:00:00Z", Some(0), false, (0, -836_222_400));
        let clock = DeviceClock { zone_minutes: 120, ahead_us: 3_000_000 };
        assert_eq!(clock.local(at("2026-07-01T12:00:00Z")).to_string(), "2026-07-01 14:00:03.00");
    }

    fn record(minute: u32) -> LogRecord {
        let moment = at("2026-07-01T12:00:00Z").later(Duration::from_secs(u64::from(minute) * 60));
        LogRecord { at: DateTime::from_timestamp(moment, 0), datum: LogDatum::Value(Wire::Real(1.0)), status: None }
    }

    fn part(minutes: std::ops::Range<u32>, first_sequence: Option<u32>, has_last: bool) -> LogPart {
        LogPart { records: minutes.map(record).collect(), first_sequence, has_last, has_more: !has_last }
    }

    fn pages() -> Pages {
        let clock = DeviceClock { zone_minutes: 0, ahead_us: 0 };
        let log = |number| (ObjectId::new(ObjectType::TREND_LOG, number), vec![(0, 0)]);
        let (from, to) = (at("2026-07-01T12:00:00Z"), at("2026-07-01T14:00:00Z"));
        let next = Next::Time(clock.local(from));
        Pages { from, to, clock, logs: vec![log(1), log(2)], next, count: PAGE_RECORDS, pages_left: PAGES_MAX }
    }

    #[test]
    fn pages_follow_each_other_to_the_end_of_each_log() {
        let mut reading = pages();
        reading.advance(&part(1..11, Some(u32::MAX - 9), false));
        assert_eq!((reading.next, reading.logs.len()), (Next::Sequence(1), 2));
        reading.advance(&part(11..21, Some(1), false));
        assert_eq!(reading.next, Next::Sequence(11));
        reading.advance(&part(21..22, Some(11), true));
        assert_eq!((reading.logs.len(), reading.next), (1, pages().next));
        // Records behind the present are no longer of the past.
        reading.advance(&part(1..200, None, false));
        assert!(reading.logs.is_empty());
    }

    #[test]
    fn a_device_that_repeats_itself_comes_to_an_end() {
        let mut reading = pages();
        reading.advance(&part(1..3, None, false));
        assert_eq!(reading.next, Next::Time(record(2).at));
        reading.advance(&part(1..3, None, false));
        assert_eq!((reading.logs.len(), reading.next), (1, pages().next));
        reading.next = Next::Position(1);
        reading.advance(&part(1..3, None, false));
        assert_eq!(reading.next, Next::Position(3));
        reading.pages_left = 1;
        reading.advance(&part(3..5, None, false));
        assert!(reading.logs.is_empty());
        pages().advance(&part(0..0, None, false));
    }
}
