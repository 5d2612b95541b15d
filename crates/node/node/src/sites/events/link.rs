//! One link: what is owed to the other end, and what is asked of it.

use super::EventsSeen;
use bytes::Bytes;
use std::time::Duration;
use tieline_core::{Filter, Instant};
use tieline_fabric::FabricError;
use tieline_relay::{Event, EventAnswer, EventOutbox, EventOutcome, Interest, OutboxLimits};

/// A message that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A batch.
    Batch(u64),
    /// What is wanted: which version of it.
    Interest(u64),
}

/// One end of a link.
#[derive(Debug)]
pub struct EventLink {
    outbox: EventOutbox,
    run: u64,
    /// What is wanted of the other end, how often that has changed, and whether the other end knows.
    want: Vec<Filter>,
    version: u64,
    is_told: bool,
    is_telling: bool,
    session: u64,
    tell_at: Instant,
    tell_every: Duration,
    is_up: bool,
    /// Whether it was said that the other end is lost, and whether another process is there, which was not said yet.
    is_doubted: bool,
    is_other: bool,
    /// The run of the other end; 0: it was not heard.
    peer_run: u64,
    /// What the other end wants, and when it said so last.
    asked: (u64, u64, Vec<Filter>),
    heard_at: Instant,
    received: u64,
    repeated: u64,
}

impl EventLink {
    /// A link over which nothing was sent.
    #[must_use]
    pub fn new(now: Instant, run: u64, limits: OutboxLimits, tell_every: Duration) -> Self {
        Self {
            outbox: EventOutbox::new(run, limits),
            run,
            want: Vec::new(),
            version: 0,
            is_told: false,
            is_telling: false,
            session: run,
            tell_at: now,
            tell_every,
            is_up: false,
            is_doubted: false,
            is_other: false,
            peer_run: 0,
            asked: (0, 0, Vec::new()),
            heard_at: now,
            received: 0,
            repeated: 0,
        }
    }

    /// All that is wanted of the other end.
    pub fn want(&mut self, now: Instant, filters: Vec<Filter>) {
        if self.want != filters {
            self.want = filters;
            self.tell_again(now);
        }
    }

    fn tell_again(&mut self, now: Instant) {
        self.version += 1;
        (self.is_told, self.tell_at) = (false, now);
    }

    /// Takes messages of this node.
    pub fn push_own(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.outbox.push_own(event));
    }

    /// Takes messages of another one.
    pub fn push(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.outbox.push(event));
    }

    /// The other end says something, in a run: so it is there.
    pub fn handle_heard(&mut self, now: Instant, run: u64) {
        self.heard_at = now;
        if self.peer_run != run {
            // It knows nothing of what was said to the process before it.
            self.tell_again(now);
            self.session = self.session.wrapping_add(u64::from(self.peer_run != 0));
            self.is_other |= self.peer_run != 0;
            self.peer_run = run;
        }
        self.set_up(true);
        self.outbox.handle_run(run);
    }

    /// Takes what the other end wants; true where that is news, and whether last values are asked for again.
    pub fn handle_interest(&mut self, now: Instant, interest: Interest) -> Option<(Vec<Filter>, bool)> {
        self.handle_heard(now, interest.run);
        let asked = (interest.run, interest.session, interest.filters);
        if self.asked == asked {
            return None;
        }
        let is_again = (self.asked.0, self.asked.1) != (asked.0, asked.1);
        self.asked = asked;
        Some((self.asked.2.clone(), is_again))
    }

    /// Counts what came.
    pub fn count(&mut self, received: usize, repeated: usize) {
        self.received += u64::try_from(received).unwrap_or(u64::MAX);
        self.repeated += u64::try_from(repeated).unwrap_or(u64::MAX);
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Sent, Vec<u8>)> {
        let is_needed = !self.is_told || !self.want.is_empty() || (!self.is_up && self.outbox.waiting().0 > 0);
        if is_needed && !self.is_telling && self.tell_at <= now {
            self.is_telling = true;
            let interest = Interest { run: self.run, session: self.session, filters: self.want.clone() };
            return Some((Sent::Interest(self.version), interest.emit()));
        }
        let (id, batch) = self.outbox.poll_transmit(now)?;
        Some((Sent::Batch(id), batch))
    }

    /// What became of it.
    pub fn handle_answer(&mut self, now: Instant, sent: Sent, answer: Result<Bytes, FabricError>) {
        let answer = answer.and_then(|bytes| {
            EventAnswer::parse(&bytes).map_err(|error| FabricError::Refused(format!("the answer: {error}")))
        });
        match (sent, answer) {
            (Sent::Interest(version), Ok(answer)) => {
                self.is_telling = false;
                let is_first = self.peer_run == 0;
                self.handle_heard(now, answer.run);
                let is_latest = version == self.version || (is_first && version + 1 == self.version);
                if answer.outcome == EventOutcome::Taken && is_latest {
                    (self.is_told, self.tell_at) = (true, now + self.tell_every);
                } else if answer.outcome != EventOutcome::Taken {
                    self.tell_at = now + self.tell_every;
                }
            }
            (Sent::Interest(_), Err(error)) => {
                self.is_telling = false;
                self.tell_at = now + self.tell_every;
                self.handle_away(&error);
            }
            (Sent::Batch(id), Ok(answer)) => {
                self.outbox.handle_answer(now, id, answer);
                self.handle_heard(now, answer.run);
            }
            (Sent::Batch(id), Err(error)) => {
                self.outbox.handle_silence(now, id, !matches!(error, FabricError::Nobody));
                self.handle_away(&error);
            }
        }
    }

    fn handle_away(&mut self, error: &FabricError) {
        if self.is_up {
            tracing::debug!(%error, "messages wait: the other end does not answer");
            // What it sent meanwhile may be missing.
            self.session = self.session.wrapping_add(1);
        }
        self.set_up(false);
    }

    fn set_up(&mut self, is_up: bool) {
        self.is_up = is_up;
        self.outbox.handle_link(is_up);
    }

    /// Whether what the other end sent is in doubt from here on: it was not heard for so long, or is another process. It is said once.
    pub fn poll_doubt(&mut self, now: Instant, silence: Duration) -> bool {
        let is_lost = !self.is_up && self.peer_run != 0 && now.since(self.heard_at) >= silence;
        let was_lost = std::mem::replace(&mut self.is_doubted, is_lost);
        std::mem::take(&mut self.is_other) || (is_lost && !was_lost)
    }

    /// When the other end was heard last.
    #[must_use]
    pub const fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Gives up all that waits, and what the other end wants.
    pub fn give_up(&mut self) {
        self.outbox.give_up();
        self.asked = (0, 0, Vec::new());
    }

    /// Filters that the other end wants.
    #[must_use]
    pub const fn asked(&self) -> usize {
        self.asked.2.len()
    }

    /// Filters that are wanted of the other end.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.want.len()
    }

    /// What is shown of it.
    #[must_use]
    pub fn seen(&self) -> EventsSeen {
        let (stats, (waiting, waiting_bytes)) = (self.outbox.stats(), self.outbox.waiting());
        EventsSeen {
            wanted: self.want.len(),
            asked: self.asked.2.len(),
            waiting,
            waiting_bytes,
            sent: stats.sent,
            lost: stats.lost,
            not_kept: stats.not_kept,
            received: self.received,
            repeated: self.repeated,
        }
    }
}
