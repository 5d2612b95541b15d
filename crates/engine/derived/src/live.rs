//! Samples as they come, put in order of time, and the results of all series that are calculated at each change.
//!
//! A sample waits for as long as its series says. Then all samples up to its time are taken, in order of time. One that comes
//! later than that is held for the results that follow, and has no result of its own.

use crate::changes::{Changes, Held};
use crate::reading::Reading;
use crate::series::Series;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Instant, Now, Point, Timestamp, Topic};

/// Samples of a series that wait for earlier ones.
pub const WAITING_MAX: usize = 10_000;
/// How far ahead of the clock the time of a sample may be: one of a clock that is wrong is not taken.
pub const AHEAD_MAX: Duration = Duration::from_secs(60);

/// How long samples wait beyond that of a series whose inputs are not known yet.
const UNSEEDED_MAX: Duration = Duration::from_secs(30);

/// What a series has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Results.
    pub results: u64,
    /// Results that are bad.
    pub bad: u64,
    /// Samples that came too late for a result of their own.
    pub late: u64,
    /// Samples whose time was too far ahead.
    pub ahead: u64,
    /// Samples that were taken early, because too many waited.
    pub early: u64,
}

#[derive(Debug)]
struct One {
    series: Series,
    print: u64,
    /// Results of earlier times are not made here.
    since: Timestamp,
    /// None: what the inputs held is not known yet, and samples wait.
    changes: Option<Changes>,
    waiting: BTreeMap<(Timestamp, u64), (usize, Reading)>,
    /// When samples have waited long enough, and their times.
    due: VecDeque<(Instant, Timestamp)>,
    /// Up to here all is done.
    done: Option<Timestamp>,
    counts: LiveCounts,
}

/// All series that are calculated at each change.
#[derive(Debug, Default)]
pub struct Live {
    all: Vec<One>,
    by_topic: HashMap<Topic, Vec<(usize, usize)>>,
    number: u64,
    /// When the next sample has waited long enough.
    next: Option<Instant>,
}

impl Live {
    /// Of no series.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes these series from here on, each with its fingerprint; those that are there already and have the same go on.
    pub fn replace(&mut self, series: impl IntoIterator<Item = (u64, Series)>) {
        let mut before: HashMap<Topic, One> = self.all.drain(..).map(|one| (one.series.topic.clone(), one)).collect();
        for (print, series) in series {
            let known = before.remove(&series.topic).filter(|one| one.print == print && one.series == series);
            self.all.push(known.unwrap_or_else(|| One::new(series, print)));
        }
        self.look();
        self.by_topic.clear();
        for (place, one) in self.all.iter().enumerate() {
            for (input, topic) in one.series.expression.inputs().iter().enumerate() {
                self.by_topic.entry(topic.clone()).or_default().push((place, input));
            }
        }
    }

    /// The topics that are taken.
    pub fn inputs(&self) -> impl Iterator<Item = &Topic> {
        self.by_topic.keys()
    }

    /// Has a series make the results of `since` and later, and says what its inputs held before.
    pub fn seed(&mut self, topic: &Topic, print: u64, since: Timestamp, held: Vec<Held>) {
        if let Some(one) = self.all.iter_mut().find(|one| one.series.topic == *topic && one.print == print) {
            one.since = since;
            one.changes = Some(Changes::new(&one.series.expression, held));
        }
        self.look();
    }

    /// Takes a sample.
    pub fn handle_sample(&mut self, now: Now, topic: &Topic, time: Timestamp, reading: Reading) {
        let Some(taken) = self.by_topic.get(topic) else { return };
        for (place, input) in taken {
            self.number += 1;
            if let Some(one) = self.all.get_mut(*place) {
                one.take(now, (time, self.number), *input, reading);
                let due = one.due.back().filter(|_| one.changes.is_some()).map(|due| due.0);
                let early = one.due.front().filter(|front| front.0 == Instant::ZERO).map(|front| front.0);
                self.next = self.next.into_iter().chain(due).chain(early).min();
            }
        }
    }

    /// When the next sample has waited long enough.
    #[must_use]
    pub const fn timeout(&self) -> Option<Instant> {
        self.next
    }

    fn look(&mut self) {
        let due = |one: &One| one.due.front().filter(|_| one.changes.is_some()).map(|due| due.0);
        self.next = self.all.iter().filter_map(due).min();
    }

    /// Gives the results that are due to `give`.
    pub fn poll(&mut self, now: Instant, mut give: impl FnMut(&Topic, Point)) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        for one in &mut self.all {
            one.poll(now, &mut give);
        }
        self.look();
    }

    /// What a series has done.
    #[must_use]
    pub fn counts(&self, topic: &Topic) -> Option<LiveCounts> {
        self.all.iter().find(|one| one.series.topic == *topic).map(|one| one.counts)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl One {
    fn new(series: Series, print: u64) -> Self {
        let (waiting, due, counts) = (BTreeMap::new(), VecDeque::new(), LiveCounts::default());
        Self { series, print, since: Timestamp::default(), changes: None, waiting, due, done: None, counts }
    }

    fn take(&mut self, now: Now, key: (Timestamp, u64), input: usize, reading: Reading) {
        let time = key.0;
        if time > now.utc.later(AHEAD_MAX) {
            self.counts.ahead += 1;
            return;
        }
        if self.changes.is_none() {
            self.forget_old(now.mono);
        }
        self.waiting.insert(key, (input, reading));
        self.due.push_back((now.mono + self.series.wait, time));
        if self.waiting.len() > WAITING_MAX {
            self.counts.early += 1;
            match (self.changes.is_some(), self.due.front_mut()) {
                (true, Some(due)) => due.0 = Instant::ZERO,
                // What was held is not known: the oldest is in it.
                _ => drop((self.waiting.pop_first(), self.due.pop_front())),
            }
        }
    }

    /// Where what was held is not known, samples wait for as long as it may take to find out.
    fn forget_old(&mut self, now: Instant) {
        let is_old = |due: &mut (Instant, Timestamp)| due.0 + UNSEEDED_MAX < now;
        let mut upto = None;
        while let Some((_, time)) = self.due.pop_front_if(is_old) {
            upto = upto.max(Some(time));
        }
        while let Some(entry) = self.waiting.first_entry().filter(|entry| Some(entry.key().0) <= upto) {
            entry.remove();
        }
    }

    fn poll(&mut self, now: Instant, give: &mut impl FnMut(&Topic, Point)) {
        let Some(changes) = &mut self.changes else { return };
        let mut upto = None;
        while let Some((_, time)) = self.due.pop_front_if(|due| due.0 <= now) {
            upto = upto.max(Some(time));
        }
        let Some(upto) = upto else { return };
        let Self { series, since, waiting, done, counts, .. } = self;
        let mut made = |point: Option<Point>| {
            if let Some(point) = point {
                counts.results += 1;
                counts.bad += u64::from(point.quality.validity() == tieline_core::Validity::Bad);
                give(&series.topic, point);
            }
        };
        let (mut late, before) = (0, *done);
        while let Some(entry) = waiting.first_entry().filter(|entry| entry.key().0 <= upto) {
            let ((time, _), (input, reading)) = entry.remove_entry();
            let is_late = before.is_some_and(|before| time <= before);
            if is_late || time < *since {
                late += u64::from(is_late);
                changes.hold(input, (time, reading));
            } else {
                made(changes.take(&series.expression, input, (time, reading)));
            }
        }
        made(changes.finish(&series.expression));
        counts.late += late;
        *done = before.max(Some(upto));
    }
}
