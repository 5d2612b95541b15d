//! What waits to be sent on one connection, and how objects go together in ASDUs.

use super::config::Change;
use super::database::{Database, Place, Point, reported_type};
use crate::apdu::ASDU_BYTES_MAX;
use crate::asdu::{
    Address, Cause, CauseCode, Element, Form, Header, Layout, OBJECTS_MAX, Object, TimeForm, TimeTag, TypeId, emit,
};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
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

/// What goes out in the order in which it came about.
#[derive(Debug)]
enum Report {
    Change(Change),
    Asdu(Vec<u8>),
}

/// What waits to be sent on one connection.
#[derive(Debug)]
pub(super) struct Output {
    /// Changes that wait at most.
    reports_max: usize,
    /// Confirmations and answers.
    answers: VecDeque<Vec<u8>>,
    reports: VecDeque<Report>,
    /// Changes among the reports.
    changes: usize,
    /// Points whose reports were dropped.
    lost: BTreeSet<Place>,
    jobs: VecDeque<Job>,
    /// Whether it is the turn of a job.
    is_turn_of_job: bool,
}

impl Output {
    pub(super) const fn new(reports_max: usize) -> Self {
        Self {
            reports_max,
            answers: VecDeque::new(),
            reports: VecDeque::new(),
            changes: 0,
            lost: BTreeSet::new(),
            jobs: VecDeque::new(),
            is_turn_of_job: false,
        }
    }

    /// Takes a change, and returns how many were dropped for it.
    pub(super) fn report(&mut self, change: Change) -> u64 {
        self.reports.push_back(Report::Change(change));
        self.changes += 1;
        if self.changes <= self.reports_max {
            return 0;
        }
        let oldest = self.reports.iter().position(|report| matches!(report, Report::Change(_)));
        if let Some(Report::Change(dropped)) = oldest.and_then(|at| self.reports.remove(at)) {
            self.changes -= 1;
            self.lost.insert((dropped.common_address, dropped.address));
        }
        1
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
        self.reports.extend(written(&header, &[object]).map(Report::Asdu));
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
        self.reports.push_back(Report::Asdu(asdu));
    }

    /// Ends what one of the stations was asked.
    pub(super) fn terminate_of(&mut self, station: u16, request: &[u8]) {
        self.reports.push_back(Report::Asdu(mirrored(request, station, CauseCode::TERMINATION, true)));
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

    pub(super) const fn waiting(&self) -> usize {
        self.changes
    }

    /// Drops the changes that wait; their points have been told otherwise.
    pub(super) fn clear_changes(&mut self) {
        self.reports.retain(|report| matches!(report, Report::Asdu(_)));
        self.changes = 0;
        self.lost.clear();
    }

    /// Drops all but changes.
    pub(super) fn stop(&mut self) {
        self.answers.clear();
        self.jobs.clear();
        self.reports.retain(|report| matches!(report, Report::Change(_)));
    }

    /// The next ASDU, and how many changes it tells.
    pub(super) fn next(&mut self, database: &Database, now: Now) -> Option<(Vec<u8>, u64)> {
        if let Some(answer) = self.answers.pop_front() {
            return Some((answer, 0));
        }
        self.is_turn_of_job = !self.is_turn_of_job;
        if self.is_turn_of_job
            && let Some(asdu) = self.next_of_jobs(database)
        {
            return Some((asdu, 0));
        }
        if let Some(found) = self.next_report() {
            return Some(found);
        }
        if let Some(asdu) = self.next_lost(database, now) {
            return Some((asdu, 1));
        }
        self.next_of_jobs(database).map(|asdu| (asdu, 0))
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

    /// The next report, with those behind it that go into the same ASDU.
    fn next_report(&mut self) -> Option<(Vec<u8>, u64)> {
        let first = match self.reports.pop_front()? {
            Report::Asdu(asdu) => return Some((asdu, 0)),
            Report::Change(change) => change,
        };
        let type_id = TypeId::of(first.element.form(), first.time.form())?;
        let most = type_id.layout().map_or(1, plain_max);
        let mut objects = Vec::from([object_of(&first)]);
        while let Some(Report::Change(change)) = self.reports.front() {
            let is_same = (change.common_address, change.cause) == (first.common_address, first.cause)
                && TypeId::of(change.element.form(), change.time.form()) == Some(type_id);
            // An object is in an ASDU once.
            let is_there = objects.iter().any(|object| object.address == change.address);
            if !is_same || is_there || objects.len() >= most {
                break;
            }
            objects.push(object_of(change));
            self.reports.pop_front();
        }
        self.changes = self.changes.saturating_sub(objects.len());
        let cause = Cause::of(first.cause);
        let header = Header { type_id, is_sequence: false, cause, common_address: first.common_address };
        let count = objects.len() as u64;
        written(&header, &objects).map(|asdu| (asdu, count))
    }

    /// What a point says whose reports were dropped.
    fn next_lost(&mut self, database: &Database, now: Now) -> Option<Vec<u8>> {
        while let Some(place) = self.lost.pop_first() {
            let Some(point) = database.point(place) else { continue };
            let object = current(database, place.1, point, now);
            let type_id = reported_type(point.element.form(), false)?;
            let cause = Cause::of(CauseCode::SPONTANEOUS);
            return written(&Header { type_id, is_sequence: false, cause, common_address: place.0 }, &[object]);
        }
        None
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
