//! What waits to be sent on one connection, and how objects go together in ASDUs.

use super::config::Change;
use super::database::{Database, Point, reported_type};
use super::reports::{Group, Reports};
use crate::apdu::ASDU_BYTES_MAX;
use crate::asdu::{
    Address, Cause, CauseCode, Element, Form, Header, Layout, OBJECTS_MAX, Object, TimeForm, TimeTag, TypeId, emit,
};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use tieline_core::Now;

/// Bytes of an ASDU before its objects.
const HEADER_BYTES: usize = 6;
const ADDRESS_BYTES: usize = 3;
const COMMON_ADDRESS_AT: core::ops::Range<usize> = 4..6;
const NEGATIVE: u8 = 0x40;

/// What an interrogation brings, in this order.
const FORMS: [Form; 9] = [
    Form::SinglePoint,
    Form::DoublePoint,
    Form::Step,
    Form::Bits,
    Form::Normalized,
    Form::NormalizedBare,
    Form::Scaled,
    Form::Short,
    Form::StatusChange,
];

/// Which points a job sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those of a group; 0 all.
    States(u8),
    /// Counters of a group; 0 all.
    Counters(u8),
    /// Those that are sent at intervals.
    Cyclic,
}

impl Wanted {
    const fn has(self, point: &Point) -> bool {
        match self {
            Self::States(group) | Self::Counters(group) => group == 0 || point.group == group,
            Self::Cyclic => point.is_cyclic,
        }
    }

    const fn forms(self) -> &'static [Form] {
        match self {
            Self::States(_) | Self::Cyclic => &FORMS,
            Self::Counters(_) => &[Form::Totals],
        }
    }

    const fn cause(self) -> CauseCode {
        match self {
            Self::States(group) => CauseCode::new(CauseCode::INTERROGATED.raw() + group),
            Self::Counters(group) => CauseCode::new(CauseCode::COUNTERS.raw() + group),
            Self::Cyclic => CauseCode::PERIODIC,
        }
    }
}

/// Points of a station that are being sent.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) station: u16,
    pub(super) wanted: Wanted,
    originator: u8,
    /// What it ends with.
    termination: Option<Vec<u8>>,
    /// How many of the forms are over.
    form: usize,
    last: Option<Address>,
}

impl Job {
    /// Answers a request, whose confirmation goes before.
    pub(super) fn of(station: u16, wanted: Wanted, request: &[u8]) -> Self {
        let originator = request.get(3).copied().unwrap_or(0);
        let termination = Some(mirrored(request, station, CauseCode::TERMINATION, true));
        Self { station, wanted, originator, termination, form: 0, last: None }
    }

    pub(super) const fn cyclic(station: u16) -> Self {
        Self { station, wanted: Wanted::Cyclic, originator: 0, termination: None, form: 0, last: None }
    }

    fn next(&mut self, database: &Database) -> Option<Vec<u8>> {
        while let Some(form) = self.wanted.forms().get(self.form).copied() {
            let layout = Layout { form, time: TimeForm::None };
            let (plain, sequence) = (plain_max(layout), sequence_max(layout));
            let fits = |(_, point): &(Address, &Point)| point.element.form() == form && self.wanted.has(point);
            let found = database.after(self.station, self.last).filter(fits).take(sequence);
            let mut objects: Vec<Object> =
                found.map(|(address, point)| Object { address, element: point.element, time: TimeTag::None }).collect();
            let Some(type_id) = TypeId::of(form, TimeForm::None).filter(|_| !objects.is_empty()) else {
                (self.form, self.last) = (self.form + 1, None);
                continue;
            };
            let run = 1 + objects
                .array_windows()
                .take_while(|[one, next]| one.address.raw() + 1 == next.address.raw())
                .count();
            let is_sequence = run > 1 && run >= plain.min(objects.len());
            objects.truncate(if is_sequence { run } else { plain });
            self.last = objects.last().map(|object| object.address);
            if matches!(self.wanted, Wanted::Counters(_)) {
                for object in &mut objects {
                    object.element = database.count((self.station, object.address)).unwrap_or(object.element);
                }
            }
            let cause = Cause { originator: self.originator, ..Cause::of(self.wanted.cause()) };
            return written(&Header { type_id, is_sequence, cause, common_address: self.station }, &objects);
        }
        None
    }
}

/// An ASDU that is to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) asdu: Vec<u8>,
    /// The changes that it tells.
    pub(super) changes: Vec<Change>,
    /// How many objects it has because they changed.
    pub(super) reported: u64,
}

impl Outgoing {
    const fn of(asdu: Vec<u8>) -> Self {
        Self { asdu, changes: Vec::new(), reported: 0 }
    }
}

/// What waits to be sent on one connection.
#[derive(Debug)]
pub(super) struct Output {
    /// Changes: of this connection, or of the group that it is in.
    pub(super) reports: Rc<RefCell<Reports>>,
    /// Confirmations and answers.
    answers: VecDeque<Vec<u8>>,
    /// What goes out behind the changes before a position.
    behind: VecDeque<(u64, Vec<u8>)>,
    jobs: VecDeque<Job>,
    /// Whether it is the turn of a job.
    is_turn_of_job: bool,
}

impl Output {
    pub(super) fn new(reports_max: usize) -> Self {
        Self {
            reports: Rc::new(RefCell::new(Reports::new(reports_max))),
            answers: VecDeque::new(),
            behind: VecDeque::new(),
            jobs: VecDeque::new(),
            is_turn_of_job: false,
        }
    }

    /// The connection is one of a group from here on.
    pub(super) fn join(&mut self, group: &Group) {
        self.reports = Rc::clone(&group.0);
    }

    /// Takes a change, and returns how many were dropped for it. A group takes it itself.
    pub(super) fn report(&mut self, change: Change) -> u64 {
        let mut reports = self.reports.borrow_mut();
        if reports.is_of_group() { 0 } else { reports.push(change) }
    }

    fn push_behind(&mut self, asdu: Vec<u8>) {
        let end = self.reports.borrow().end();
        self.behind.push_back((end, asdu));
    }

    pub(super) fn initialized(&mut self, station: u16, cause: u8) {
        let header = Header {
            type_id: TypeId::M_EI_NA_1,
            is_sequence: false,
            cause: Cause::of(CauseCode::INITIALIZED),
            common_address: station,
        };
        let object = Object {
            address: Address::default(),
            element: Element::EndOfInitialization { cause },
            time: TimeTag::None,
        };
        if let Some(asdu) = written(&header, &[object]) {
            self.push_behind(asdu);
        }
    }

    /// Answers a request with itself, with another cause.
    pub(super) fn confirm(&mut self, request: &[u8], code: CauseCode, is_positive: bool) {
        self.confirm_of(station_of(request), request, code, is_positive);
    }

    /// The same, of one of the stations that it was to.
    pub(super) fn confirm_of(&mut self, station: u16, request: &[u8], code: CauseCode, is_positive: bool) {
        self.answers.push_back(mirrored(request, station, code, is_positive));
    }

    pub(super) fn terminate(&mut self, request: &[u8], is_positive: bool) {
        let asdu = mirrored(request, station_of(request), CauseCode::TERMINATION, is_positive);
        self.push_behind(asdu);
    }

    /// Ends what one of the stations was asked.
    pub(super) fn terminate_of(&mut self, station: u16, request: &[u8]) {
        self.push_behind(mirrored(request, station, CauseCode::TERMINATION, true));
    }

    /// Answers a read.
    pub(super) fn answer(&mut self, header: &Header, object: Object) {
        self.answers.extend(written(header, &[object]));
    }

    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Ends a job without its termination; whether there was one.
    pub(super) fn cancel(&mut self, station: u16, wanted: Wanted) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.station != station || job.wanted != wanted);
        self.jobs.len() < before
    }

    /// Jobs that clients have asked for.
    pub(super) fn interrogations(&self) -> usize {
        self.jobs.iter().filter(|job| job.wanted != Wanted::Cyclic).count()
    }

    pub(super) fn has_cycle(&self) -> bool {
        self.jobs.iter().any(|job| job.wanted == Wanted::Cyclic)
    }

    pub(super) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Drops the answers behind the first ones.
    pub(super) fn forget_answers(&mut self, count: usize) {
        self.answers.truncate(count);
    }

    pub(super) fn waiting(&self) -> usize {
        self.reports.borrow().waiting()
    }

    /// Drops the changes that wait; their points have been told otherwise.
    pub(super) fn clear_changes(&mut self) {
        self.reports.borrow_mut().clear();
    }

    /// Drops all but changes.
    pub(super) fn stop(&mut self) {
        self.answers.clear();
        self.jobs.clear();
        self.behind.clear();
    }

    /// The next ASDU.
    pub(super) fn next(&mut self, database: &Database, now: Now) -> Option<Outgoing> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(Outgoing::of(answer));
        }
        self.is_turn_of_job = !self.is_turn_of_job;
        if self.is_turn_of_job
            && let Some(asdu) = self.next_of_jobs(database)
        {
            return Some(Outgoing::of(asdu));
        }
        if let Some(found) = self.next_report() {
            return Some(found);
        }
        if let Some(asdu) = self.next_lost(database, now) {
            return Some(Outgoing { reported: 1, ..Outgoing::of(asdu) });
        }
        self.next_of_jobs(database).map(Outgoing::of)
    }

    fn next_of_jobs(&mut self, database: &Database) -> Option<Vec<u8>> {
        while let Some(job) = self.jobs.front_mut() {
            if let Some(asdu) = job.next(database) {
                return Some(asdu);
            }
            let termination = self.jobs.pop_front().and_then(|job| job.termination);
            if termination.is_some() {
                return termination;
            }
        }
        None
    }

    /// The next report: what goes out behind changes that were sent, or changes that go into the same ASDU.
    fn next_report(&mut self) -> Option<Outgoing> {
        let mut reports = self.reports.borrow_mut();
        if self.behind.front().is_some_and(|(position, _)| reports.has_sent(*position)) {
            return self.behind.pop_front().map(|(_, asdu)| Outgoing::of(asdu));
        }
        let type_of = |change: &Change| {
            let type_id = TypeId::of(change.element.form(), change.time.form())?;
            Some((type_id, type_id.layout().map_or(1, plain_max)))
        };
        let changes = reports.take(type_of);
        let first = changes.first()?;
        let (type_id, _) = type_of(first)?;
        let cause = Cause::of(first.cause);
        let header = Header { type_id, is_sequence: false, cause, common_address: first.common_address };
        let objects: Vec<Object> = changes.iter().map(object_of).collect();
        let reported = objects.len() as u64;
        written(&header, &objects).map(|asdu| Outgoing { asdu, changes, reported })
    }

    /// What a point says whose reports were dropped.
    fn next_lost(&mut self, database: &Database, now: Now) -> Option<Vec<u8>> {
        loop {
            let place = self.reports.borrow_mut().take_lost()?;
            let Some(point) = database.point(place) else { continue };
            let object = current(database, place.1, point, now);
            let type_id = reported_type(point.element.form(), false)?;
            let cause = Cause::of(CauseCode::SPONTANEOUS);
            return written(&Header { type_id, is_sequence: false, cause, common_address: place.0 }, &[object]);
        }
    }
}

/// What a point says, without a time where there is a type for that.
pub(super) fn current(database: &Database, address: Address, point: &Point, now: Now) -> Object {
    let is_bare = TypeId::of(point.element.form(), TimeForm::None).is_some();
    let time = if is_bare { TimeTag::None } else { TimeTag::Cp56(database.clock(now.utc)) };
    Object { address, element: point.element, time }
}

const fn object_of(change: &Change) -> Object {
    Object { address: change.address, element: change.element, time: change.time }
}

fn plain_max(layout: Layout) -> usize {
    ((ASDU_BYTES_MAX - HEADER_BYTES) / (ADDRESS_BYTES + layout.bytes())).min(OBJECTS_MAX)
}

fn sequence_max(layout: Layout) -> usize {
    ((ASDU_BYTES_MAX - HEADER_BYTES - ADDRESS_BYTES) / layout.bytes().max(1)).min(OBJECTS_MAX)
}

fn written(header: &Header, objects: &[Object]) -> Option<Vec<u8>> {
    let mut asdu = Vec::new();
    emit(header, objects, &mut asdu).ok()?;
    Some(asdu)
}

fn station_of(request: &[u8]) -> u16 {
    Header::parse(request).map_or(0, |(header, ..)| header.common_address)
}

/// A request with another cause, as its answer has it: all else is as it came, also what is not known here.
fn mirrored(request: &[u8], station: u16, code: CauseCode, is_positive: bool) -> Vec<u8> {
    let mut answer = Vec::from(request);
    if let Some(cause) = answer.get_mut(2) {
        *cause = code.raw() | if is_positive { 0 } else { NEGATIVE };
    }
    if let Some(place) = answer.get_mut(COMMON_ADDRESS_AT) {
        place.copy_from_slice(&station.to_le_bytes());
    }
    answer
}
