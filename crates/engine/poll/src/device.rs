//! One device: its points, its polls, its health.

mod ends;
mod heartbeat;
mod plan;
mod points;
mod replace;

use self::points::{Held, UNTOLD};
use crate::gates::Shared;
use crate::outbox::{Document, Outbox, PollEvent};
use crate::rounds::Poll;
use crate::schedule::{NEVER, Timer, Timers, root_two};
use crate::{
    Collection, ConnectionHealth, DeviceCounts, DeviceHealth, DeviceSpec, DeviceState, Limits, LinkState, PointTable,
    PollClass, PollSpec, PollTimes, Publish, SpecError, Urgency,
};
use alloc::borrow::Cow;
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
/// Points beyond the table that are told of a device.
const NAMED_MAX: u64 = 8;

/// A poll that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    class: PollClass,
    part: u16,
    since: Instant,
    /// Where it takes room.
    shared: Shared,
}

/// Where a device stands among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shared: Shared,
    /// By which share of an interval its polls are shifted.
    pub(crate) fraction: u32,
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
    /// After what time the first point of any may be stale.
    stale_first: Option<Duration>,
    stats_every: Duration,
    poll_lost_after: Duration,
    collection: Collection,
    place: Place,
    polls: Box<[Poll]>,
    outstanding: Vec<Outstanding>,
    free_at: Instant,
    /// Whether it waits for its turn to be asked.
    is_ready: bool,
    /// Since when its polls do not go on; where they do, when they last began.
    paused_at: Instant,
    timeouts_in_row: u32,
    /// How often the interval is doubled; zero: the plan goes on.
    back_off: u32,
    /// The heartbeats before the next.
    beats: u32,
    /// Whether a heartbeat waits to be written.
    is_beating: bool,
    next_poll: Option<Timestamp>,
    last_error: Option<(Timestamp, Cow<'static, str>)>,
    /// Whether the text of the poll that is about to fail was told.
    is_error_told: bool,
    poll_times: PollTimes,
    connections: Box<[ConnectionHealth]>,
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
    pub(crate) fn new(
        now: Now,
        id: DeviceId,
        spec: DeviceSpec,
        place: Place,
        limits: &Limits,
    ) -> Result<Self, SpecError> {
        let Topics { points: topics, all, state, stats } = Topics::of(&spec)?;
        let DeviceSpec { table, polls, gap_min, slow_after, stale_after, publish, urgency, collection, .. } = spec;
        Ok(Self {
            id,
            points: table.points().iter().map(|_| Held::initial(now, publish.each)).collect(),
            topics,
            all_topic: all,
            state_topic: state,
            stats_topic: stats,
            table,
            publish,
            urgency,
            gap_min,
            slow_after,
            stale_after,
            stale_first: stale_first(stale_after, &collection, &polls),
            stats_every: limits.stats_every,
            poll_lost_after: limits.poll_lost_after,
            collection,
            place,
            polls: polls.iter().map(|poll| Poll::new(now.mono, *poll, fraction(place, poll.class))).collect(),
            outstanding: Vec::new(),
            free_at: now.mono,
            is_ready: false,
            paused_at: now.mono,
            timeouts_in_row: 0,
            back_off: 0,
            beats: 0,
            is_beating: false,
            next_poll: None,
            last_error: None,
            is_error_told: false,
            poll_times: PollTimes::default(),
            connections: Box::default(),
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
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
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
            next_poll: self.next_poll,
            back_off: self.back_off_every(),
            last_error: self.last_error.clone(),
            poll_times: self.poll_times,
            connections: self.connections.clone(),
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
            self.stop_polls(now, out);
            (self.restart, self.is_slow, self.is_noisy) = (Restart::None, false, false);
            (self.failures_in_row, self.garbage_in_row) = (0, 0);
        }
        let is_lost = !is_online && was == LinkState::Online;
        if is_lost || matches!(self.link, LinkState::Away { .. }) {
            self.mark(now, Quality::AWAY, Quality::AWAY, out);
        }
        self.refresh(now, out);
        if is_online && was != LinkState::Online {
            self.start_polls(now, out);
        }
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
        if let Some(after) = self.stale_first
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
                Timer::Lost => self.polls_lost(now, out),
                Timer::Probe => self.probe(now, out),
                Timer::Heartbeat => self.beat(now, out),
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

    /// None where it was made since it was asked for.
    pub(crate) fn document(&mut self, document: Document) -> Option<Update> {
        if self.documents & document.bit() == 0 {
            return None;
        }
        self.documents &= !document.bit();
        Some(match document {
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
        })
    }
}

/// The topics of a device.
struct Topics {
    /// One a point where each is published, otherwise none.
    points: Box<[Topic]>,
    all: Topic,
    state: Topic,
    stats: Topic,
}

impl Topics {
    fn of(spec: &DeviceSpec) -> Result<Self, SpecError> {
        let topic = &spec.topic;
        let below = |name: &str| topic.join(name).map_err(|error| SpecError::Name { name: name.into(), error });
        let system = |name: &str| {
            let text = alloc::format!("$SYS/devices/{topic}/{name}");
            Topic::new(&text).map_err(|error| SpecError::Name { name: text.into(), error })
        };
        let named = if spec.publish.each { spec.table.points() } else { &[] };
        let points = named.iter().map(|point| below(&point.name)).collect::<Result<_, _>>()?;
        Ok(Self { points, all: below("all")?, state: system("state")?, stats: system("stats")? })
    }
}

/// Each class of a device is shifted on its own.
fn fraction(place: Place, class: PollClass) -> u32 {
    place.fraction.wrapping_add(root_two(class.0.into()))
}

/// After what time a point that was read last with this class is stale, because so many polls were missed.
fn stale_missed(collection: &Collection, every: Duration) -> Option<Duration> {
    collection.stale_after_missed.map(|missed| every.saturating_mul(missed).saturating_add(every / 2))
}

fn stale_first(stale_after: Option<Duration>, collection: &Collection, polls: &[PollSpec]) -> Option<Duration> {
    let missed = polls.iter().filter_map(|poll| stale_missed(collection, poll.every)).min();
    stale_after.into_iter().chain(missed).min()
}

fn text_body(text: String) -> Body {
    Body::Opaque(Bytes::from(text))
}
