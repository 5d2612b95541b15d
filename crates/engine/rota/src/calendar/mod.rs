//! The components of a file, and its events with their zones.

mod event;

pub(crate) use self::event::Event;

use self::event::Draft;
use crate::lines::{self, Line};
use crate::time::{Moment, Place};
use crate::{Fault, Zones, windows};
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of a file.
pub const ROTA_BYTES_MAX: usize = 1 << 20;
/// Events of a file.
pub const EVENTS_MAX: usize = 2000;
/// Dates of one event in EXDATE.
pub const EXCEPTIONS_MAX: usize = 1000;
/// Persons of one event.
pub const ATTENDEES_MAX: usize = 20;
/// Bytes of the name of an event, of an address, of a UID.
pub const NAME_BYTES_MAX: usize = 255;

/// Properties of a calendar that say nothing of shifts.
const OTHER: [&str; 12] = [
    "PRODID",
    "METHOD",
    "NAME",
    "DESCRIPTION",
    "UID",
    "LAST-MODIFIED",
    "URL",
    "CATEGORIES",
    "REFRESH-INTERVAL",
    "SOURCE",
    "COLOR",
    "IMAGE",
];

/// Who is on call when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rota {
    pub(crate) events: Vec<Event>,
}

impl Rota {
    /// Reads a file.
    ///
    /// # Errors
    /// The first line that cannot be taken.
    pub fn parse(bytes: &[u8], zones: &dyn Zones) -> Result<Self, Fault> {
        if bytes.len() > ROTA_BYTES_MAX {
            return Err(Fault::new(1, format!("{} bytes", bytes.len()), format!("{ROTA_BYTES_MAX} at most")));
        }
        let mut reader = Reader::default();
        let (mut last, mut has_calendar) = (1, false);
        let mut lines = lines::read(bytes);
        while let Some(line) = lines.next() {
            let line = line?;
            last = line.at;
            if !is(&line, "BEGIN", "VCALENDAR") {
                return Err(line.fault("BEGIN:VCALENDAR"));
            }
            has_calendar = true;
            reader.calendar(&line, &mut lines)?;
        }
        if !has_calendar {
            return Err(Fault::new(last, "nothing", "BEGIN:VCALENDAR"));
        }
        reader.finish(zones)
    }

    /// The line of each event, and who is on call then.
    pub fn duties(&self) -> impl Iterator<Item = (usize, &[String])> {
        self.events.iter().map(|event| (event.at, &*event.who))
    }
}

/// Whether a line is a name and a value, both in any case.
fn is(line: &Line, name: &str, value: &str) -> bool {
    line.name == name && line.value.trim_end().eq_ignore_ascii_case(value)
}

/// What was read.
#[derive(Default)]
struct Reader {
    drafts: Vec<Draft>,
    /// The zone of times that have none, and its line.
    floating: Option<(Arc<str>, usize)>,
    /// Zones of VTIMEZONE with X-LIC-LOCATION.
    locations: BTreeMap<Arc<str>, Arc<str>>,
}

impl Reader {
    fn calendar(&mut self, begin: &Line, lines: &mut impl Iterator<Item = Result<Line, Fault>>) -> Result<(), Fault> {
        while let Some(line) = lines.next() {
            let line = line?;
            match &*line.name {
                "END" if is(&line, "END", "VCALENDAR") => return Ok(()),
                "BEGIN" => self.component(&line, lines)?,
                "VERSION" if line.value == "2.0" => {}
                "VERSION" => return Err(line.fault("VERSION:2.0")),
                "CALSCALE" if line.value.eq_ignore_ascii_case("GREGORIAN") => {}
                "CALSCALE" => return Err(line.fault("CALSCALE:GREGORIAN")),
                "X-WR-TIMEZONE" => self.floating = Some((line.text().trim().into(), line.at)),
                name if name.starts_with("X-") || OTHER.contains(&name) => {}
                _ => return Err(line.fault("BEGIN:VEVENT, or a property of a calendar")),
            }
        }
        Err(begin.fault("END:VCALENDAR below it"))
    }

    fn component(&mut self, begin: &Line, lines: &mut impl Iterator<Item = Result<Line, Fault>>) -> Result<(), Fault> {
        if is(begin, "BEGIN", "VTIMEZONE") {
            return self.zone(begin, lines);
        }
        if !is(begin, "BEGIN", "VEVENT") {
            return Err(begin.fault("events (VEVENT) and time zones (VTIMEZONE) only"));
        }
        if self.drafts.len() >= EVENTS_MAX {
            return Err(begin.fault(format!("{EVENTS_MAX} events at most")));
        }
        self.drafts.push(Draft::read(begin, lines)?);
        Ok(())
    }

    /// A zone of the file: its rules are those of the IANA data, so only its name is read.
    fn zone(&mut self, begin: &Line, lines: &mut impl Iterator<Item = Result<Line, Fault>>) -> Result<(), Fault> {
        let (mut id, mut location) = (None, None);
        skip(begin, lines, |line| match &*line.name {
            "TZID" => id = Some(Arc::from(&*line.value)),
            "X-LIC-LOCATION" => location = Some(Arc::from(&*line.value)),
            _ => {}
        })?;
        self.locations.extend(id.zip(location));
        Ok(())
    }

    fn finish(mut self, zones: &dyn Zones) -> Result<Rota, Fault> {
        let drafts = core::mem::take(&mut self.drafts);
        let known = |name: &str| self.known(name, zones);
        let floating = match &self.floating {
            Some((name, line)) => Place::Zone(known(name).ok_or_else(|| unknown(*line, name))?),
            None => Place::Utc,
        };
        let place = |moment: &mut Moment, line: usize| {
            moment.place = match &moment.place {
                Place::Utc => Place::Utc,
                Place::Floating => floating.clone(),
                Place::Zone(name) => Place::Zone(known(name).ok_or_else(|| unknown(line, name))?),
            };
            Ok::<_, Fault>(moment.utc(zones))
        };
        let mut events = Vec::with_capacity(drafts.len());
        let mut replaced: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for draft in drafts {
            let (event, replaces) = draft.finish(&place)?;
            match replaces {
                Some(utc) => replaced.entry(event.uid.clone()).or_default().push(utc),
                None if event.is_cancelled => continue,
                None => {}
            }
            events.push((event, replaces.is_some()));
        }
        for (event, _) in events.iter_mut().filter(|(_, is_in_place)| !is_in_place) {
            event.without.extend(replaced.get(&event.uid).into_iter().flatten());
            event.without.sort_unstable();
        }
        let events = events.into_iter().map(|(event, _)| event).filter(|event| !event.is_cancelled);
        Ok(Rota { events: events.collect() })
    }

    /// The IANA name of a zone.
    fn known(&self, name: &str, zones: &dyn Zones) -> Option<Arc<str>> {
        let others = [self.locations.get(name).map(|location| &**location), windows::iana(name)];
        let mut names = core::iter::once(name).chain(others.into_iter().flatten());
        names.find(|name| zones.has(name)).map(Into::into)
    }
}

fn unknown(line: usize, zone: &str) -> Fault {
    let zone: String = zone.chars().take(60).collect();
    Fault::new(line, format!("the time zone {zone:?}"), "a time zone of this machine, as in Europe/Madrid")
}

/// Reads a component to its end, with all that is in it.
fn skip(
    begin: &Line,
    lines: &mut impl Iterator<Item = Result<Line, Fault>>,
    mut each: impl FnMut(&Line),
) -> Result<(), Fault> {
    let mut depth = 0_usize;
    for line in lines {
        let line = line?;
        match &*line.name {
            "BEGIN" => depth += 1,
            "END" if depth > 0 => depth -= 1,
            "END" if is(&line, "END", &begin.value) => return Ok(()),
            "END" => return Err(line.fault(format!("END:{}", begin.value))),
            _ => each(&line),
        }
    }
    Err(begin.fault(format!("END:{} below it", begin.value.to_owned())))
}
