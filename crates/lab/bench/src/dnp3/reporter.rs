//! An outstation that reports all its values again as soon as its last report is confirmed.

use crate::load::{Counts, Go};
use std::sync::Arc;
use tieline_core::{Instant, Machine, Now};
use tieline_dnp3::outstation::{
    Database, EventLimits, Outstation, OutstationConfig, OutstationEvent, PointConfig, RefuseAll,
};
use tieline_dnp3::{Classes, EventClass, Flags, Measured, Measurement, PointType};

/// Values that a report may have: what the event buffer holds of one type, and one fragment takes.
pub const VALUES_MAX: u16 = 100;
/// Points of an outstation at least, as in the published experiment.
const POINTS_MIN: u16 = 33;

/// The outstation's side of a pair.
#[derive(Debug)]
pub struct Reporter {
    outstation: Outstation,
    values: u16,
    go: Go,
    counts: Arc<Counts>,
    reports: u64,
    enabled: bool,
}

/// What a point says in a report: no two reports in a row are alike, and every value fits 32 bits.
#[must_use]
pub fn value_of(report: u64, index: u16) -> f64 {
    let turn = u32::try_from(report % 10_000_000).unwrap_or(0);
    f64::from(turn * u32::from(VALUES_MAX) + u32::from(index))
}

impl Reporter {
    /// An outstation with 33 analog inputs of class 1, or as many as a report has.
    #[must_use]
    pub fn new(values: u16, go: Go, counts: Arc<Counts>) -> Self {
        let mut database = Database::new();
        for index in 0..values.max(POINTS_MIN) {
            let config = PointConfig::of(PointType::Analog).in_class(Some(EventClass::Class1));
            let added = database.add(PointType::Analog, index, config);
            debug_assert_eq!(added, Ok(()));
        }
        database.shrink();
        let config = OutstationConfig { event_limits: EventLimits::all(VALUES_MAX), ..OutstationConfig::default() };
        let outstation = Outstation::new(config, database, Box::new(RefuseAll));
        Self { outstation, values, go, counts, reports: 0, enabled: false }
    }

    /// Begins a report, if one is due.
    pub fn go_on(&mut self, now: Now) {
        if !self.enabled || !self.go.is_on() || self.outstation.stats().events_waiting > 0 {
            return;
        }
        let reports = self.reports;
        let updated = self.outstation.update_all(
            now,
            (0..self.values).map(|index| {
                let value = Measured::Analog(value_of(reports, index));
                Measurement { point_type: PointType::Analog, index, value, flags: Flags::ONLINE, stamp: None }
            }),
        );
        debug_assert_eq!(updated, Ok(()));
        self.reports += 1;
        self.counts.count_begun();
    }
}

impl Machine for Reporter {
    type Event = OutstationEvent;

    fn handle_connected(&mut self, now: Now) {
        self.outstation.handle_connected(now);
    }

    fn handle_disconnected(&mut self, now: Now) {
        self.outstation.handle_disconnected(now);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        let used = self.outstation.handle_input(now, bytes);
        self.go_on(now);
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        self.outstation.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.outstation.poll_transmit(now, out)
    }

    fn poll_event(&mut self) -> Option<OutstationEvent> {
        let event = self.outstation.poll_event();
        if let Some(OutstationEvent::UnsolicitedEnabled(classes)) = event {
            self.enabled = classes.contains(Classes::CLASS_1);
        }
        event
    }

    fn timeout(&self) -> Option<Instant> {
        self.outstation.timeout()
    }

    fn is_closed(&self) -> bool {
        self.outstation.is_closed()
    }
}
