//! What a link brings: each event once.

use super::{Event, EventAnswer, EventBatch, EventClass, EventOutcome};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Runs of a source that are known to be over: what comes late of them is not taken.
const FORMER_MAX: usize = 4;

/// How far the events of one source came.
#[derive(Clone, Copy, Debug, Default)]
struct EventMark {
    run: u64,
    number: u64,
    former: [u64; FORMER_MAX],
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxStats {
    /// Events that were taken.
    pub taken: u64,
    /// Events that were here before, or are older than what is here.
    pub repeated: u64,
    /// Events of more sources than are known at a time.
    pub refused: u64,
}

/// The events of all sources, as far as they came.
#[derive(Debug)]
pub struct EventInbox {
    run: u64,
    sources_max: usize,
    marks: HashMap<Arc<str>, [EventMark; EventClass::ALL.len()]>,
    stats: InboxStats,
}

impl EventInbox {
    /// Nothing came, in this run, of any of so many sources.
    #[must_use]
    pub fn new(run: u64, sources_max: usize) -> Self {
        Self { run, sources_max, marks: HashMap::new(), stats: InboxStats::default() }
    }

    /// Counts since the start.
    #[must_use]
    pub const fn stats(&self) -> InboxStats {
        self.stats
    }

    /// Takes a batch; on the first hop, of the site that the link is of. The answer is to be sent once the events are taken.
    pub fn handle_batch(&mut self, of_site: Option<&Arc<str>>, batch: EventBatch) -> (EventAnswer, Vec<Event>) {
        let answer = |outcome| EventAnswer { outcome, run: self.run };
        if batch.to != self.run {
            return (answer(EventOutcome::OtherRun), Vec::new());
        }
        let answer = answer(EventOutcome::Taken);
        let mut events = batch.events;
        if let Some(site) = of_site {
            events.iter_mut().for_each(|event| event.source = Arc::clone(site));
        }
        events.retain(|event| self.takes(event));
        (answer, events)
    }

    fn takes(&mut self, event: &Event) -> bool {
        if self.marks.len() >= self.sources_max && !self.marks.contains_key(&event.source) {
            self.stats.refused += 1;
            return false;
        }
        let marks = self.marks.entry(Arc::clone(&event.source)).or_default();
        let Some(mark) = marks.get_mut(event.class.place()) else { return false };
        let is_new = mark.takes(event);
        *(if is_new { &mut self.stats.taken } else { &mut self.stats.repeated }) += 1;
        is_new
    }
}

impl EventMark {
    fn takes(&mut self, event: &Event) -> bool {
        if event.run != self.run {
            if self.former.contains(&event.run) && event.run != 0 {
                return false;
            }
            self.former.rotate_right(1);
            if let Some(first) = self.former.first_mut() {
                *first = self.run;
            }
            (self.run, self.number) = (event.run, event.number);
            return true;
        }
        let is_new = if event.is_state { event.number >= self.number } else { event.number > self.number };
        if is_new {
            self.number = event.number;
        }
        is_new
    }
}
