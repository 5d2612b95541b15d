//! The same decisions again, the slow way: every second everything is looked at.

use crate::notice::{MessageKind, Standing};
use crate::tests::notice;
use crate::{Route, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use tieline_core::Words;

/// A route with its times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub route: Route,
    pub steps: Vec<(&'static str, u64)>,
    pub wait: u64,
    pub repeat: u64,
}

impl Way {
    fn begin(&self, step: usize) -> u64 {
        self.steps[step].1.max(self.wait)
    }

    fn pause(&self, step: usize) -> Option<u64> {
        match step {
            0 => Some(self.begin(0)),
            step if step < self.steps.len() => Some(self.begin(step) - self.begin(step - 1)),
            _ => Some(self.repeat).filter(|repeat| *repeat > 0),
        }
    }
}

#[derive(Clone, Debug)]
struct Going {
    way: usize,
    step: usize,
    repeats: u32,
    due: Option<u64>,
    due_wall: i64,
    is_held: bool,
}

#[derive(Clone, Debug)]
struct Life {
    topic: &'static str,
    seq: u64,
    severity: u16,
    standing: Standing,
    is_stopped: bool,
    told: Vec<&'static str>,
    goings: Vec<Going>,
}

#[derive(Clone, Debug)]
struct Summary {
    to: &'static str,
    due: Option<u64>,
    last: Option<u64>,
}

/// The state, and every message that was ever made.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    pub ways: Vec<Way>,
    pub settings: Settings,
    lives: Vec<Life>,
    is_flood: bool,
    summaries: Vec<Summary>,
    /// Receivers of summaries, as they outlive a restart.
    summarised: Vec<&'static str>,
    pub made: Vec<String>,
}

/// How a message is compared.
pub(super) fn label(
    to: &str,
    kind: MessageKind,
    seq: u64,
    (way, step, repeats): (usize, usize, u32),
    total: u32,
) -> String {
    format!("{to} {} seq={seq} way={way} step={step} repeats={repeats} total={total}", kind.word())
}

impl Oracle {
    pub fn new(ways: Vec<Way>, settings: Settings) -> Self {
        Self { ways, settings, ..Self::default() }
    }

    pub fn notice(
        &mut self,
        (mono, wall): (u64, i64),
        topic: &'static str,
        seq: u64,
        severity: u16,
        standing: Standing,
    ) {
        let at = self.lives.iter().position(|life| life.topic == topic);
        match standing {
            Standing::Calling => self.call((mono, wall), at, (topic, seq, severity)),
            Standing::Acknowledged | Standing::Hidden | Standing::Consequence => {
                let Some(life) = at.map(|at| &mut self.lives[at]) else { return };
                life.seq = seq;
                life.standing = standing;
                if !life.is_stopped {
                    life.is_stopped = true;
                    life.goings.clear();
                    self.lives.retain(|life| life.topic != topic || !life.told.is_empty());
                }
            }
            Standing::Returned => {
                let Some(at) = at else { return };
                let life = self.lives.remove(at);
                for to in life.told {
                    self.made.push(label(to, MessageKind::Resolved, seq, (9, 0, 0), 1));
                }
            }
        }
    }

    fn call(&mut self, (mono, wall): (u64, i64), at: Option<usize>, (topic, seq, severity): (&'static str, u64, u16)) {
        let mut sample = notice(topic, seq, Standing::Calling);
        sample.severity = severity;
        let takes = |way: &Way| way.route.takes(&sample);
        let at = match at {
            Some(at) if self.lives[at].seq >= seq => at,
            Some(at) => {
                let life = &mut self.lives[at];
                life.is_stopped = false;
                life.goings.clear();
                at
            }
            None if !self.ways.iter().any(takes) => return,
            None => {
                let (told, goings) = (vec![], vec![]);
                self.lives.push(Life {
                    topic,
                    seq,
                    severity,
                    standing: Standing::Calling,
                    is_stopped: false,
                    told,
                    goings,
                });
                self.lives.len() - 1
            }
        };
        let life = &mut self.lives[at];
        (life.seq, life.severity, life.standing) = (seq, severity, Standing::Calling);
        for (number, way) in self.ways.iter().enumerate().filter(|(_, way)| takes(way)) {
            if !life.is_stopped && life.goings.iter().all(|going| going.way != number) {
                let pause = way.pause(0).unwrap();
                let due_wall = wall + i64::try_from(pause).unwrap();
                let due = Some(mono + pause);
                life.goings.push(Going { way: number, step: 0, repeats: 0, due, due_wall, is_held: false });
            }
        }
    }

    /// A second passes: steps that are due until none is, then summaries.
    pub fn second(&mut self, now: (u64, i64)) {
        while self.one_due(now) {}
        for at in 0..self.summaries.len() {
            if self.summaries[at].due.is_some_and(|due| due <= now.0) {
                self.summaries[at].due = None;
                let to = self.summaries[at].to;
                if self.has_held(to) {
                    self.summaries[at].last = Some(now.0);
                    self.remember_summaries();
                    self.summarise(now, to, MessageKind::Flood);
                }
            }
        }
    }

    fn one_due(&mut self, (mono, wall): (u64, i64)) -> bool {
        for at in 0..self.lives.len() {
            for index in 0..self.lives[at].goings.len() {
                let life = &mut self.lives[at];
                let going = &mut life.goings[index];
                if going.due.is_none_or(|due| due > mono) {
                    continue;
                }
                let way = &self.ways[going.way];
                let is_step = going.step < way.steps.len();
                if is_step && self.is_flood {
                    going.due = None;
                    going.is_held = true;
                    let to = way.steps[going.step].0;
                    self.want_summary(mono, to);
                    return true;
                }
                if is_step {
                    let to = way.steps[going.step].0;
                    self.made.push(label(to, MessageKind::Raised, life.seq, (going.way, going.step, 0), 1));
                    remember(&mut life.told, to);
                    going.step += 1;
                } else if !self.is_flood {
                    going.repeats += 1;
                    let mut receivers: Vec<_> = way.steps.iter().map(|(to, _)| *to).collect();
                    receivers.sort_unstable();
                    receivers.dedup();
                    for to in receivers {
                        let place = (going.way, going.step, going.repeats);
                        self.made.push(label(to, MessageKind::Repeated, life.seq, place, 1));
                        remember(&mut life.told, to);
                    }
                }
                later(going, way, (mono, wall));
                return true;
            }
        }
        false
    }

    fn want_summary(&mut self, mono: u64, to: &'static str) {
        if self.summaries.iter().all(|summary| summary.to != to) {
            self.summaries.push(Summary { to, due: None, last: None });
        }
        let (wait, every) = (self.settings.summary_wait.as_secs(), self.settings.summary_every.as_secs());
        let summary = self.summaries.iter_mut().find(|summary| summary.to == to).unwrap();
        let earliest = summary.last.map_or(0, |last| last + every);
        summary.due = summary.due.or(Some(earliest.max(mono + wait)));
    }

    fn is_held_for(&self, going: &Going, to: &str) -> bool {
        going.is_held && self.ways[going.way].steps[going.step].0 == to
    }

    fn has_held(&self, to: &str) -> bool {
        self.lives.iter().flat_map(|life| &life.goings).any(|going| self.is_held_for(going, to))
    }

    fn summarise(&mut self, now: (u64, i64), to: &'static str, kind: MessageKind) {
        let leads = |going: &Going| self.ways[going.way].steps.iter().any(|(name, _)| *name == to);
        let calls = |life: &&Life| life.standing == Standing::Calling && life.goings.iter().any(leads);
        let calling: Vec<_> = self.lives.iter().filter(calls).collect();
        let total = u32::try_from(calling.len()).unwrap();
        let worst = calling.iter().map(|life| (life.severity, life.seq)).max().map_or(0, |(_, seq)| seq);
        self.made.push(label(to, kind, worst, (9, 0, 0), total));
        for at in 0..self.lives.len() {
            for index in 0..self.lives[at].goings.len() {
                if self.is_held_for(&self.lives[at].goings[index], to) {
                    let going = &mut self.lives[at].goings[index];
                    going.is_held = false;
                    going.step += 1;
                    later(going, &self.ways[going.way], now);
                }
            }
        }
    }

    fn remember_summaries(&mut self) {
        let told = self.summaries.iter().filter(|summary| summary.last.is_some());
        self.summarised = told.map(|summary| summary.to).collect();
    }

    pub fn flood(&mut self, now: (u64, i64), is_on: bool) {
        let is_end = self.is_flood && !is_on;
        self.is_flood = is_on;
        if !is_end {
            return;
        }
        for summary in core::mem::take(&mut self.summaries) {
            if summary.last.is_some() || self.has_held(summary.to) {
                self.summarise(now, summary.to, MessageKind::FloodOver);
            }
        }
        self.summarised.clear();
    }

    pub fn nobody(&mut self, now: (u64, i64), to: &str, seq: u64, topic: &str, (way, step): (usize, usize)) {
        let Some(life) = self.lives.iter_mut().find(|life| life.topic == topic) else { return };
        life.told.retain(|told| *told != to);
        if life.seq != seq {
            return;
        }
        let going = life.goings.iter_mut().find(|going| going.way == way && going.step == step + 1);
        if let Some(going) = going.filter(|going| going.step < self.ways[way].steps.len() && going.due.is_some()) {
            (going.due, going.due_wall) = (Some(now.0), now.1);
        }
    }

    /// After a kill, from what was on the disk.
    pub fn restart(&mut self, now: (u64, i64), alarms: &[(&'static str, u64, u16, Standing)]) {
        for going in self.lives.iter_mut().flat_map(|life| &mut life.goings) {
            let left = u64::try_from(going.due_wall - now.1).unwrap_or(0);
            let pause = self.ways[going.way].pause(going.step).map(|pause| pause.min(left));
            going.due = pause.map(|pause| now.0 + pause);
            going.due_wall = now.1 + i64::try_from(pause.unwrap_or(0)).unwrap();
            going.is_held = false;
        }
        (self.is_flood, self.summaries) = (false, vec![]);
        for to in core::mem::take(&mut self.summarised) {
            self.summarise(now, to, MessageKind::FloodOver);
        }
        for (topic, seq, severity, standing) in alarms {
            self.notice(now, topic, *seq, *severity, *standing);
        }
        let gone = |life: &&Life| alarms.iter().all(|(topic, ..)| life.topic != *topic);
        let gone: Vec<_> = self.lives.iter().filter(gone).map(|life| (life.topic, life.seq, life.severity)).collect();
        for (topic, seq, severity) in gone {
            self.notice(now, topic, seq, severity, Standing::Returned);
        }
    }
}

fn remember(told: &mut Vec<&'static str>, to: &'static str) {
    if !told.contains(&to) {
        told.push(to);
    }
}

fn later(going: &mut Going, way: &Way, (mono, wall): (u64, i64)) {
    let pause = way.pause(going.step);
    going.due = pause.map(|pause| mono + pause);
    going.due_wall = wall + i64::try_from(pause.unwrap_or(0)).unwrap();
}
