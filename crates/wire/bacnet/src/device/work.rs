//! What a device is asked, one request after the other, and the jobs that are made of it.

use super::{DeviceEvent, JobId, LogPart, Profile};
use crate::client::Failure;
use crate::service::{Range, RangeAck, Write, log_multiple_records, log_records};
use crate::{ObjectId, ObjectType, PropertyRef, Value};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use tieline_core::Instant;

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// References of a job, from one place to another.
    Read {
        job: JobId,
        start: usize,
        end: usize,
    },
    /// The object list as a whole.
    ObjectList(JobId),
    /// Not from the moment on, where there is one.
    Write(JobId, Write, Option<Instant>),
    Log(JobId, PropertyRef, Option<Range>),
    /// Subscribe, or renew.
    Subscribe(ObjectId),
    /// End a subscription.
    Unsubscribe(ObjectId),
}

/// What becomes of the results of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// They are the owner's.
    Read,
    /// They are a profile.
    Learn,
    /// The result is the length of the object list.
    ObjectCount,
    /// They are the elements of the object list.
    ObjectList,
}

/// References that are read, by as many requests as it takes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) purpose: Purpose,
    pub(super) references: Rc<[PropertyRef]>,
    /// One of each reference, in the same order.
    results: Vec<(PropertyRef, Result<Value, Failure>)>,
    /// Which of them are there.
    is_noted: Vec<bool>,
    left: usize,
}

impl Job {
    pub(super) fn new(purpose: Purpose, references: Rc<[PropertyRef]>) -> Self {
        let left = references.len();
        let results = references.iter().map(|reference| (*reference, Err(Failure::Malformed))).collect();
        Self { purpose, references, results, is_noted: vec![false; left], left }
    }

    /// The references are these, as many, from here on.
    pub(super) fn rename(&mut self, references: Rc<[PropertyRef]>) {
        self.results.iter_mut().zip(references.iter()).for_each(|((name, _), reference)| *name = *reference);
        self.references = references;
    }

    /// Notes a result; the first of a place counts.
    pub(super) fn note(&mut self, place: usize, result: Result<Value, Failure>) {
        if let (Some(is_noted @ false), Some((_, open))) = (self.is_noted.get_mut(place), self.results.get_mut(place)) {
            (*is_noted, *open) = (true, result);
            self.left -= 1;
        }
    }

    pub(super) fn note_all(&mut self, start: usize, end: usize, failure: Failure) {
        (start..end).for_each(|place| self.note(place, Err(failure)));
    }

    /// What came of a place, where that is a value.
    pub(super) fn value(&self, place: usize) -> Option<&Value> {
        self.results.get(place)?.1.as_ref().ok()
    }

    pub(super) const fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The place from `start` to `end` of a reference that has no result, looked for from `guess` on.
    pub(super) fn place_of(&self, reference: PropertyRef, start: usize, end: usize, guess: usize) -> Option<usize> {
        let is_meant = |place: &usize| {
            self.references.get(*place) == Some(&reference) && self.is_noted.get(*place) == Some(&false)
        };
        if guess < end && is_meant(&guess) { Some(guess) } else { (start..end).find(is_meant) }
    }

    pub(super) fn into_results(self) -> Vec<(PropertyRef, Result<Value, Failure>)> {
        self.results
    }
}

/// The event of an object list that was read by its elements.
pub(super) fn object_list(job: JobId, results: Vec<(PropertyRef, Result<Value, Failure>)>) -> DeviceEvent {
    let object = |(_, value)| match value {
        Ok(Value::ObjectId(object)) => Ok(object),
        Ok(_) => Err(Failure::Malformed),
        Err(failure) => Err(failure),
    };
    DeviceEvent::ObjectList { job, objects: results.into_iter().map(object).collect() }
}

/// The objects of an object list that was read as a whole.
pub(super) fn objects(value: Value) -> Result<Vec<ObjectId>, Failure> {
    let object = |value| if let Value::ObjectId(object) = value { Ok(object) } else { Err(Failure::Malformed) };
    value.into_list().into_iter().map(object).collect()
}

/// The event of what was learnt.
pub(super) fn learned(results: &[(PropertyRef, Result<Value, Failure>)]) -> DeviceEvent {
    DeviceEvent::Learned(Profile::of(results))
}

/// The records in an answer to ReadRange.
pub(super) fn log_part(parameters: &[u8]) -> Result<LogPart, Failure> {
    let ack = RangeAck::parse(parameters).map_err(|_| Failure::Malformed)?;
    let is_multiple = ack.reference.object.object_type() == ObjectType::TREND_LOG_MULTIPLE;
    let records = if is_multiple { log_multiple_records(ack.items) } else { log_records(ack.items) };
    let records = records.map_err(|_| Failure::Malformed)?;
    Ok(LogPart { records, first_sequence: ack.first_sequence, has_last: ack.has_last, has_more: ack.has_more })
}
