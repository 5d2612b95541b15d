//! Reads: which objects a request asks for, and their way into fragments.

use super::application::{Application, Solicited};
use super::attributes::{Attributes, DeviceAttributes};
use super::config::OutstationConfig;
use super::database::{Database, event_variations, static_variations};
use super::dead_band::write_dead_band;
use super::events::{Event, EventBuffer, Mark, Room, Wanted};
use super::point::{Point, measured};
use crate::app::{Fragment, FragmentWriter, Header, PointRef, Prefix, Range, Sequence, WriteError};
use crate::objects::{Kind, point_group};
use crate::{DnpTime, EventClass, Flags, GroupVar, Iin, Measured, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The most objects or ranges that one read may ask for; more are refused with IIN2.2.
const QUERIES_MAX: usize = 200;

/// A read that is being answered.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) sequence: Sequence,
    pub(super) is_first: bool,
    /// A report between its fragments was not confirmed: there is no other.
    pub(super) is_uninterrupted: bool,
    /// Bits of IIN2.
    pub(super) iin: Iin,
    queries: Vec<Query>,
    /// The query that is being answered.
    at: usize,
}

/// What one object header asks for, as far as it is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Query {
    /// The events selected under this query's number.
    Events { asked: u8 },
    /// The points from one key to another.
    Points { next: (PointType, u16), last: (PointType, u16), asked: u8, told: Told },
    /// Device attributes from one set and variation on.
    Attributes { next: (u16, u8), last_set: u16, asked: u8 },
    /// The clock.
    Time,
}

/// What is told of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Its value, if class 0 has it.
    Class0,
    /// Its value.
    Value,
    /// Its dead-band.
    DeadBand,
}

impl Application {
    /// Chooses what a read is answered with; the fragments are built as they are sent.
    pub(super) fn start_read(&mut self, fragment: &Fragment<'_>) {
        let mut reading = Box::new(Reading {
            sequence: fragment.control.sequence,
            is_first: true,
            is_uninterrupted: false,
            iin: Iin::NONE,
            queries: Vec::new(),
            at: 0,
        });
        self.events.unselect();
        for header in fragment.headers() {
            // What was understood is answered, even if what follows was not.
            let refusal = match header {
                Ok(header) => self.ask(&header, &mut reading.queries),
                Err(error) => error.iin(),
            };
            reading.iin = reading.iin.with(refusal);
        }
        self.stats.requests_refused += u64::from(reading.iin != Iin::NONE);
        self.solicited = Solicited::Reading(reading);
    }

    /// Adds what a header asks for; the bits of IIN2 that refuse it.
    fn ask(&mut self, header: &Header<'_>, queries: &mut Vec<Query>) -> Iin {
        let object = header.object();
        if queries.len() >= QUERIES_MAX {
            return Iin::PARAMETER_ERROR;
        }
        match (object.group, object.variation) {
            (60, 1) if header.range() == Range::All => {
                let (next, last) = ((PointType::Binary, 0), (PointType::OctetString, u16::MAX));
                queries.push(Query::Points { next, last, asked: 0, told: Told::Class0 });
                Iin::NONE
            }
            (60, 1) => Iin::PARAMETER_ERROR,
            (60, 2..=4) => self.ask_events(header, Wanted::Classes(header.classes()), queries),
            (0, variation) => self.ask_attributes(header, variation, queries),
            (13, 0..=2) => self.ask_events(header, Wanted::Commands(PointType::BinaryOutput), queries),
            (43, 0..=8) => self.ask_events(header, Wanted::Commands(PointType::AnalogOutput), queries),
            (34, 0..=3) => self.ask_points(header, PointType::Analog, Told::DeadBand, queries),
            (50, 0 | 1) => {
                queries.push(Query::Time);
                Iin::NONE
            }
            (group, variation) => match point_group(group) {
                Some((point_type, Kind::Static)) if knows(static_variations(point_type), variation) => {
                    self.ask_points(header, point_type, Told::Value, queries)
                }
                Some((point_type, Kind::Event)) if knows(event_variations(point_type), variation) => {
                    self.ask_events(header, Wanted::Type(point_type), queries)
                }
                Some((_, Kind::Static | Kind::Event | Kind::Command | Kind::Other)) | None => Iin::OBJECT_UNKNOWN,
            },
        }
    }

    fn ask_events(&mut self, header: &Header<'_>, wanted: Wanted, queries: &mut Vec<Query>) -> Iin {
        let limit = match header.range() {
            Range::All => usize::MAX,
            Range::Count(count) if header.data().is_empty() => usize::try_from(count).unwrap_or(usize::MAX),
            Range::Count(_) | Range::Span { .. } => return Iin::PARAMETER_ERROR,
        };
        let asked = match wanted {
            Wanted::Classes(_) => 0,
            Wanted::Type(_) | Wanted::Commands(_) => header.object().variation,
        };
        self.events.select(number(queries.len()), wanted, limit);
        queries.push(Query::Events { asked });
        Iin::NONE
    }

    fn ask_points(&self, header: &Header<'_>, point_type: PointType, told: Told, queries: &mut Vec<Query>) -> Iin {
        let asked = header.object().variation;
        let mut push = |start: u16, stop: u16| {
            let (next, last) = ((point_type, start), (point_type, stop));
            queries.push(Query::Points { next, last, asked, told });
        };
        let indexed = matches!(header.qualifier().parts(), Some((Prefix::Index(_), _)));
        match header.range() {
            Range::All => push(0, u16::MAX),
            Range::Span { start, stop } => {
                let (Ok(start), Ok(stop)) = (u16::try_from(start), u16::try_from(stop)) else {
                    return Iin::PARAMETER_ERROR;
                };
                push(start, stop);
                if !self.database.reaches(point_type, start, stop) {
                    return Iin::PARAMETER_ERROR;
                }
            }
            Range::Count(_) if indexed => {
                let mut refusal = Iin::NONE;
                for item in header.items().take(QUERIES_MAX) {
                    match u16::try_from(item.index) {
                        Ok(index) if self.database.reaches(point_type, index, index) => push(index, index),
                        Ok(_) | Err(_) => refusal = Iin::PARAMETER_ERROR,
                    }
                }
                return refusal;
            }
            Range::Count(count) => {
                let slots = self.database.slots(point_type);
                let last = slots.take(usize::try_from(count).unwrap_or(usize::MAX)).next_back();
                if let Some(last) = last.and_then(|slot| self.database.point(slot)) {
                    push(0, last.index);
                }
            }
        }
        Iin::NONE
    }

    /// Attributes of the sets that the header's indices name.
    fn ask_attributes(&self, header: &Header<'_>, asked: u8, queries: &mut Vec<Query>) -> Iin {
        let Some(attributes) = self.attributes() else { return Iin::OBJECT_UNKNOWN };
        let (first, last_set) = match header.range() {
            Range::All => (0, u16::MAX),
            Range::Span { start, stop } => match (u16::try_from(start), u16::try_from(stop)) {
                (Ok(start), Ok(stop)) => (start, stop),
                _ => return Iin::PARAMETER_ERROR,
            },
            Range::Count(_) => return Iin::PARAMETER_ERROR,
        };
        let known = attributes.sets().filter(|set| (first..=last_set).contains(set));
        let told = Attributes { stored: attributes, database: &self.database, config: &self.config };
        match known.map(|set| told.has(set, asked)).reduce(|a, b| a || b) {
            None => Iin::PARAMETER_ERROR,
            Some(false) => Iin::OBJECT_UNKNOWN,
            Some(true) => {
                queries.push(Query::Attributes { next: (first, 0), last_set, asked });
                Iin::NONE
            }
        }
    }
}

fn knows(variations: &[u8], asked: u8) -> bool {
    // The variation of an octet string is its length: whatever is asked for, the answer tells its own.
    asked == 0 || variations == [0] || variations.contains(&asked)
}

fn number(queries: usize) -> u8 {
    u8::try_from(queries).unwrap_or(u8::MAX)
}

impl Reading {
    /// Whether all was written.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.queries.len()
    }

    /// Writes what fits.
    pub(super) fn write(&mut self, present: &Present<'_>, events: &mut EventBuffer, out: &mut FragmentWriter<'_>) {
        while let Some(query) = self.queries.get_mut(self.at) {
            let room = match query {
                Query::Events { asked } => {
                    let mut all = usize::MAX;
                    write_events(events, Mark::Selected(number(self.at)), None, &mut all, *asked, out)
                }
                Query::Points { next, last, asked, told } => {
                    let (room, reached) = present.write_points((*next, *last), *asked, *told, out);
                    *next = reached;
                    room
                }
                Query::Attributes { next, last_set, asked } => present.write_attributes(next, *last_set, *asked, out),
                Query::Time => match out.time(GroupVar::new(50, 1), present.time) {
                    Ok(()) | Err(WriteError::WrongObject(_)) => Room::Enough,
                    Err(WriteError::Full) => Room::Full,
                },
            };
            // An empty fragment that is full will never be less full.
            if room == Room::Full && !out.is_empty() {
                return;
            }
            self.at += 1;
        }
    }
}

/// Writes the events with a mark, of a class or of all, at most `left` of them, and marks them as written.
pub(super) fn write_events(
    events: &mut EventBuffer,
    mark: Mark,
    class: Option<EventClass>,
    left: &mut usize,
    asked: u8,
    out: &mut FragmentWriter<'_>,
) -> Room {
    events.write_marked(mark, class, left, |run, bytes| {
        let Some(first) = run.first() else { return (0, Room::Enough) };
        let object = GroupVar::new(first.group(), if asked == 0 { first.kind.variation } else { asked });
        let mut done = 0;
        loop {
            done += out.join_events(object, run.iter().skip(done).map(Event::sample));
            let Some(event) = run.get(done) else { return (done, Room::Enough) };
            let value = measured(event.kind.point_type, event.bits).unwrap_or_else(|| Measured::Bytes(bytes.into()));
            let point = PointRef { index: event.index, value: &value, flags: event.flags, stamp: Some(event.stamp()) };
            if out.event(object, point) == Err(WriteError::Full) {
                return (done, Room::Full);
            }
            done += 1;
        }
    })
}

/// What static objects tell.
pub(super) struct Present<'d> {
    pub(super) database: &'d Database,
    pub(super) config: &'d OutstationConfig,
    pub(super) attributes: Option<&'d DeviceAttributes>,
    pub(super) time: DnpTime,
    /// All outputs are forced locally.
    pub(super) is_local: bool,
}

impl Present<'_> {
    /// Writes points from one key to another; tells the key of the first that did not fit.
    fn write_points(
        &self,
        (next, last): ((PointType, u16), (PointType, u16)),
        asked: u8,
        told: Told,
        out: &mut FragmentWriter<'_>,
    ) -> (Room, (PointType, u16)) {
        for slot in self.database.slots_from(next, last) {
            let Some(point) = self.database.point(slot) else { break };
            let written = match told {
                Told::Class0 if !point.is_in_class_0() => continue,
                Told::Class0 | Told::Value => {
                    let value = point.value().unwrap_or_else(|| Measured::Bytes(self.database.bytes(slot).into()));
                    let flags = self.flags(point);
                    let told = PointRef { index: point.index, value: &value, flags, stamp: point.frozen_stamp() };
                    out.static_point(static_object(point, flags, asked), told)
                }
                Told::DeadBand => write_dead_band(point, asked, out),
            };
            if written == Err(WriteError::Full) {
                return (Room::Full, point.key());
            }
        }
        (Room::Enough, last)
    }

    /// Writes attributes from `next` on, which it moves to the first that did not fit.
    fn write_attributes(&self, next: &mut (u16, u8), last_set: u16, asked: u8, out: &mut FragmentWriter<'_>) -> Room {
        let Some(stored) = self.attributes else { return Room::Enough };
        let told = Attributes { stored, database: self.database, config: self.config };
        for set in stored.sets().filter(|set| (next.0..=last_set).contains(set)) {
            for (variation, value) in told.of_set(set, asked) {
                if (set, variation) < *next {
                    continue;
                }
                if out.attribute(set, variation, &value) == Err(WriteError::Full) {
                    *next = (set, variation);
                    return Room::Full;
                }
            }
        }
        Room::Enough
    }

    fn flags(&self, point: &Point) -> Flags {
        match point.point_type {
            PointType::BinaryOutput | PointType::AnalogOutput if self.is_local => {
                point.flags().with(Flags::LOCAL_FORCED)
            }
            PointType::Binary
            | PointType::DoubleBit
            | PointType::BinaryOutput
            | PointType::Counter
            | PointType::FrozenCounter
            | PointType::Analog
            | PointType::FrozenAnalog
            | PointType::AnalogOutput
            | PointType::OctetString => point.flags(),
        }
    }
}

/// The group and variation that a point's value is told with.
fn static_object(point: &Point, flags: Flags, asked: u8) -> GroupVar {
    let variation = if asked == 0 { point.static_variation } else { asked };
    // A packed object cannot say that its point is not plainly online: then the flags go along (IEEE 1815 A.2.1.1).
    let packed = matches!(point.point_type, PointType::Binary | PointType::DoubleBit | PointType::BinaryOutput);
    let variation = if packed && variation == 1 && flags != Flags::ONLINE { 2 } else { variation };
    GroupVar::new(point.point_type.static_group(), variation)
}
