//! One device of a client: learns what it takes, reads many properties by as few requests as it takes, keeps
//! subscriptions alive.
//!
//! The owner gives every [`Event`] of the client to the device of that peer ([`Device::handle_event`]), calls
//! [`Device::handle_timeout`] when [`Device::timeout`] has passed, and takes [`Device::poll_event`].
//!
//! A request is cut to what the device takes, whatever segments it supports: some drop a longer one without a word. Where
//! an answer does not fit, the device is asked for half, and for no more than that again.

mod answers;
mod config;
mod plan;
mod profile;
mod subscriptions;
mod work;

pub use config::DeviceConfig;
pub use profile::Profile;

use crate::client::{Change, Client, Event, Failure, PeerLimits, Request, RequestError, RequestId};
use crate::service::{LogRecord, Range, RangeRequest, Subscription, Write};
use crate::{INSTANCE_ANY, ObjectId, Peer, PropertyId, PropertyRef, Value};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;
use subscriptions::Subscriptions;
use tieline_core::{Instant, Now};
use work::{Job, Purpose, Work};

/// How soon a client that was full is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A job of a device, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A part of a trend log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPart {
    /// The records, the oldest first.
    pub records: Vec<LogRecord>,
    /// The sequence number of the first; a range by position has none.
    pub first_sequence: Option<u32>,
    /// Whether the newest record is among them.
    pub has_last: bool,
    /// Whether more was asked for than fitted.
    pub has_more: bool,
}

/// What the owner of a device learns.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceEvent {
    /// What the device says of itself, or why it does not.
    Learned(Result<Profile, Failure>),
    /// Each property that was asked for, in that order.
    Read {
        /// Which job.
        job: JobId,
        /// The value, or why there is none, of each.
        results: Vec<(PropertyRef, Result<Value, Failure>)>,
    },
    /// The objects of the device.
    ObjectList {
        /// Which job.
        job: JobId,
        /// The objects, or why there are none.
        objects: Result<Vec<ObjectId>, Failure>,
    },
    /// What a write came to.
    Written {
        /// Which job.
        job: JobId,
        /// Why the device did not take it.
        result: Result<(), Failure>,
    },
    /// Records of a trend log.
    Log {
        /// Which job.
        job: JobId,
        /// The records, or why there are none.
        part: Result<LogPart, Failure>,
    },
    /// The device tells changes of the object from here on.
    Subscribed(ObjectId),
    /// The device does not tell changes of the object (any more); it may be asked again by itself.
    NotSubscribed(ObjectId, Failure),
    /// Values have changed.
    Changed(Change),
}

/// One device: see the head of the module.
#[derive(Debug)]
pub struct Device {
    peer: Peer,
    instance: Option<u32>,
    config: DeviceConfig,
    profile: Option<Profile>,
    /// The client has not been told the limits of the profile.
    has_learned: bool,
    /// It has ReadPropertyMultiple, as far as is known.
    reads_multiple: bool,
    /// Properties in one request at most: less after an answer that did not fit.
    chunk_max: usize,
    next_job: u64,
    jobs: BTreeMap<JobId, Job>,
    queue: VecDeque<Work>,
    /// As many as may be on their way, which are few.
    sent: Vec<(RequestId, Work)>,
    subscriptions: Subscriptions,
    again_at: Option<Instant>,
    events: VecDeque<DeviceEvent>,
}

impl Device {
    /// A device of which nothing is known but where it is, and perhaps its instance.
    #[must_use]
    pub fn new(peer: Peer, instance: Option<u32>, config: DeviceConfig) -> Self {
        Self {
            peer,
            instance,
            profile: None,
            has_learned: false,
            reads_multiple: true,
            chunk_max: config.chunk_max.max(1),
            next_job: 0,
            jobs: BTreeMap::new(),
            queue: VecDeque::new(),
            sent: Vec::new(),
            subscriptions: Subscriptions::default(),
            again_at: None,
            events: VecDeque::new(),
            config,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// What it said of itself.
    #[must_use]
    pub const fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Asks the device about itself; [`DeviceEvent::Learned`] tells. To be done first: without it, little is expected.
    ///
    /// # Errors
    /// Too much waits.
    pub fn learn(&mut self, now: Now, client: &mut Client) -> Result<JobId, RequestError> {
        self.start(now, client, Purpose::Learn, Profile::references(self.instance).into())
    }

    /// Reads properties; [`DeviceEvent::Read`] tells all results at once. Properties of one object are best put together.
    ///
    /// # Errors
    /// Too much waits.
    pub fn read(
        &mut self,
        now: Now,
        client: &mut Client,
        references: impl Into<Rc<[PropertyRef]>>,
    ) -> Result<JobId, RequestError> {
        self.start(now, client, Purpose::Read, references.into())
    }

    /// How many of these, from the first on, one request reads: as many as fit what the device takes.
    #[must_use]
    pub fn fitting(&self, references: &[PropertyRef]) -> usize {
        let max_apdu = self.limits().max_apdu.into();
        plan::chunk(references, max_apdu, max_apdu, if self.reads_multiple { self.chunk_max } else { 1 })
    }

    /// Reads the list of objects: as a whole where the device sends segments, else element by element.
    ///
    /// # Errors
    /// Too much waits.
    pub fn read_object_list(&mut self, now: Now, client: &mut Client) -> Result<JobId, RequestError> {
        if !self.profile.as_ref().is_some_and(|profile| profile.limits.segmentation.transmits()) {
            return self.start(now, client, Purpose::ObjectCount, [self.object_count()].into());
        }
        let job = self.new_job()?;
        self.queue.push_back(Work::ObjectList(job));
        self.pump(now, client);
        Ok(job)
    }

    /// Writes a property, before all that waits. Where its turn does not come before `until`, it is not sent, and ends with
    /// [`Failure::Cancelled`].
    ///
    /// # Errors
    /// Too much waits.
    pub fn write(
        &mut self,
        now: Now,
        client: &mut Client,
        write: Write,
        until: Option<Instant>,
    ) -> Result<JobId, RequestError> {
        let job = self.new_job()?;
        self.queue.push_front(Work::Write(job, write, until));
        self.pump(now, client);
        Ok(job)
    }

    /// Reads records of a trend log.
    ///
    /// # Errors
    /// Too much waits.
    pub fn read_log(
        &mut self,
        now: Now,
        client: &mut Client,
        log: ObjectId,
        range: Option<Range>,
    ) -> Result<JobId, RequestError> {
        let job = self.new_job()?;
        self.queue.push_back(Work::Log(job, PropertyRef::new(log, PropertyId::LOG_BUFFER), range));
        self.pump(now, client);
        Ok(job)
    }

    /// Takes an event of the client, and gives it back where it is not about this device's work; changed values also where
    /// too many events have not been taken.
    pub fn handle_event(&mut self, now: Now, client: &mut Client, event: Event) -> Option<Event> {
        match event {
            Event::Answer { id, peer, service, result } => {
                let Some(place) = self.sent.iter().position(|(sent, _)| *sent == id) else {
                    return Some(Event::Answer { id, peer, service, result });
                };
                let (_, work) = self.sent.swap_remove(place);
                self.handle_answer(now, work, result);
                self.pump(now, client);
                None
            }
            Event::Changed(peer, change)
                if peer == self.peer
                    && change.process == self.config.process
                    && self.events.len() < self.config.queue_max =>
            {
                self.events.push_back(DeviceEvent::Changed(change));
                None
            }
            event => Some(event),
        }
    }

    /// Lets deadlines that have passed take effect. Harmless when none has.
    pub fn handle_timeout(&mut self, now: Now, client: &mut Client) {
        self.renew(now);
        self.pump(now, client);
    }

    /// When `handle_timeout` must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        [self.again_at, self.subscriptions.timeout()].into_iter().flatten().min()
    }

    /// The next thing that the owner must know.
    pub fn poll_event(&mut self) -> Option<DeviceEvent> {
        self.events.pop_front()
    }

    /// Whether nothing waits and nothing is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.sent.is_empty()
    }

    fn new_job(&mut self) -> Result<JobId, RequestError> {
        if self.queue.len() >= self.config.queue_max || self.jobs.len() >= self.config.queue_max {
            return Err(RequestError::QueueFull);
        }
        self.next_job += 1;
        Ok(JobId(self.next_job))
    }

    fn start(
        &mut self,
        now: Now,
        client: &mut Client,
        purpose: Purpose,
        references: Rc<[PropertyRef]>,
    ) -> Result<JobId, RequestError> {
        let job = self.new_job()?;
        self.begin(job, purpose, references);
        self.pump(now, client);
        Ok(job)
    }

    fn begin(&mut self, job: JobId, purpose: Purpose, references: Rc<[PropertyRef]>) {
        let end = references.len();
        self.jobs.insert(job, Job::new(purpose, references));
        if end == 0 {
            return self.conclude(job);
        }
        self.queue.push_back(Work::Read { job, start: 0, end });
    }

    /// What it takes, as far as is known.
    fn limits(&self) -> PeerLimits {
        self.profile.as_ref().map(|profile| profile.limits).unwrap_or_default()
    }

    fn object_count(&self) -> PropertyRef {
        PropertyRef::element(self.device_object(), PropertyId::OBJECT_LIST, 0)
    }

    fn device_object(&self) -> ObjectId {
        let learned = self.profile.as_ref().map(|profile| profile.instance);
        ObjectId::device(learned.or(self.instance).unwrap_or(INSTANCE_ANY))
    }

    /// Gives the client what waits, as much as may be on its way.
    fn pump(&mut self, now: Now, client: &mut Client) {
        self.again_at = None;
        if self.queue.is_empty() && !core::mem::take(&mut self.has_learned) {
            return;
        }
        if let Some(profile) = self.profile.as_ref().filter(|profile| profile.limits != client.limits(&self.peer)) {
            client.set_limits(self.peer, profile.limits);
        }
        while self.sent.len() < self.config.in_flight.max(1) {
            let Some(work) = self.queue.pop_front() else { return };
            let Some(work) = self.cut(now, work) else { continue };
            match self.send(now, client, &work) {
                Ok(id) => self.sent.push((id, work)),
                Err(RequestError::TooLong { .. }) => self.handle_answer(now, work, Err(Failure::AnswerTooLong)),
                Err(_) => {
                    self.queue.push_front(work);
                    self.again_at = Some(now.mono + AGAIN);
                    return;
                }
            }
        }
    }

    /// Cuts a read to what one request may ask; the rest waits behind it. None where the work is no longer wanted.
    fn cut(&mut self, now: Now, work: Work) -> Option<Work> {
        match work {
            Work::Read { job, start, end } => {
                let of_job = self.jobs.get(&job)?;
                let references = of_job.references.get(start..end)?;
                let max_apdu = match of_job.purpose {
                    // Until it has said what it takes, it is asked for one at a time.
                    Purpose::Learn => Profile::reads_multiple_of(|place| of_job.value(place)),
                    Purpose::Read | Purpose::ObjectCount | Purpose::ObjectList => {
                        self.reads_multiple.then(|| self.limits().max_apdu)
                    }
                };
                let fitting = |bytes: u16| plan::chunk(references, bytes.into(), bytes.into(), self.chunk_max);
                let count = max_apdu.map_or(1, fitting);
                let cut = (start + count).min(end);
                if cut < end {
                    self.queue.push_front(Work::Read { job, start: cut, end });
                }
                Some(Work::Read { job, start, end: cut })
            }
            Work::Subscribe(object) => self.wants(&object).then_some(Work::Subscribe(object)),
            Work::Write(job, _, Some(until)) if until <= now.mono => {
                self.events.push_back(DeviceEvent::Written { job, result: Err(Failure::Cancelled) });
                None
            }
            work @ (Work::ObjectList(_) | Work::Write(..) | Work::Log(..) | Work::Unsubscribe(_)) => Some(work),
        }
    }

    fn send(&self, now: Now, client: &mut Client, work: &Work) -> Result<RequestId, RequestError> {
        let subscription = |object: &ObjectId, wanted| {
            Request::Subscribe(Subscription { process: self.config.process, object: *object, wanted })
        };
        let request = match work {
            Work::Read { job, start, end } => {
                let references = self.jobs.get(job).and_then(|job| job.references.get(*start..*end));
                match references.unwrap_or_default() {
                    [reference] => Request::Read(*reference),
                    references => Request::ReadMultiple(references),
                }
            }
            Work::ObjectList(_) => Request::Read(PropertyRef::new(self.device_object(), PropertyId::OBJECT_LIST)),
            Work::Write(_, write, _) => Request::Write(write),
            Work::Log(_, reference, range) => Request::ReadRange(RangeRequest { reference: *reference, range: *range }),
            Work::Subscribe(object) => subscription(object, Some((self.config.confirmed, self.config.lifetime_s))),
            Work::Unsubscribe(object) => subscription(object, None),
        };
        client.request(now, self.peer, request)
    }
}
