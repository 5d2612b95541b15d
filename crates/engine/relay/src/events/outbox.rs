//! What a link owes the other end: events by urgency, within a limit, one batch of each class on its way.

use super::{Event, EventAnswer, EventBatch, EventClass, EventOutcome};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Instant;

/// Bytes of a batch, by class. What is not urgent is sent in short batches, so that it does not hold up what is.
const BATCH_BYTES: [usize; EventClass::ALL.len()] = [64 << 10, 64 << 10, 16 << 10];
/// Events of a batch.
const BATCH_EVENTS: usize = 512;
/// How soon a batch without an answer is sent again; each time later.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(2)];

/// Limits of a link.
#[derive(Clone, Copy, Debug)]
pub struct OutboxLimits {
    /// Bytes of events that wait. Above it the oldest of the least urgent are given up.
    pub bytes_max: usize,
    /// Whether a batch without an answer is sent to the next process of the other end, too: somebody behind it knows what came before.
    pub sends_again: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Events that the other end has taken.
    pub sent: u64,
    /// Events that were given up: too much waited, too long, or nobody knows whether a process that ended took them.
    pub lost: u64,
    /// Events with QoS 0 that were published while the link was down: they do not wait.
    pub not_kept: u64,
    /// Batches that were sent again.
    pub again: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Event>,
    out: Option<Out>,
    resume_at: Option<Instant>,
    pause: Duration,
    /// The number of the last event of this node.
    last: u64,
}

/// A batch without an answer.
#[derive(Debug)]
struct Out {
    id: u64,
    events: Vec<Event>,
    /// Whether it waits for an answer now.
    is_on_way: bool,
    /// The run that it was sent to.
    sent_to: u64,
    /// A run that may have taken it.
    in_doubt: Option<u64>,
}

/// Events on their way to one other end.
#[derive(Debug)]
pub struct EventOutbox {
    limits: OutboxLimits,
    run: u64,
    /// The run at the other end.
    to: u64,
    is_up: bool,
    queues: [Queue; EventClass::ALL.len()],
    bytes: usize,
    last_id: u64,
    stats: OutboxStats,
}

impl EventOutbox {
    /// Nothing waits. `run` is that of this node.
    #[must_use]
    pub fn new(run: u64, limits: OutboxLimits) -> Self {
        let (queues, stats) = (Default::default(), OutboxStats::default());
        Self { limits, run, to: 0, is_up: false, queues, bytes: 0, last_id: 0, stats }
    }

    /// Counts since the start.
    #[must_use]
    pub const fn stats(&self) -> OutboxStats {
        self.stats
    }

    /// Events that wait, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let of = |queue: &Queue| queue.waiting.len() + queue.out.as_ref().map_or(0, |out| out.events.len());
        (self.queues.iter().map(of).sum(), self.bytes)
    }

    /// Takes an event of this node: it gets its number.
    pub fn push_own(&mut self, mut event: Event) {
        event.run = self.run;
        if let Some(queue) = self.queues.get_mut(event.class.place()) {
            queue.last += u64::from(!event.is_state);
            event.number = queue.last;
        }
        self.push(event);
    }

    /// Takes an event.
    pub fn push(&mut self, event: Event) {
        if !self.is_up && (event.qos == 0 || event.is_state) {
            // Last values are asked for again when the link is back.
            self.stats.not_kept += u64::from(!event.is_state);
            return;
        }
        if !event.fits() {
            self.stats.lost += 1;
            return;
        }
        self.bytes += event.bytes();
        if let Some(queue) = self.queues.get_mut(event.class.place()) {
            queue.waiting.push_back(event);
        }
        while self.bytes > self.limits.bytes_max {
            let least = self.queues.iter_mut().rev().find_map(|queue| queue.waiting.pop_front());
            let Some(given_up) = least else { return };
            self.bytes -= given_up.bytes();
            self.stats.lost += 1;
        }
    }

    /// The link is up, or down: then what has QoS 0 does not wait.
    pub fn handle_link(&mut self, is_up: bool) {
        if core::mem::replace(&mut self.is_up, is_up) == is_up {
            return;
        }
        for queue in &mut self.queues {
            queue.resume_at = None;
            queue.pause = PAUSES[0];
            if !is_up {
                let Self { bytes, stats, .. } = self;
                queue.waiting.retain(|event| {
                    let stays = event.qos > 0 && !event.is_state;
                    if !stays {
                        *bytes -= event.bytes();
                        stats.not_kept += u64::from(!event.is_state);
                    }
                    stays
                });
            }
        }
    }

    /// The other end runs as this.
    pub fn handle_run(&mut self, run: u64) {
        self.to = run;
        self.give_up_doubtful();
    }

    /// Gives up what a process that ended may have taken.
    fn give_up_doubtful(&mut self) {
        let Self { limits, to, queues, bytes, stats, .. } = self;
        for queue in queues.iter_mut().filter(|_| !limits.sends_again) {
            let is_doubtful = |out: &Out| !out.is_on_way && out.in_doubt.is_some_and(|other| other != *to);
            let lost = queue.out.take_if(|out| is_doubtful(out)).map(|out| out.events).unwrap_or_default();
            *bytes -= lost.iter().map(Event::bytes).sum::<usize>();
            stats.lost += u64::try_from(lost.len()).unwrap_or(u64::MAX);
        }
    }

    /// The next batch to be sent, with its number.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(u64, Vec<u8>)> {
        if !self.is_up {
            return None;
        }
        let Self { queues, run, to, last_id, .. } = self;
        for (class, queue) in EventClass::ALL.into_iter().zip(queues) {
            if queue.resume_at.is_some_and(|at| now < at) {
                continue;
            }
            if queue.out.is_none() && !queue.waiting.is_empty() {
                let limit = BATCH_BYTES.get(class.place()).copied().unwrap_or_default();
                queue.out = Some(Out { id: 0, events: queue.cut(limit), is_on_way: false, sent_to: 0, in_doubt: None });
            }
            let Some(out) = queue.out.as_mut().filter(|out| !out.is_on_way) else { continue };
            *last_id += 1;
            (out.id, out.is_on_way, out.sent_to) = (*last_id, true, *to);
            queue.resume_at = None;
            let events = out.events.clone();
            return Some((out.id, EventBatch { run: *run, to: *to, class, events }.emit()));
        }
        None
    }

    /// The other end has answered.
    pub fn handle_answer(&mut self, now: Instant, id: u64, answer: EventAnswer) {
        let to = self.to;
        let Some(queue) = self.queue_of(id) else { return };
        match answer.outcome {
            EventOutcome::Taken | EventOutcome::Refused => {
                let events = queue.out.take().map(|out| out.events).unwrap_or_default();
                queue.pause = PAUSES[0];
                self.bytes -= events.iter().map(Event::bytes).sum::<usize>();
                let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
                let is_taken = answer.outcome == EventOutcome::Taken;
                *(if is_taken { &mut self.stats.sent } else { &mut self.stats.lost }) += count;
            }
            EventOutcome::OtherRun => {
                if let Some(out) = &mut queue.out {
                    out.is_on_way = false;
                }
                // Without another run to send to, it would be sent again at once.
                queue.resume_at = (answer.run == to).then(|| now + PAUSES[0]);
            }
            EventOutcome::Later => queue.pause_until(now),
        }
        self.handle_run(answer.run);
    }

    /// No answer came. `is_sent`: the other end may have the batch all the same.
    pub fn handle_silence(&mut self, now: Instant, id: u64, is_sent: bool) {
        let Some(queue) = self.queue_of(id) else { return };
        // What names no run is taken by none.
        if let Some(out) = queue.out.as_mut().filter(|out| is_sent && out.sent_to != 0) {
            out.in_doubt = Some(out.sent_to);
        }
        queue.pause_until(now);
        self.stats.again += 1;
        self.give_up_doubtful();
    }

    /// When something is to be sent again.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let due = |queue: &Queue| queue.resume_at.filter(|_| queue.out.is_some());
        self.queues.iter().filter_map(due).min().filter(|_| self.is_up)
    }

    /// Gives up all that waits.
    pub fn give_up(&mut self) {
        let (count, _) = self.waiting();
        self.stats.lost += u64::try_from(count).unwrap_or(u64::MAX);
        for queue in &mut self.queues {
            queue.waiting.clear();
            queue.out = None;
        }
        self.bytes = 0;
    }

    /// All that waits, and what has no answer.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Event> {
        self.queues.iter().flat_map(|queue| queue.waiting.iter().chain(queue.out.iter().flat_map(|out| &out.events)))
    }

    fn queue_of(&mut self, id: u64) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| queue.out.as_ref().is_some_and(|out| out.id == id && out.is_on_way))
    }
}

impl Queue {
    /// The first events, as many as a batch has.
    fn cut(&mut self, bytes_max: usize) -> Vec<Event> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(event) = self.waiting.pop_front() {
            if !events.is_empty() && (bytes + event.bytes() > bytes_max || events.len() >= BATCH_EVENTS) {
                self.waiting.push_front(event);
                break;
            }
            bytes += event.bytes();
            events.push(event);
        }
        events
    }

    fn pause_until(&mut self, now: Instant) {
        let [first, last] = PAUSES;
        self.pause = self.pause.clamp(first, last);
        self.resume_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(last);
        if let Some(out) = &mut self.out {
            out.is_on_way = false;
        }
    }
}
