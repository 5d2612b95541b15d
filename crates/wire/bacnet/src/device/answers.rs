//! What answers do: a result of each property, or fewer properties in the next request.

use super::work::{self, Job, Purpose, Work};
use super::{Device, DeviceEvent, JobId, Profile};
use crate::client::Failure;
use crate::names::{AbortReason, ConfirmedService, RejectReason};
use crate::service::{ReadAck, ReadMultipleAck};
use crate::{ObjectId, PropertyId, PropertyRef, Value};
use alloc::vec::Vec;
use tieline_core::Now;

impl Device {
    pub(super) fn handle_answer(&mut self, now: Now, work: Work, result: Result<Vec<u8>, Failure>) {
        match work {
            Work::Read { job, start, end } => self.handle_read(job, start, end, result),
            Work::ObjectList(job) => self.handle_object_list(job, result),
            Work::Write(job, ..) => self.events.push_back(DeviceEvent::Written { job, result: result.map(|_| ()) }),
            Work::Log(job, ..) => {
                let part = result.and_then(|parameters| work::log_part(&parameters));
                self.events.push_back(DeviceEvent::Log { job, part });
            }
            Work::Subscribe(object) => self.handle_subscribed(now, object, result.map(|_| ())),
            Work::Unsubscribe(_) => {}
        }
    }

    fn handle_read(&mut self, job: JobId, start: usize, end: usize, result: Result<Vec<u8>, Failure>) {
        match result {
            Ok(parameters) if end - start == 1 => {
                let value = ReadAck::parse(&parameters).and_then(|ack| Value::decode(ack.value));
                if let Ok(Value::ObjectId(device)) = value {
                    self.learn_of(job, device);
                }
                self.note(job, start, value.map_err(|_| Failure::Malformed));
            }
            Ok(parameters) => self.note_multiple(job, start, end, &parameters),
            Err(failure) if end - start == 1 => match self.jobs.get_mut(&job) {
                // One that is silent, or does not say who it is, is not asked for the rest.
                Some(of_job) if of_job.purpose == Purpose::Learn && (start == 0 || failure.is_silence()) => {
                    of_job.note_all(start, of_job.references.len(), failure);
                }
                Some(of_job) => of_job.note(start, Err(failure)),
                None => {}
            },
            Err(failure) => match self.jobs.get_mut(&job) {
                Some(of_job) if of_job.purpose == Purpose::Learn && failure.is_silence() => {
                    of_job.note_all(start, of_job.references.len(), failure);
                }
                Some(_) | None => self.ask_less(job, start, end, failure),
            },
        }
        if self.jobs.get(&job).is_some_and(Job::is_done) {
            self.conclude(job);
        }
    }

    /// A device that was asked without its instance has said it: the rest is asked of it by name, as it answers.
    fn learn_of(&mut self, job: JobId, device: ObjectId) {
        if let Some(job) = self.jobs.get_mut(&job).filter(|job| job.purpose == Purpose::Learn) {
            job.rename(Profile::references(Some(device.instance())).into());
        }
    }

    fn note(&mut self, job: JobId, place: usize, result: Result<Value, Failure>) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.note(place, result);
        }
    }

    fn note_multiple(&mut self, job: JobId, start: usize, end: usize, parameters: &[u8]) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        let (mut results, mut guess) = (ReadMultipleAck::new(parameters), start);
        while let Some(Ok((reference, value))) = results.next_value() {
            if let Some(place) = job.place_of(reference, start, end, guess) {
                job.note(place, value.map_err(Failure::Error));
                guess = place + 1;
            }
        }
        job.note_all(start, end, Failure::Malformed);
    }

    /// Several properties failed together: they are asked for by fewer where that may help.
    fn ask_less(&mut self, job: JobId, start: usize, end: usize, failure: Failure) {
        let half = (end - start) / 2;
        match failure {
            Failure::Reject(RejectReason::UNRECOGNIZED_SERVICE) => self.reads_multiple = false,
            Failure::Abort(
                AbortReason::SEGMENTATION_NOT_SUPPORTED
                | AbortReason::BUFFER_OVERFLOW
                | AbortReason::OUT_OF_RESOURCES
                | AbortReason::APDU_TOO_LONG
                | AbortReason::OTHER,
            )
            | Failure::Reject(RejectReason::BUFFER_OVERFLOW | RejectReason::TOO_MANY_ARGUMENTS | RejectReason::OTHER)
            | Failure::AnswerTooLong => {
                // Words of any length are in what a device says of itself: the lengths of its values are known better.
                if self.jobs.get(&job).is_some_and(|job| job.purpose != Purpose::Learn) {
                    self.chunk_max = self.chunk_max.min(half.max(1));
                }
            }
            // Some devices answer with one error for all: the halves tell which property it is of.
            Failure::Error(_) | Failure::Reject(_) => {}
            Failure::Abort(_)
            | Failure::TimedOut
            | Failure::Unreachable(_)
            | Failure::Malformed
            | Failure::Cancelled => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.note_all(start, end, failure);
                }
                return;
            }
        }
        let middle = start + half;
        self.queue.push_front(Work::Read { job, start: middle, end });
        self.queue.push_front(Work::Read { job, start, end: middle });
    }

    fn handle_object_list(&mut self, job: JobId, result: Result<Vec<u8>, Failure>) {
        let objects = match result {
            Ok(parameters) => {
                let value = ReadAck::parse(&parameters).and_then(|ack| Value::decode(ack.value));
                value.map_err(|_| Failure::Malformed).and_then(work::objects)
            }
            Err(Failure::Abort(_) | Failure::Reject(_) | Failure::AnswerTooLong) => {
                return self.begin(job, Purpose::ObjectCount, [self.object_count()].into());
            }
            Err(failure) => Err(failure),
        };
        self.events.push_back(DeviceEvent::ObjectList { job, objects });
    }

    /// All results of a job are there.
    pub(super) fn conclude(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let purpose = job.purpose;
        let results = job.into_results();
        let event = match purpose {
            Purpose::Read => DeviceEvent::Read { job: id, results },
            Purpose::Learn => work::learned(&results),
            Purpose::ObjectList => work::object_list(id, results),
            Purpose::ObjectCount => match self.objects_to_read(&results) {
                Ok(references) => return self.begin(id, Purpose::ObjectList, references.into()),
                Err(failure) => DeviceEvent::ObjectList { job: id, objects: Err(failure) },
            },
        };
        if let DeviceEvent::Learned(Ok(profile)) = &event {
            self.reads_multiple = profile.has_service(ConfirmedService::READ_PROPERTY_MULTIPLE);
            self.profile = Some(profile.clone());
            self.has_learned = true;
        }
        self.events.push_back(event);
    }

    fn objects_to_read(&self, results: &[(PropertyRef, Result<Value, Failure>)]) -> Result<Vec<PropertyRef>, Failure> {
        let (_, value) = results.first().ok_or(Failure::Malformed)?;
        let count = value.as_ref().map_err(|failure| *failure)?.as_u32().ok_or(Failure::Malformed)?;
        if count > self.config.objects_max {
            return Err(Failure::AnswerTooLong);
        }
        let device = self.device_object();
        Ok((1..=count).map(|index| PropertyRef::element(device, PropertyId::OBJECT_LIST, index)).collect())
    }
}
