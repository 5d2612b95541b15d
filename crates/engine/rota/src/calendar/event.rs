//! An event: when it is, how it comes again, and who is on call.

use super::{ATTENDEES_MAX, EXCEPTIONS_MAX, NAME_BYTES_MAX, is, skip};
use crate::Fault;
use crate::lines::Line;
use crate::rule::Rule;
use crate::time::{DAY, Length, Moment, SHIFT_DAYS_MAX};
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// Properties of an event that say nothing of shifts.
const OTHER: [&str; 22] = [
    "DTSTAMP",
    "CREATED",
    "LAST-MODIFIED",
    "SEQUENCE",
    "DESCRIPTION",
    "LOCATION",
    "TRANSP",
    "CLASS",
    "CATEGORIES",
    "PRIORITY",
    "URL",
    "ORGANIZER",
    "COLOR",
    "GEO",
    "COMMENT",
    "CONTACT",
    "RELATED-TO",
    "ATTACH",
    "RESOURCES",
    "REQUEST-STATUS",
    "IMAGE",
    "CONFERENCE",
];
const EXPECTED: &str =
    "a property of a shift: DTSTART, DTEND, DURATION, RRULE, EXDATE, RECURRENCE-ID, SUMMARY, ATTENDEE, STATUS or UID";

/// An event with its zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The line where it begins.
    pub at: usize,
    pub uid: String,
    pub start: Moment,
    pub length: Length,
    pub rule: Option<Rule>,
    /// Beginnings in UTC of occurrences that are none, in their order.
    pub without: Vec<i64>,
    pub title: String,
    pub who: Vec<String>,
    pub is_cancelled: bool,
}

/// An event as it stands in the file.
pub(super) struct Draft {
    event: Event,
    start_line: usize,
    exceptions: Vec<(Moment, usize)>,
    replaces: Option<(Moment, usize)>,
}

/// Its lines.
#[derive(Default)]
struct Parts {
    uid: Option<Line>,
    start: Option<Line>,
    end: Option<Line>,
    duration: Option<Line>,
    rule: Option<Line>,
    replaces: Option<Line>,
    status: Option<Line>,
    summary: Option<Line>,
    exceptions: Vec<Line>,
    attendees: Vec<Line>,
}

impl Parts {
    fn read(begin: &Line, lines: &mut impl Iterator<Item = Result<Line, Fault>>) -> Result<Self, Fault> {
        let mut parts = Self::default();
        while let Some(line) = lines.next() {
            let line = line?;
            let place = match &*line.name {
                "END" if is(&line, "END", "VEVENT") => return Ok(parts),
                "BEGIN" if is(&line, "BEGIN", "VALARM") => {
                    skip(&line, lines, |_| {})?;
                    continue;
                }
                "UID" => &mut parts.uid,
                "DTSTART" => &mut parts.start,
                "DTEND" => &mut parts.end,
                "DURATION" => &mut parts.duration,
                "RRULE" => &mut parts.rule,
                "RECURRENCE-ID" => &mut parts.replaces,
                "STATUS" => &mut parts.status,
                "SUMMARY" => &mut parts.summary,
                "EXDATE" => {
                    parts.exceptions.push(line);
                    continue;
                }
                "ATTENDEE" => {
                    parts.attendees.push(line);
                    continue;
                }
                name if name.starts_with("X-") || OTHER.contains(&name) => continue,
                _ => return Err(line.fault(EXPECTED)),
            };
            if place.is_some() {
                return Err(line.fault(format!("one {} in an event", line.name)));
            }
            *place = Some(line);
        }
        Err(begin.fault("END:VEVENT below it"))
    }
}

impl Draft {
    pub fn read(begin: &Line, lines: &mut impl Iterator<Item = Result<Line, Fault>>) -> Result<Self, Fault> {
        let parts = Parts::read(begin, lines)?;
        let line = parts.start.as_ref().ok_or_else(|| begin.fault("DTSTART in the event"))?;
        let start = Moment::parse(line, &line.value)?;
        let length = length_of(line, &start, parts.end.as_ref(), parts.duration.as_ref())?;
        let rule = parts.rule.as_ref().map(|rule| Rule::parse(rule, &start)).transpose()?;
        let exceptions = exceptions_of(&parts.exceptions, &start)?;
        let replaces = parts.replaces.as_ref().map(|line| replaced_by(line, &start, rule.is_some())).transpose()?;
        let is_cancelled = parts.status.as_ref().is_some_and(|line| is(line, "STATUS", "CANCELLED"));
        let (title, who) = if is_cancelled {
            (String::new(), Vec::new())
        } else {
            duty(begin, parts.summary.as_ref(), &parts.attendees)?
        };
        let uid = parts.uid.map(|line| short(&line, line.text())).transpose()?.unwrap_or_default();
        if let Some(line) = parts.replaces.as_ref().filter(|_| uid.is_empty()) {
            return Err(line.fault("UID in the event: that of the event with the occurrence"));
        }
        let (at, start_line, without) = (begin.at, line.at, Vec::new());
        let event = Event { at, uid, start, length, rule, without, title, who, is_cancelled };
        Ok(Self { event, start_line, exceptions, replaces })
    }

    /// Finds its zones by `place`, which gives a moment in UTC: the event, and the occurrence that it is in place of.
    pub fn finish(
        self,
        place: &dyn Fn(&mut Moment, usize) -> Result<i64, Fault>,
    ) -> Result<(Event, Option<i64>), Fault> {
        let Self { mut event, start_line, exceptions, replaces } = self;
        place(&mut event.start, start_line)?;
        for (mut moment, line) in exceptions {
            event.without.push(place(&mut moment, line)?);
        }
        event.without.sort_unstable();
        let replaces = replaces.map(|(mut moment, line)| place(&mut moment, line)).transpose()?;
        Ok((event, replaces))
    }
}

fn length_of(start_line: &Line, start: &Moment, end: Option<&Line>, duration: Option<&Line>) -> Result<Length, Fault> {
    let (length, line) = match (end, duration) {
        (None, None) if start.is_day => (Length::of_wall(DAY), start_line),
        (None, None) => return Err(start_line.fault("DTEND or DURATION in the event")),
        (Some(line), None) => {
            let end = Moment::parse(line, &line.value)?;
            if (&end.place, end.is_day) != (&start.place, start.is_day) {
                return Err(line.fault("DTEND of the type and the zone of DTSTART"));
            }
            (Length::of_wall(end.local - start.local), line)
        }
        (None, Some(line)) => {
            let length = Length::parse(&line.value).filter(|length| !start.is_day || length.exact == 0);
            (length.ok_or_else(|| line.fault("a duration, as in P7D, or PT12H of a time"))?, line)
        }
        (Some(_), Some(line)) => return Err(line.fault("DTEND or DURATION, not both")),
    };
    if length.is_legal() {
        return Ok(length);
    }
    Err(line.fault(format!("an end after the beginning, {SHIFT_DAYS_MAX} days at most")))
}

fn exceptions_of(lines: &[Line], start: &Moment) -> Result<Vec<(Moment, usize)>, Fault> {
    let mut all = Vec::new();
    for line in lines {
        for value in line.value.split(',') {
            let moment = Moment::parse(line, value)?;
            if moment.is_day != start.is_day {
                return Err(line.fault("days where DTSTART is one, times where it is one"));
            }
            if all.len() >= EXCEPTIONS_MAX {
                return Err(line.fault(format!("{EXCEPTIONS_MAX} exceptions of an event at most")));
            }
            all.push((moment, line.at));
        }
    }
    Ok(all)
}

fn replaced_by(line: &Line, start: &Moment, has_rule: bool) -> Result<(Moment, usize), Fault> {
    let moment = Moment::parse(line, &line.value)?;
    if line.parameter("RANGE").is_some() {
        return Err(line.fault("one occurrence, without RANGE"));
    }
    if has_rule || moment.is_day != start.is_day {
        return Err(line.fault("one occurrence of the type of DTSTART, without RRULE"));
    }
    Ok((moment, line.at))
}

/// The name of an event, and who is on call.
fn duty(begin: &Line, summary: Option<&Line>, attendees: &[Line]) -> Result<(String, Vec<String>), Fault> {
    let title = match summary {
        Some(line) => short(line, line.text().trim().to_owned())?,
        None => String::new(),
    };
    if attendees.is_empty() && title.is_empty() {
        return Err(begin.fault("SUMMARY or ATTENDEE in the event: who is on call"));
    }
    if attendees.is_empty() {
        return Ok((title.clone(), vec![title]));
    }
    if let Some(line) = attendees.get(ATTENDEES_MAX) {
        return Err(line.fault(format!("{ATTENDEES_MAX} persons at most")));
    }
    let mut who = Vec::new();
    for line in attendees {
        who.extend(attendee(line)?);
    }
    Ok((title, who))
}

/// An address; none of those that are not on call.
fn attendee(line: &Line) -> Result<Option<String>, Fault> {
    let has = |name: &str, words: &[&str]| {
        line.parameter(name).is_some_and(|value| words.iter().any(|word| value.eq_ignore_ascii_case(word)))
    };
    if has("PARTSTAT", &["DECLINED"]) || has("CUTYPE", &["ROOM", "RESOURCE"]) || has("ROLE", &["NON-PARTICIPANT"]) {
        return Ok(None);
    }
    let address = line.value.split_at_checked("mailto:".len());
    let address = address.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("mailto:")).map(|(_, address)| address);
    let address = address.and_then(|address| address.split('?').next()).map(str::trim);
    let address = address.filter(|address| !address.is_empty());
    let address = address.ok_or_else(|| line.fault("an address, as in mailto:anna@plant.example"))?;
    short(line, address.to_owned()).map(Some)
}

/// A text of one short line.
fn short(line: &Line, text: String) -> Result<String, Fault> {
    if text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control) {
        return Ok(text);
    }
    Err(line.fault(format!("one line of {NAME_BYTES_MAX} bytes at most")))
}
