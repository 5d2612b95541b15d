//! The sender of a site: what it owes its centre, how much is on its way, and from where it goes on.
//!
//! ```text
//!            something is owed                 the mark                     read, sent, answered …
//!  (start) ─────────────────────▶ Asking ────────────────────▶ Flowing ───────────────────────────▶ Flowing
//!                                   ▲  ▲                         │ │
//!                                   │  └── no answer in time ────┘ │ busy, refused, centre away
//!                                   └──────── Resting ◀────────────┘
//! ```
//!
//! Records are not kept here: they are read from the site's journal whenever they are sent, also for the second time.

mod lane;
mod limits;

use self::lane::{Lane, Ready, State};
pub use self::limits::{Outgoing, Read, UpwardEvent, UpwardLimits, UpwardStats};
use crate::answer::{Answer, Outcome};
use crate::batch::{BatchWriter, Head, RECORDS_BYTES_MAX, push_record};
use crate::clock_offset::ClockOffset;
use crate::pace::Pace;
use crate::pause::about;
use crate::{Offset, Stream};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now, Random, Timestamp};

/// Events that nobody takes; the oldest is dropped above. What is acknowledged is always told.
const EVENTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Flight {
    stream: Stream,
    last: u64,
    bytes: usize,
    sent: Now,
    deadline: Instant,
    /// What the centre had acknowledged when it was sent: its mark is at least that when it answers.
    acknowledged: u64,
    is_question: bool,
}

/// The sender of a site.
#[derive(Debug)]
pub struct Upward {
    site: Box<str>,
    epoch: u64,
    limits: UpwardLimits,
    is_up: bool,
    /// Whether an epoch is needed: nothing is sent.
    is_stuck: bool,
    lanes: [Lane; 3],
    flights: BTreeMap<u64, Flight>,
    next_id: u64,
    pace: Pace,
    /// The virtual time of the link: what the last stream that was served had spent.
    spent: u64,
    /// Bytes of records for a byte that is sent, in eighths.
    ratio_eighths: usize,
    writer: BatchWriter,
    clock: ClockOffset,
    random: Random,
    events: VecDeque<UpwardEvent>,
    stats: UpwardStats,
}

impl Upward {
    /// The sender of a site whose numbers belong to an epoch: the time when they began, in microseconds, or higher where the centre knows a
    /// higher one. **No epoch is used twice**: a site that lost its journal, or was restored, begins another one, or the centre takes
    /// new records for those that it has. Pauses are spread by `seed`, so that sites do not come back together.
    #[must_use]
    pub fn new(site: &str, epoch: u64, limits: UpwardLimits, seed: u64) -> Self {
        Self {
            site: site.into(),
            epoch,
            limits,
            is_up: false,
            is_stuck: false,
            lanes: core::array::from_fn(|_| Lane::new()),
            flights: BTreeMap::new(),
            next_id: 0,
            pace: Pace::new(limits.pace),
            spent: 0,
            ratio_eighths: 8,
            writer: BatchWriter::default(),
            clock: ClockOffset::default(),
            random: Random::new(seed),
            events: VecDeque::new(),
            stats: UpwardStats::default(),
        }
    }

    /// Counts numbers from 1 again, in a higher epoch that was never used: what was offered before is not sent any more.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.is_stuck = false;
        for stream in Stream::ALL {
            self.forget_flights(stream);
            *self.lane(stream) = Lane { spent: self.lanes[stream.place()].spent, ..Lane::new() };
        }
    }

    /// All records of a stream up to this number are on the site's disk, and may be sent.
    pub fn handle_durable(&mut self, stream: Stream, last: u64) {
        let lane = self.lane(stream);
        lane.offered = lane.offered.max(last);
    }

    /// The link to the centre is up or down. A link that only looks up is noticed when no answer comes.
    pub fn handle_link(&mut self, is_up: bool) {
        if is_up == self.is_up {
            return;
        }
        self.is_up = is_up;
        for stream in Stream::ALL {
            self.rewind(stream, State::Asking);
            self.lane(stream).failures = 0;
        }
    }

    /// What [`Upward::poll_read`] asked for. `first` is the number of the first record: above what was asked for, where the journal has
    /// no earlier one. None: they cannot be read, try again later.
    pub fn handle_records<R: AsRef<[u8]>>(&mut self, now: Instant, read: Read, first: u64, records: &[R]) {
        let stream = read.stream;
        let rest = now + about(self.limits.rest, &mut self.random);
        let lane = self.lane(stream);
        if lane.reading != Some(read.from) || first < read.from {
            return;
        }
        lane.reading = None;
        if records.is_empty() {
            self.rewind(stream, State::Resting(rest));
            return;
        }
        if first > read.from {
            self.lose(stream, read.from, first - 1);
        }
        let (body, count) = Self::join(records, self.limits.records_max);
        if count == 0 {
            self.lane(stream).next = first + 1;
            self.lose(stream, first, first);
            return;
        }
        let lane = self.lane(stream);
        let (last, lost) = (first - 1 + count, first - 1 - lane.after);
        (lane.next, lane.after) = (last + 1, last);
        self.make_ready(Head { site: "", stream, epoch: 0, first, lost, count }, &body);
    }

    /// The answer to a request.
    pub fn handle_answer(&mut self, now: Now, id: u64, body: &[u8]) {
        let Ok(answer) = Answer::parse(body) else {
            self.stats.ignored += 1;
            return;
        };
        let Some(flight) = self.flights.remove(&id) else {
            self.stats.ignored += 1;
            return;
        };
        self.clock.handle_exchange(flight.sent, answer.received, answer.sent, now);
        let held = u64::try_from(answer.sent.micros() - answer.received.micros()).unwrap_or(0);
        let link = now.mono.since(flight.sent.mono).saturating_sub(Duration::from_micros(held));
        self.pace.handle_answer(now.mono, flight.bytes, link);
        let lane = self.lane(flight.stream);
        lane.in_flight -= 1;
        match answer.outcome {
            Outcome::Stored | Outcome::NotStored => {
                lane.failures = 0;
                self.handle_mark(flight, answer);
            }
            Outcome::Busy => self.rest(now.mono, flight.stream),
            Outcome::OldEpoch => self.need_epoch(answer.mark.epoch),
            Outcome::WrongSite | Outcome::Illegal | Outcome::Full => {
                self.tell(UpwardEvent::Refused { stream: flight.stream, outcome: answer.outcome });
                let until = now.mono + about(self.limits.refused_rest, &mut self.random);
                self.rewind(flight.stream, State::Resting(until));
            }
        }
    }

    /// The clocks were compared by an exchange that carried no records: a site that owes nothing knows the centre's clock, too.
    pub fn handle_clock(&mut self, asked: Now, heard: Timestamp, now: Now) {
        self.clock.handle_exchange(asked, heard, heard, now);
    }

    /// Nobody takes a request: the centre is away.
    pub fn handle_away(&mut self, now: Instant, id: u64) {
        let Some(flight) = self.flights.remove(&id) else { return };
        self.pace.handle_gone(flight.bytes);
        self.lane(flight.stream).in_flight -= 1;
        self.rest(now, flight.stream);
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        for stream in Stream::ALL {
            if let State::Resting(until) = self.lane(stream).state
                && until <= now
            {
                self.lane(stream).state = State::Asking;
            }
            let of_stream = |flight: &Flight| flight.stream == stream && flight.deadline <= now;
            if self.flights.values().any(of_stream) {
                self.stats.silences += 1;
                self.pace.handle_silence(now);
                self.rewind(stream, State::Asking);
                self.lane(stream).failures += 1;
            }
        }
    }

    /// When [`Upward::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let resting = self.lanes.iter().filter_map(|lane| match lane.state {
            State::Resting(until) => Some(until),
            State::Asking | State::Flowing => None,
        });
        self.flights.values().map(|flight| flight.deadline).chain(resting).min()
    }

    /// The next records to read.
    pub fn poll_read(&mut self) -> Option<Read> {
        if !self.can_send() || !self.pace.has_room() {
            return None;
        }
        let in_flight_max = self.limits.in_flight_max;
        let stream = Stream::ALL.into_iter().find(|stream| self.lane(*stream).wants_records(in_flight_max))?;
        let bytes_max = (self.pace.batch_bytes() * self.ratio_eighths / 8).min(RECORDS_BYTES_MAX - 1024);
        let lane = self.lane(stream);
        lane.reading = Some(lane.next);
        Some(Read { stream, from: lane.next, bytes_max, records_max: self.limits.records_max })
    }

    /// The next request for the centre.
    pub fn poll_transmit(&mut self, now: Now) -> Option<Outgoing> {
        if !self.can_send() {
            return None;
        }
        for stream in Stream::ALL {
            if self.lane(stream).wants_question() {
                let lane = self.lane(stream);
                let (first, lost) = (lane.next, 0);
                self.make_ready(Head { site: "", stream, epoch: 0, first, lost, count: 0 }, &[]);
            }
        }
        let has_room = self.pace.has_room();
        let may_go = |ready: &Ready| ready.is_question || has_room;
        let waiting = Stream::ALL.into_iter().filter(|s| self.lanes[s.place()].ready.as_ref().is_some_and(may_go));
        let stream = waiting.min_by_key(|stream| self.lanes[stream.place()].spent.max(self.spent))?;
        let ready = self.lane(stream).ready.take()?;
        Some(self.send(now, stream, ready))
    }

    /// What happened since.
    pub fn poll_event(&mut self) -> Option<UpwardEvent> {
        let told = self.events.pop_front();
        told.or_else(|| {
            let stream = Stream::ALL.into_iter().find(|stream| self.lane(*stream).told < self.acknowledged(*stream))?;
            let lane = self.lane(stream);
            lane.told = lane.acknowledged;
            Some(UpwardEvent::Acknowledged { stream, upto: lane.acknowledged })
        })
    }

    /// Up to which number a stream is on the centre's disk, as far as the site knows.
    #[must_use]
    pub fn acknowledged(&self, stream: Stream) -> u64 {
        self.lanes[stream.place()].acknowledged
    }

    /// How far the centre's clock is from the site's.
    #[must_use]
    pub fn clock_offset(&self, now: Instant) -> Option<Offset> {
        self.clock.offset(now)
    }

    /// The round trip on the link, without the time that the centre took.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.pace.smoothed()
    }

    /// The bytes that may be on their way.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.pace.window()
    }

    /// How much happened.
    #[must_use]
    pub const fn stats(&self) -> UpwardStats {
        self.stats
    }

    fn can_send(&self) -> bool {
        self.is_up && !self.is_stuck
    }

    /// As many of the records as a batch takes: none where the first is too long.
    fn join<R: AsRef<[u8]>>(records: &[R], records_max: usize) -> (Vec<u8>, u64) {
        let (mut body, mut count) = (Vec::new(), 0);
        for record in records.iter().take(records_max).map(AsRef::as_ref) {
            if body.len() + record.len() + 10 > RECORDS_BYTES_MAX {
                break;
            }
            push_record(record, &mut body);
            count += 1;
        }
        (body, count)
    }

    fn lane(&mut self, stream: Stream) -> &mut Lane {
        &mut self.lanes[stream.place()]
    }

    fn send(&mut self, now: Now, stream: Stream, ready: Ready) -> Outgoing {
        let trip = self.pace.smoothed().unwrap_or_default() * 2;
        let base = self.limits.answer_timeout.max(trip);
        let lane = &mut self.lanes[stream.place()];
        let patience = lane.patience(base, self.limits.answer_timeout_max);
        let flight = Flight {
            stream,
            last: ready.last,
            bytes: ready.body.len(),
            sent: now,
            deadline: now.mono + patience,
            acknowledged: lane.acknowledged,
            is_question: ready.is_question,
        };
        // A stream that was idle has saved nothing.
        self.spent = self.spent.max(lane.spent);
        lane.spent = self.spent + (flight.bytes as u64 * 64) / stream.weight();
        lane.in_flight += 1;
        self.pace.handle_sent(flight.bytes);
        self.next_id += 1;
        self.flights.insert(self.next_id, flight);
        self.stats.sent += 1;
        self.stats.sent_bytes += flight.bytes as u64;
        Outgoing { id: self.next_id, stream, body: ready.body }
    }

    fn make_ready(&mut self, head: Head<'_>, records: &[u8]) {
        let head = Head { site: &self.site, epoch: self.epoch, ..head };
        let body = self.writer.emit_parts(head, records);
        if head.count > 0 {
            let ratio = (records.len() * 8 / body.len().max(1)).clamp(8, 64);
            self.ratio_eighths = (self.ratio_eighths * 3 + ratio) / 4;
            self.stats.records_bytes += records.len() as u64;
        }
        let (first, last) = (head.first, head.first - 1 + head.count);
        self.lane(head.stream).ready = Some(Ready { first, last, body, is_question: head.count == 0 });
    }

    /// The centre has told how far it is.
    fn handle_mark(&mut self, flight: Flight, answer: Answer) {
        let (stream, mark) = (flight.stream, answer.mark.number);
        if answer.mark.epoch != self.epoch {
            self.stats.ignored += 1;
            return;
        }
        let lane = &mut self.lanes[stream.place()];
        if mark > lane.offered {
            self.need_epoch(self.epoch);
            return;
        }
        if mark < flight.acknowledged {
            let from = lane.acknowledged;
            (lane.acknowledged, lane.told) = (mark, mark);
            self.tell(UpwardEvent::WentBack { stream, from, to: mark });
            self.rewind(stream, State::Flowing);
            return;
        }
        lane.acknowledged = lane.acknowledged.max(mark);
        let is_behind = lane.next <= mark || lane.ready.as_ref().is_some_and(|ready| ready.first <= mark);
        // What lies between the mark and this batch did not arrive.
        let is_gap = answer.outcome == Outcome::NotStored && mark < flight.last && !flight.is_question;
        if is_gap {
            self.rewind(stream, State::Flowing);
        } else if is_behind || (flight.is_question && lane.state == State::Asking) {
            lane.go_on_after(lane.acknowledged);
            lane.state = State::Flowing;
        }
    }

    fn need_epoch(&mut self, above: u64) {
        if !self.is_stuck {
            self.is_stuck = true;
            self.tell(UpwardEvent::EpochNeeded { above });
        }
    }

    fn rest(&mut self, now: Instant, stream: Stream) {
        let rest = self.limits.rest.saturating_mul(2_u32.saturating_pow(self.lanes[stream.place()].failures.min(16)));
        let until = now + about(rest.min(self.limits.rest_max), &mut self.random);
        self.rewind(stream, State::Resting(until));
        self.lane(stream).failures += 1;
    }

    /// Forgets what is on its way: answers to it say nothing any more.
    fn rewind(&mut self, stream: Stream, state: State) {
        self.forget_flights(stream);
        self.stats.rewinds += 1;
        self.lane(stream).rewind(state);
    }

    fn forget_flights(&mut self, stream: Stream) {
        let pace = &mut self.pace;
        self.flights.retain(|_, flight| {
            if flight.stream == stream {
                pace.handle_gone(flight.bytes);
            }
            flight.stream != stream
        });
        self.lane(stream).in_flight = 0;
    }

    /// Says once of each number that it is lost.
    fn lose(&mut self, stream: Stream, first: u64, last: u64) {
        let lane = self.lane(stream);
        let first = first.max(lane.lost_upto + 1);
        if first > last {
            return;
        }
        lane.lost_upto = last;
        self.stats.lost += last - first + 1;
        self.tell(UpwardEvent::Lost { stream, first, last });
    }

    fn tell(&mut self, event: UpwardEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

#[cfg(test)]
mod tests;
