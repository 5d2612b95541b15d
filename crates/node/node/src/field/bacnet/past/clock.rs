//! The clock of a device, which may be of another zone, or wrong.

use tieline_bacnet::DateTime;
use tieline_core::Timestamp;

/// A clock that is no further off than this is right.
const CLOCK_RIGHT_US: i64 = 300_000_000;

/// The clock of a device: minutes ahead of UTC by its zone, and how far it is ahead besides, for it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceClock {
    pub(super) zone_minutes: i16,
    pub(super) ahead_us: i64,
}

impl DeviceClock {
    /// Of what the device says. The standard counts its offset from UTC to the west, and without daylight saving.
    pub(super) fn of(now: Timestamp, local: Option<DateTime>, utc_offset: Option<i64>, daylight_saving: bool) -> Self {
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
    pub(super) fn moment(self, at: Timestamp) -> Timestamp {
        Timestamp::from_micros(at.micros().saturating_add(self.ahead_us))
    }

    pub(super) fn local(self, at: Timestamp) -> DateTime {
        DateTime::from_timestamp(self.moment(at), self.zone_minutes)
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
}
