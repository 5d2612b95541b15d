//! The same alarms a second time: every row keeps what it waits for, and whatever is asked is found by looking at all of them.

use crate::{Kind, Settings};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now, Quality, Timestamp, Validity};

/// One alarm.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) topic: &'static str,
    pub(super) kind: Kind,
    pub(super) limit: f64,
    pub(super) hysteresis: f64,
    pub(super) on_delay: Duration,
    pub(super) off_delay: Duration,
    pub(super) latches: bool,
    /// The names of the places above it, the nearest first.
    pub(super) above: &'static [&'static str],
    pub(super) is_place: bool,
    pub(super) suppressed_by: Option<&'static str>,
    pub(super) condition: bool,
    pub(super) active: bool,
    pub(super) unacked: bool,
    pub(super) latched: bool,
    pub(super) suppressed: bool,
    pub(super) chattering: bool,
    pub(super) uncertain: bool,
    pub(super) shelf: Option<(Instant, Timestamp, bool)>,
    pub(super) service: Option<Option<(Instant, Timestamp)>>,
    pub(super) cause: Option<usize>,
    pub(super) occurrences: u64,
    pub(super) annunciations: u64,
    pub(super) delay: Option<Instant>,
    pub(super) raised_at: Option<Instant>,
    pub(super) activations: Vec<Instant>,
    pub(super) chatter_end: Option<Instant>,
    pub(super) release: Option<Instant>,
}

impl Row {
    pub(super) fn new(topic: &'static str, kind: Kind, above: &'static [&'static str]) -> Self {
        Self {
            topic,
            kind,
            limit: 0.0,
            hysteresis: 0.0,
            on_delay: Duration::ZERO,
            off_delay: Duration::ZERO,
            latches: false,
            above,
            is_place: false,
            suppressed_by: None,
            condition: false,
            active: false,
            unacked: false,
            latched: false,
            suppressed: false,
            chattering: false,
            uncertain: false,
            shelf: None,
            service: None,
            cause: None,
            occurrences: 0,
            annunciations: 0,
            delay: None,
            raised_at: None,
            activations: Vec::new(),
            chatter_end: None,
            release: None,
        }
    }

    pub(super) const fn is_normal(&self) -> bool {
        !self.active && !self.unacked && !self.latched && self.shelf.is_none() && self.service.is_none()
    }

    const fn is_audible(&self) -> bool {
        self.cause.is_none() && self.shelf.is_none() && self.service.is_none() && !self.suppressed
    }

    /// What the row waits for, in the order in which it is done.
    fn deadlines(&self) -> [Option<Instant>; 5] {
        let service = self.service.flatten().map(|(at, _)| at);
        [self.delay, self.shelf.map(|(at, _, _)| at), service, self.chatter_end, self.release]
    }
}

/// All alarms.
#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) rows: Vec<Row>,
    pub(super) settings: Settings,
}

impl Oracle {
    /// Does what is due up to a time, the earliest first.
    pub(super) fn advance(&mut self, from: Now, to: Instant) {
        loop {
            let due = self.rows.iter().enumerate().flat_map(|(row, it)| {
                let waits = it.deadlines().into_iter().enumerate();
                waits.filter_map(move |(what, at)| at.map(|at| (at, row, what)))
            });
            let Some((at, row, what)) = due.min().filter(|(at, _, _)| *at <= to) else { return };
            let now = from.later(at.since(from.mono));
            let it = &mut self.rows[row];
            match what {
                0 => {
                    it.delay = None;
                    let is_on = it.condition;
                    if is_on { self.raise(now, row) } else { self.come_back(now, row) }
                }
                1 => self.end_shelf(row),
                2 => self.end_service(row),
                3 => {
                    (it.chatter_end, it.chattering) = (None, false);
                    it.activations.clear();
                    self.sweep();
                }
                _ => self.release(now, row),
            }
        }
    }

    pub(super) fn value(&mut self, now: Now, topic: &str, value: f64, quality: Quality) {
        let is_bad = quality.validity() == Validity::Bad;
        for row in 0..self.rows.len() {
            let it = &self.rows[row];
            if it.topic != topic || it.is_place {
                continue;
            }
            let back = if it.active { it.hysteresis } else { 0.0 };
            let seen = match it.kind {
                _ if quality.contains(Quality::INITIAL) => None,
                Kind::Away => Some(quality.contains(Quality::AWAY)),
                Kind::Bad => Some(is_bad),
                _ if is_bad => None,
                Kind::State => Some(value == it.limit),
                _ => Some(value > it.limit - back),
            };
            match seen {
                Some(is_on) => self.settle(now, row, is_on),
                None => (self.rows[row].uncertain, self.rows[row].delay) = (true, None),
            }
        }
        for row in 0..self.rows.len() {
            if self.rows[row].suppressed_by == Some(topic) && !is_bad {
                let is_on = value == 1.0;
                let was = core::mem::replace(&mut self.rows[row].suppressed, is_on);
                if was && !is_on && !self.rows[row].is_normal() {
                    self.hear(row);
                }
            }
        }
    }

    pub(super) fn presence(&mut self, now: Now, place: &str, is_reached: bool) {
        let row = self.rows.iter().position(|row| row.is_place && row.topic == place).unwrap();
        self.settle(now, row, !is_reached);
    }

    fn settle(&mut self, now: Now, row: usize, is_on: bool) {
        let it = &mut self.rows[row];
        (it.uncertain, it.condition) = (false, is_on);
        if it.active == is_on {
            it.delay = None;
            return;
        }
        let delay = if is_on { it.on_delay } else { it.off_delay };
        if !delay.is_zero() {
            it.delay = it.delay.or(Some(now.mono + delay));
        } else if is_on {
            it.delay = None;
            self.raise(now, row);
        } else {
            it.delay = None;
            self.come_back(now, row);
        }
    }

    fn raise(&mut self, now: Now, row: usize) {
        let time = self.settings.chatter_time;
        let above = self.above(row);
        let keeps = self.rows[row].cause.filter(|cause| self.rows[*cause].active);
        let it = &mut self.rows[row];
        let was_chattering = it.chattering;
        it.activations.push(now.mono);
        let recent = it.activations.iter().rev().take_while(|at| now.mono.since(**at) <= time).count();
        it.chattering |= recent >= usize::from(self.settings.chatter_count);
        it.chatter_end = Some(now.mono + time);
        (it.active, it.release, it.raised_at) = (true, None, Some(now.mono));
        it.latched |= it.latches;
        if !was_chattering {
            (it.occurrences, it.unacked) = (it.occurrences + 1, true);
        }
        let cause = keeps.or(above);
        it.cause = cause;
        if cause.is_some_and(|cause| !self.rows[cause].unacked) {
            self.acknowledge(row);
        }
        let it = &mut self.rows[row];
        it.annunciations += u64::from(!was_chattering && it.is_audible());
        self.gather(now, row);
        self.sweep();
    }

    /// What is now below this one.
    fn gather(&mut self, now: Now, cause: usize) {
        for row in 0..self.rows.len() {
            let (it, top) = (&self.rows[row], &self.rows[cause]);
            let is_inner = it.topic == top.topic && (it.kind, top.kind) == (Kind::High, Kind::HighHigh);
            let is_below = top.is_place && it.above.contains(&top.topic);
            let is_new = it.raised_at.is_some_and(|at| now.mono.since(at) <= self.settings.gather);
            if it.active && it.cause.is_none() && row != cause && (is_inner || is_below && is_new) {
                self.rows[row].cause = Some(cause);
                if !self.rows[cause].unacked {
                    self.acknowledge(row);
                }
            }
        }
    }

    fn above(&self, row: usize) -> Option<usize> {
        let it = &self.rows[row];
        let of = |topic: &str, kind: Kind| {
            self.rows.iter().position(|row| row.active && row.topic == topic && row.kind == kind)
        };
        let outer = of(it.topic, Kind::HighHigh).filter(|_| it.kind == Kind::High);
        outer.or_else(|| it.above.iter().find_map(|place| of(place, Kind::Away)))
    }

    fn come_back(&mut self, now: Now, row: usize) {
        let gather = self.settings.gather;
        let has_consequences = self.rows.iter().any(|it| it.cause == Some(row));
        let it = &mut self.rows[row];
        it.active = false;
        it.shelf = it.shelf.filter(|(_, _, once)| !once);
        if has_consequences && it.is_place && !gather.is_zero() {
            it.release = Some(now.mono + gather);
        } else if has_consequences {
            self.release(now, row);
        }
        self.sweep();
    }

    fn release(&mut self, _now: Now, cause: usize) {
        self.rows[cause].release = None;
        if self.rows[cause].active {
            return;
        }
        for row in 0..self.rows.len() {
            if self.rows[row].cause == Some(cause) && (self.rows[row].active || self.rows[cause].is_normal()) {
                self.leave(row, self.rows[cause].is_place);
            }
        }
        self.sweep();
    }

    /// Leaves its cause for another, or for none.
    fn leave(&mut self, row: usize, is_heard: bool) {
        self.rows[row].cause = None;
        if !is_heard || !self.rows[row].active {
            return;
        }
        self.rows[row].cause = self.above(row);
        match self.rows[row].cause {
            Some(cause) if !self.rows[cause].unacked => self.acknowledge(row),
            Some(_) => {}
            None => self.hear(row),
        }
    }

    /// What hid it is gone.
    fn hear(&mut self, row: usize) {
        let it = &mut self.rows[row];
        if it.active && it.is_audible() && !it.chattering {
            (it.occurrences, it.unacked, it.annunciations) = (it.occurrences + 1, true, it.annunciations + 1);
        }
    }

    /// Acknowledges a row and all below it.
    pub(super) fn acknowledge(&mut self, row: usize) {
        self.rows[row].unacked = false;
        let below: Vec<usize> = (0..self.rows.len()).filter(|below| self.rows[*below].cause == Some(row)).collect();
        for row in below {
            self.acknowledge(row);
        }
        self.sweep();
    }

    pub(super) fn end_shelf(&mut self, row: usize) {
        self.rows[row].shelf = None;
        self.hear(row);
        self.sweep();
    }

    pub(super) fn end_service(&mut self, row: usize) {
        self.rows[row].service = None;
        self.hear(row);
        self.sweep();
    }

    pub(super) fn reset(&mut self, row: usize) {
        self.rows[row].latched = false;
        self.sweep();
    }

    /// What is normal is nobody's consequence, and, unless it has only just returned, nobody's cause.
    fn sweep(&mut self) {
        loop {
            let rows = &self.rows;
            let done = rows.iter().position(|it| it.cause.is_some() && it.is_normal());
            if let Some(row) = done {
                self.rows[row].cause = None;
                continue;
            }
            let left = rows
                .iter()
                .position(|it| it.cause.is_some_and(|cause| rows[cause].is_normal() && rows[cause].release.is_none()));
            let Some(row) = left else { return };
            let is_heard = self.rows[row].cause.is_some_and(|cause| self.rows[cause].is_place);
            self.leave(row, is_heard);
        }
    }

    /// How many are below a row.
    pub(super) fn count(&self, row: usize) -> usize {
        let below = (0..self.rows.len()).filter(|below| self.rows[*below].cause == Some(row));
        below.map(|below| 1 + self.count(below)).sum()
    }

    /// A kill, and a start at another time of the clock.
    pub(super) fn kill(&mut self, now: Now) {
        let left =
            |until: Timestamp| Duration::from_micros(u64::try_from(until.micros() - now.utc.micros()).unwrap_or(0));
        let chatter = Some(now.mono + self.settings.chatter_time);
        for it in &mut self.rows {
            (it.delay, it.raised_at, it.condition, it.release) = (None, None, it.active, None);
            it.activations.clear();
            if it.is_normal() {
                (it.suppressed, it.uncertain, it.chattering) = (false, false, false);
            }
            it.chatter_end = chatter.filter(|_| it.chattering);
            it.shelf =
                it.shelf.map(|(_, until, once)| (now.mono + left(until).min(self.settings.shelve_max), until, once));
            it.service = it.service.map(|end| end.map(|(_, until)| (now.mono + left(until), until)));
        }
        for row in 0..self.rows.len() {
            let has_consequences = self.rows.iter().any(|it| it.cause == Some(row));
            let it = &mut self.rows[row];
            if has_consequences && !it.active && it.is_place {
                it.release = Some(now.mono + self.settings.gather);
            }
        }
    }
}
