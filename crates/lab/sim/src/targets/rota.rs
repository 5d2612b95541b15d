//! Calendars of those on call.

use tieline_core::Timestamp;
use tieline_rota::{Rota, Zones};

/// Zones that an hour after UTC and a day before it are enough for.
struct Two;

impl Zones for Two {
    fn has(&self, zone: &str) -> bool {
        !zone.is_empty()
    }

    fn utc(&self, zone: &str, local: i64) -> i64 {
        if zone.len().is_multiple_of(2) { local - 3600 } else { local + 86_400 }
    }
}

/// A file is a rota, whose shifts have some of the time that is asked for, or has a fault in one of its lines.
pub(super) fn calendar(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    match Rota::parse(bytes, &Two) {
        Err(fault) => assert!((1..=lines).contains(&fault.line), "{fault}"),
        Ok(rota) => {
            let [from, to] = [1_795_000_000_000, 1_796_000_000_000].map(Timestamp::from_millis);
            for shift in rota.shifts(from, to, &Two) {
                assert!(shift.from < to && shift.to > from && !shift.who.is_empty(), "{shift:?}");
            }
        }
    }
}
