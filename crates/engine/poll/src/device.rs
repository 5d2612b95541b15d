//! One device: its points, its polls, its health.

mod plan;
mod points;

use self::points::{Held, UNTOLD};
use crate::outbox::{Document, Outbox, PollEvent};
use crate::schedule::{NEVER, Timer, Timers, next_on_grid};
use crate::{
    DeviceCounts, DeviceHealth, DeviceSpec, DeviceState, Limits, LinkState, PointTable, PollClass, PollResult, Publish,
    SpecError, Urgency,
};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use tieline_core::Timer as _;
use tieline_core::{Body, DeviceId, Instant, Now, Point, Quality, Reading, Timestamp, Topic, Update, Value};

/// The shortest time between two publications of a state.
const STATE_EVERY: Duration = Duration::from_secs(1);
/// How long garbage is remembered in the state.
const GARBAGE_HOLD: Duration = Duration::from_secs(10);
/// Garbage in a row, and nothing else, that makes values stale.
const GARBAGE_STALE: u32 = 3;
/// Polls failed in a row that make values stale.
const FAILURES_STALE: u32 = 2;
/// Points beyond the table that are told of a device.
const NAMED_MAX: u64 = 8;

#[derive(Debug)]
struct Poll {
    class: PollClass,
    every: Duration,
    due: Instant,
    /// Since when it waits for the device to be free.
    waits_since: Option<Instant>,
}

/// A poll that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    class: PollClass,
    since: Instant,
}

/// How far a device has come after it said that it restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    None,
    Said,
    BeingRead,
}

#[derive(Debug)]
pub(crate) struct Device {
    id: DeviceId,
    table: Arc<PointTable>,
    points: Box<[Held]>,
    /// One a point where each is published, otherwise none.
    topics: Box<[Topic]>,
    all_topic: Topic,
    state_topic: Topic,
    stats_topic: Topic,
    publish: Publish,
    urgency: Urgency,
    gap_min: Duration,
    slow_after: Option<Duration>,
    stale_after: Option<Duration>,
    stats_every: Duration,
    poll_lost_after: Duration,
    polls: Box<[Poll]>,
    outstanding: Option<Outstanding>,
    free_at: Instant,
    is_ready: bool,
    link: LinkState,
    restart: Restart,
    is_slow: bool,
    is_noisy: bool,
    failures_in_row: u32,
    garbage_in_row: u32,
    state: DeviceState,
    since: Timestamp,
    last_seen: Option<Timestamp>,
    rtt: Option<Duration>,
    counts: DeviceCounts,
    timers: Timers,
    /// The moment of the one valid entry in the heap.
    pub(crate) armed: Instant,
    sweep_from: Option<usize>,
    all_changed: bool,
    all_last: Option<Instant>,
    state_last: Instant,
    stats_last: Instant,
    documents: u8,
}

impl Device {
    pub(crate) fn new(now: Now, id: DeviceId, spec: DeviceSpec, limits: &Limits) -> Result<Self, SpecError> {
        spec.check()?;
        let DeviceSpec { topic, table, polls, gap_min, slow_after, stale_after, publish, urgency } = spec;
        let below = |name: &str| topic.join(name).map_err(|error| SpecError::Name { name: name.into(), error });
        let system = |name: &str| {
            let text = alloc::format!("$SYS/devices/{topic}/{name}");
            Topic::new(&text).map_err(|error| SpecError::Name { name: text.into(), error })
        };
        let named = if publish.each { table.points() } else { &[] };
        let topics = named.iter().map(|point| below(&point.name)).collect::<Result<Vec<_>, _>>()?;
        let initial = || Held {
            value: Value::Null,
            time: now.utc,
            seen: now.mono,
            quality: Quality::INITIAL,
            waits: publish.each,
        };
        let planned = |poll: crate::PollSpec| Poll {
            class: poll.class,
            every: poll.every,
            due: next_on_grid(now.mono, poll.every, id),
            waits_since: None,
        };
        Ok(Self {
            id,
            points: table.points().iter().map(|_| initial()).collect(),
            topics: topics.into(),
            all_topic: below("all")?,
            state_topic: system("state")?,
            stats_topic: system("stats")?,
            table,
            publish,
            urgency,
            gap_min,
            slow_after,
            stale_after,
            stats_every: limits.stats_every,
            poll_lost_after: limits.poll_lost_after,
            polls: polls.into_iter().map(planned).collect(),
            outstanding: None,
            free_at: now.mono,
            is_ready: false,
            link: LinkState::Connecting,
            restart: Restart::None,
            is_slow: false,
            is_noisy: false,
            failures_in_row: 0,
            garbage_in_row: 0,
            state: DeviceState::Connecting,
            since: now.utc,
            last_seen: None,
            rtt: None,
            counts: DeviceCounts::default(),
            timers: Timers::new(),
            armed: NEVER,
            sweep_from: None,
            all_changed: false,
            all_last: None,
            state_last: now.mono,
            stats_last: now.mono,
            documents: 0,
        })
    }

    /// Publishes that the device exists, before anything is known of it.
    pub(crate) fn start(&mut self, now: Now, out: &mut Outbox) {
        self.sweep(out);
        self.change_all(now);
        self.offer_all(now, out);
        self.queue(Document::State, out);
        self.queue(Document::Stats, out);
        self.plan_polls();
    }

    pub(crate) fn point_count(&self) -> usize {
        self.points.len()
    }

    pub(crate) fn health(&self) -> DeviceHealth {
        let why = if let LinkState::Away { why } = &self.link { why.clone() } else { Box::default() };
        DeviceHealth {
            state: self.state,
            why,
            since: self.since,
            last_seen: self.last_seen,
            rtt: self.rtt,
            counts: self.counts,
        }
    }

    // What comes from the field.

    pub(crate) fn link(&mut self, now: Now, link: LinkState, out: &mut Outbox) {
        let is_away = matches!(self.link, LinkState::Away { .. });
        // An attempt is no contact: a device that is away stays so, with the reason, until it speaks.
        if is_away && link == LinkState::Connecting {
            return;
        }
        if is_away && link != self.link {
            self.count(now);
        }
        let was = core::mem::replace(&mut self.link, link);
        let is_online = self.link == LinkState::Online;
        if is_online && was != LinkState::Online {
            self.counts.connects += 1;
        }
        if !is_online {
            if was == LinkState::Online {
                self.counts.losses += 1;
            }
            self.stop_polls();
            (self.restart, self.is_slow, self.is_noisy) = (Restart::None, false, false);
            (self.failures_in_row, self.garbage_in_row) = (0, 0);
        }
        let is_lost = !is_online && was == LinkState::Online;
        if is_lost || matches!(self.link, LinkState::Away { .. }) {
            self.mark(now, Quality::AWAY, Quality::AWAY, out);
        }
        self.refresh(now, out);
    }

    pub(crate) fn reading(&mut self, now: Now, reading: Reading, out: &mut Outbox) {
        self.see(now);
        let at = reading.point.0 as usize;
        let (Some(spec), Some(held)) = (self.table.get(reading.point), self.points.get_mut(at)) else {
            self.counts.unknown_readings += 1;
            if self.counts.unknown_readings <= NAMED_MAX {
                out.tell(PollEvent::UnknownPoint { device: self.id, point: reading.point });
            }
            return self.count(now);
        };
        self.counts.readings += 1;
        self.counts.events += u64::from(reading.event);
        held.seen = now.mono;
        let value = spec.scaled(reading.value);
        let is_same = !reading.event && held.quality == reading.quality && held.value == value;
        if !is_same || self.publish.unchanged {
            held.value = value;
            held.quality = reading.quality;
            held.time = reading.time.unwrap_or(now.utc);
            self.publish_point(at, out);
            self.change_all(now);
        }
        if self.restart == Restart::Said {
            self.restart = Restart::BeingRead;
        }
        if let Some(after) = self.stale_after
            && !self.timers.is_set(Timer::Stale)
        {
            self.timers.set(Timer::Stale, now.mono + after);
        }
        self.count(now);
    }

    pub(crate) fn batch_end(&mut self, now: Now, out: &mut Outbox) {
        if self.restart == Restart::BeingRead {
            self.restart = Restart::None;
            self.refresh(now, out);
        }
        self.offer_all(now, out);
    }

    pub(crate) fn poll_done(&mut self, now: Now, class: PollClass, result: PollResult, out: &mut Outbox) {
        let ended = self.outstanding.take_if(|poll| poll.class == class);
        self.counts.polls += 1;
        match result {
            PollResult::Ok => {
                self.see(now);
                self.failures_in_row = 0;
                self.restart = Restart::None;
                self.is_slow = false;
                if let Some(poll) = ended {
                    let rtt = now.mono.since(poll.since);
                    self.rtt = Some(rtt);
                    self.is_slow = self.slow_after.is_some_and(|limit| rtt > limit);
                }
            }
            PollResult::Timeout => {
                self.counts.timeouts += 1;
                self.poll_failed(now, out);
            }
            PollResult::Error => self.poll_failed(now, out),
        }
        if ended.is_some() {
            self.timers.clear(Timer::Lost);
            self.free_at = now.mono + self.gap_min;
        }
        self.count(now);
        self.refresh(now, out);
        self.offer_poll(now, out);
    }

    fn poll_failed(&mut self, now: Now, out: &mut Outbox) {
        self.counts.poll_failures += 1;
        self.failures_in_row = self.failures_in_row.saturating_add(1);
        self.is_slow = true;
        if self.failures_in_row == FAILURES_STALE {
            self.mark(now, Quality::STALE, UNTOLD, out);
        }
    }

    pub(crate) const fn note_authentication_failure(&mut self) {
        self.counts.authentication_failures += 1;
    }

    pub(crate) fn garbage(&mut self, now: Now, out: &mut Outbox) {
        self.counts.garbage += 1;
        self.garbage_in_row = self.garbage_in_row.saturating_add(1);
        self.is_noisy = true;
        self.timers.set(Timer::Calm, now.mono + GARBAGE_HOLD);
        if self.garbage_in_row == GARBAGE_STALE {
            self.mark(now, Quality::STALE, UNTOLD, out);
        }
        self.count(now);
        self.refresh(now, out);
    }

    /// The device has answered, with nothing to read.
    pub(crate) fn alive(&mut self, now: Now) {
        if self.link == LinkState::Online {
            self.last_seen = Some(now.utc);
            self.count(now);
        }
    }

    pub(crate) fn restarted(&mut self, now: Now, out: &mut Outbox) {
        self.counts.restarts += 1;
        self.restart = Restart::Said;
        self.mark(now, Quality::RESTART, Quality::INITIAL.with(Quality::AWAY), out);
        self.count(now);
        self.refresh(now, out);
    }

    // What time brings.

    pub(crate) fn timeout(&mut self, now: Now, out: &mut Outbox) {
        for timer in Timer::ALL {
            if !self.timers.take(*timer, now.mono) {
                continue;
            }
            match timer {
                Timer::Poll => self.polls_due(now, out),
                Timer::Gap => self.offer_poll(now, out),
                Timer::Lost => {
                    if let Some(poll) = self.outstanding {
                        self.poll_done(now, poll.class, PollResult::Timeout, out);
                    }
                }
                Timer::All => self.offer_all(now, out),
                Timer::State => {
                    self.state_last = now.mono;
                    self.queue(Document::State, out);
                }
                Timer::Stats => {
                    self.stats_last = now.mono;
                    self.queue(Document::Stats, out);
                }
                Timer::Stale => self.find_stale(now, out),
                Timer::Calm => {
                    self.is_noisy = false;
                    self.refresh(now, out);
                }
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Instant {
        self.timers.timeout().unwrap_or(NEVER)
    }

    // Health.

    fn see(&mut self, now: Now) {
        self.last_seen = Some(now.utc);
        self.garbage_in_row = 0;
    }

    /// Notes that a counter changed.
    fn count(&mut self, now: Now) {
        if !self.timers.is_set(Timer::Stats) {
            self.timers.set(Timer::Stats, now.mono.max(self.stats_last + self.stats_every));
        }
    }

    fn refresh(&mut self, now: Now, out: &mut Outbox) {
        let state = match &self.link {
            LinkState::Connecting => DeviceState::Connecting,
            LinkState::Away { .. } => DeviceState::Away,
            LinkState::Online if self.restart != Restart::None => DeviceState::Restarting,
            LinkState::Online if self.is_noisy => DeviceState::Garbage,
            LinkState::Online if self.is_slow => DeviceState::Slow,
            LinkState::Online => DeviceState::Online,
        };
        if state == self.state {
            return;
        }
        let from = core::mem::replace(&mut self.state, state);
        self.since = now.utc;
        self.count(now);
        out.tell(PollEvent::State { device: self.id, from, to: state, why: self.health().why });
        if !self.timers.is_set(Timer::State) {
            let at = now.mono.max(self.state_last + STATE_EVERY);
            self.timers.set(Timer::State, at);
            // The statistics say why.
            self.timers.set(Timer::Stats, at);
        }
    }

    // Documents.

    fn queue(&mut self, document: Document, out: &mut Outbox) {
        if self.documents & document.bit() == 0 {
            self.documents |= document.bit();
            out.lane(self.urgency).documents.push_back((self.id, document));
        }
    }

    pub(crate) fn document(&mut self, document: Document) -> Update {
        self.documents &= !document.bit();
        match document {
            Document::All => Update { topic: self.all_topic.clone(), body: text_body(self.all_json()) },
            Document::State => {
                let value = Value::from(self.state.name());
                let point = Point { value, quality: Quality::GOOD, time: self.since };
                Update { topic: self.state_topic.clone(), body: Body::Point(point) }
            }
            Document::Stats => {
                let mut json = String::with_capacity(320);
                self.health().write_json(&mut json);
                Update { topic: self.stats_topic.clone(), body: text_body(json) }
            }
        }
    }
}

fn text_body(text: String) -> Body {
    Body::Opaque(Bytes::from(text))
}
