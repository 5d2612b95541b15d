//! How far trend logs are read: page by page, to the present, log after log.

use super::clock::DeviceClock;
use tieline_bacnet::client::Failure;
use tieline_bacnet::device::LogPart;
use tieline_bacnet::service::{LogDatum, LogRecord, Range};
use tieline_bacnet::{DateTime, ObjectId};
use tieline_core::Timestamp;

/// Records of a page: what fits the device's answers is less.
const PAGE_RECORDS: i32 = 100;
/// The same of a device that gives up on those.
const SHORT_PAGE_RECORDS: i32 = 10;
/// Pages of one log at most, whatever the device says.
const PAGES_MAX: u32 = 100_000;

/// The points of a log: their numbers, and their places in its records.
pub(super) type Places = Vec<(u32, usize)>;

/// How far logs are read.
pub(super) struct Pages {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    clock: DeviceClock,
    /// Logs that are still to be read, the present one last: each point, and its place in the records.
    logs: Vec<(ObjectId, Places)>,
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

impl Pages {
    /// From one moment to another of logs that are read from the last to the first.
    pub(super) fn new((from, to): (Timestamp, Timestamp), clock: DeviceClock, logs: Vec<(ObjectId, Places)>) -> Self {
        let next = Next::Time(clock.local(from));
        Self { from, to, clock, logs, next, count: PAGE_RECORDS, pages_left: PAGES_MAX }
    }

    /// What is to be read next; none at the end.
    pub(super) fn wanted(&self) -> Option<(ObjectId, Range)> {
        let (log, _) = self.logs.last()?;
        let range = match self.next {
            Next::Time(at) => Range::Time(at, self.count),
            Next::Sequence(number) => Range::Sequence(number, self.count),
            Next::Position(place) => Range::Position(place, self.count),
        };
        Some((*log, range))
    }

    /// What records of the time that is wanted say: of which point, when, and in which record.
    pub(super) fn found<'a>(
        &'a self,
        records: &'a [LogRecord],
    ) -> impl Iterator<Item = (u32, Timestamp, &'a LogDatum, &'a LogRecord)> {
        let (from, to) = (self.clock.moment(self.from), self.clock.moment(self.to));
        let places = self.logs.last().map(|(_, places)| places.as_slice()).unwrap_or_default();
        let zone_minutes = self.clock.zone_minutes;
        records.iter().flat_map(move |record| {
            let at = record.at.timestamp(zone_minutes).filter(|at| from < *at && *at <= to);
            let of_point = move |(number, place): &(u32, usize)| {
                let datum = match &record.datum {
                    LogDatum::Several(data) => data.get(*place),
                    datum => Some(datum).filter(|_| *place == 0),
                };
                Some((*number, at?, datum?, record))
            };
            places.iter().filter_map(of_point)
        })
    }

    /// The device does not give a page: it is asked for less, or in another way, or its next log. Yields the log that it does
    /// not give at all.
    pub(super) fn refused(&mut self, failure: &Failure) -> Option<ObjectId> {
        let is_too_much = matches!(failure, Failure::Abort(_) | Failure::AnswerTooLong);
        match self.next {
            _ if is_too_much && self.count > SHORT_PAGE_RECORDS => self.count = SHORT_PAGE_RECORDS,
            Next::Time(_) => self.next = Next::Position(1),
            Next::Sequence(_) | Next::Position(_) => {
                let given_up = self.logs.last().map(|(log, _)| *log);
                self.end_log();
                return given_up;
            }
        }
        None
    }

    /// The log is read: the next one begins.
    fn end_log(&mut self) {
        self.logs.pop();
        self.next = Next::Time(self.clock.local(self.from));
        (self.count, self.pages_left) = (PAGE_RECORDS, PAGES_MAX);
    }

    /// Finds where the page behind this one begins.
    pub(super) fn advance(&mut self, part: &LogPart) {
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
    use std::time::Duration;
    use tieline_bacnet::{ObjectType, Value as Wire};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
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
        Pages::new((from, to), clock, vec![log(1), log(2)])
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

    #[test]
    fn a_device_that_refuses_is_asked_for_less_and_in_another_way() {
        let mut reading = pages();
        let too_much = Failure::AnswerTooLong;
        assert_eq!(reading.refused(&too_much), None);
        assert!(matches!(reading.wanted(), Some((_, Range::Time(_, SHORT_PAGE_RECORDS)))));
        assert_eq!(reading.refused(&too_much), None);
        assert_eq!(reading.wanted().map(|(_, range)| range), Some(Range::Position(1, SHORT_PAGE_RECORDS)));
        assert_eq!(reading.refused(&too_much), Some(ObjectId::new(ObjectType::TREND_LOG, 2)));
        assert_eq!(reading.logs.len(), 1);
    }
}
