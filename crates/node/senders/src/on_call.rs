//! Who is on call: a calendar file, and addresses that depend on it.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_rota::{Fault, Outlook, ROTA_BYTES_MAX, Rota, Span, Zones};

/// What stands for those on call in an address.
pub const PLACE: &str = "{on_call}";
/// How far ahead holes and overlaps are told.
pub const OUTLOOK: Duration = Duration::from_hours(7 * 24);

/// The time zones of this machine.
struct SystemZones;

impl Zones for SystemZones {
    fn has(&self, zone: &str) -> bool {
        TimeZone::get(zone).is_ok()
    }

    fn utc(&self, zone: &str, local: i64) -> i64 {
        let utc = || {
            let shown = jiff::Timestamp::from_second(local).ok()?;
            let shown: DateTime = TimeZone::UTC.to_datetime(shown);
            Some(TimeZone::get(zone).ok()?.to_timestamp(shown).ok()?.as_second())
        };
        utc().unwrap_or(local)
    }
}

/// A calendar of shifts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCall {
    file: PathBuf,
    rota: Rota,
}

impl OnCall {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or the line that is wrong.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let unread = |error: std::io::Error| Fault {
            line: 1,
            found: error.to_string(),
            expected: "a readable iCalendar file".to_owned(),
        };
        let mut bytes = Vec::new();
        // A byte beyond the limit is enough to refuse it.
        let limit = ROTA_BYTES_MAX as u64 + 1;
        File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)).map_err(unread)?;
        Ok(Self { file: file.to_owned(), rota: Rota::parse(&bytes, &SystemZones)? })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Who is on call at a time and next, and holes and overlaps in the [`OUTLOOK`] from then on.
    #[must_use]
    pub fn outlook(&self, at: Timestamp) -> Outlook {
        self.rota.outlook(at, OUTLOOK, &SystemZones)
    }

    /// Holes and overlaps in the [`OUTLOOK`], one sentence each, which begins with `key`.
    pub(crate) fn warnings(&self, key: &str, now: Timestamp) -> Vec<String> {
        let Outlook { holes, overlaps, .. } = self.outlook(now);
        let holes = holes.iter().map(|Span { from, to, .. }| format!("{key}: nobody is on call from {from} to {to}"));
        let overlap = |Span { from, to, who }: &Span| {
            format!("{key}: several shifts at once from {from} to {to}: {}", who.join(", "))
        };
        holes.chain(overlaps.iter().map(overlap)).collect()
    }

    /// The first event that gives something which is no address in `to`: its line and the text.
    #[must_use]
    pub fn no_address(&self, to: &[String]) -> Option<(usize, String)> {
        let all = self.rota.duties().flat_map(|(line, who)| who.iter().map(move |who| (line, who)));
        let places = to.iter().filter(|text| text.contains(PLACE));
        let all = all.flat_map(|(line, who)| places.clone().map(move |text| (line, text.replace(PLACE, who))));
        all.into_iter().find(|(_, address)| !crate::is_address(address))
    }

    /// Addresses at a time; those with [`PLACE`] once for each person on call.
    pub(crate) fn addresses(&self, to: &[String], at: Timestamp) -> Vec<String> {
        let on_call = self.rota.on_call(at, &SystemZones);
        let each = |text: &String| match text.contains(PLACE) {
            true => on_call.iter().map(|who| text.replace(PLACE, who)).collect(),
            false => vec![text.clone()],
        };
        let mut all = Vec::new();
        for address in to.iter().flat_map(each) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROTA: &str = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:anna\nDTSTART;TZID=Europe/Madrid:20261023T080000\n\
        DTEND;TZID=Europe/Madrid:20261026T080000\nEND:VEVENT\nEND:VCALENDAR\n";

    fn load(text: &str) -> Result<OnCall, Fault> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        OnCall::load(file.path())
    }

    #[test]
    fn addresses_are_those_of_the_shift_by_the_zones_of_the_machine() {
        let on_call = load(ROTA).unwrap();
        let to = ["{on_call}@plant.example".to_owned(), "log@plant.example".to_owned()];
        let check = |at: &str, expect: &[&str]| {
            assert_eq!(on_call.addresses(&to, at.parse().unwrap()), expect, "{at}");
        };
        check("2026-10-23T05:59:59Z", &["log@plant.example"]);
        check("2026-10-23T06:00:00Z", &["anna@plant.example", "log@plant.example"]);
        check("2026-10-26T06:59:59Z", &["anna@plant.example", "log@plant.example"]);
        check("2026-10-26T07:00:00Z", &["log@plant.example"]);
        let outlook = on_call.outlook("2026-10-26T06:00:00Z".parse().unwrap());
        assert_eq!((outlook.now.len(), outlook.holes.len()), (1, 1));
        let warnings = on_call.warnings("key", "2026-10-26T06:00:00Z".parse().unwrap());
        let expect = "key: nobody is on call from 2026-10-26T07:00:00.000Z to 2026-11-02T06:00:00.000Z";
        assert_eq!(warnings, [expect]);
    }

    #[test]
    fn what_is_no_address_is_found_with_its_line() {
        let on_call = load(ROTA).unwrap();
        let check = |to: &str, expect: Option<(usize, &str)>| {
            let found = on_call.no_address(&[to.to_owned()]);
            assert_eq!(found.as_ref().map(|(line, text)| (*line, &**text)), expect);
        };
        check("{on_call}@plant.example", None);
        check("{on_call}", Some((2, "anna")));
        check("{on_call}@", Some((2, "anna@")));
    }

    #[test]
    fn a_file_that_is_no_calendar_or_too_long_is_refused() {
        assert_eq!(load("x\n").unwrap_err().line, 1);
        assert!(load(&" ".repeat(ROTA_BYTES_MAX + 1)).unwrap_err().to_string().contains("at most"));
        assert!(load(&ROTA.replace("Europe/Madrid", "Mars/Olympus")).unwrap_err().found.contains("Mars/Olympus"));
        assert!(OnCall::load(Path::new("/no/such/rota.ics")).unwrap_err().expected.contains("readable"));
    }
}
