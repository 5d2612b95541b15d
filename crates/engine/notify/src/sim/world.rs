//! Alarms, persons, receivers, a disk and a power supply.

use super::oracle::{Oracle, Way, label};
use super::{Counters, Random, std};
use crate::notice::{Message, MessageKind, Standing};
use crate::tests::{notice, route, seconds};
use crate::{End, Notify, Outcome, Record, Route, Saved, Settings};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use std::println;
use tieline_core::{Instant, Now, Timestamp};

const TOPICS: [&str; 5] = ["a/1", "a/2", "b/1", "b/2", "c"];
const RECEIVERS: [&str; 3] = ["chief", "duty", "head"];
const FILTERS: [&str; 5] = ["#", "a/#", "b/+", "+/1", "c"];

#[derive(Clone, Copy, Debug)]
struct Fact {
    topic: &'static str,
    seq: u64,
    severity: u16,
    standing: Standing,
}

/// A message on its way.
#[derive(Debug)]
struct Sent {
    message: Message,
    arrives: u64,
    outcome: Outcome,
}

pub(super) struct World {
    pub counters: Counters,
    random: Random,
    is_loud: bool,
    seed: u64,
    /// Seconds since the beginning, of the process, and what the wall clock shows.
    time: u64,
    started: u64,
    wall: i64,
    facts: Vec<Fact>,
    last_seq: u64,
    is_flood: bool,
    notify: Notify,
    oracle: Oracle,
    /// What the disk has, and what the oracle was then.
    disk: Saved,
    oracle_on_disk: Oracle,
    unwritten: Vec<Record>,
    sent: Vec<Sent>,
    moods: BTreeMap<&'static str, Outcome>,
    /// What each key was, what arrived, and what ended otherwise.
    keys: BTreeMap<String, String>,
    arrived: BTreeSet<String>,
    ended: BTreeSet<String>,
    /// The state of the oracle that was compared with.
    compared: usize,
}

fn settings() -> Settings {
    let (retry_for, summary_every) = (seconds(60), seconds(30));
    Settings { retry_max: seconds(16), retry_for, summary_every, ..Settings::default() }
}

fn routes(ways: &[Way]) -> Vec<Route> {
    ways.iter().map(|way| way.route.clone()).collect()
}

fn some_ways(random: &mut Random) -> Vec<Way> {
    let mut ways: Vec<Way> = vec![];
    for _ in 0..=random.below(3) {
        let mut steps = vec![];
        let mut after = random.below(4);
        for _ in 0..=random.below(3) {
            steps.push((*random.pick(&RECEIVERS), after));
            after += random.below(3) * random.below(30);
        }
        let (wait, repeat) = (random.below(3) * 3, random.below(2) * (20 + random.below(60)));
        let filter = *random.pick(&FILTERS);
        let route = route(filter, *random.pick(&[0, 500, 700]), &steps, wait, repeat);
        if ways.iter().all(|way| way.route.id() != route.id()) {
            ways.push(Way { route, steps, wait, repeat });
        }
    }
    ways
}

impl World {
    pub fn new(seed: u64, is_loud: bool) -> Self {
        let mut random = Random(seed);
        let ways = some_ways(&mut random);
        let notify = Notify::new(settings(), routes(&ways));
        let oracle = Oracle::new(ways, settings());
        let fact = |topic| Fact { topic, seq: 0, severity: 0, standing: Standing::Returned };
        Self {
            counters: Counters::default(),
            random,
            is_loud,
            seed,
            time: 0,
            started: 0,
            wall: 1_000_000,
            facts: TOPICS.into_iter().map(fact).collect(),
            last_seq: 0,
            is_flood: false,
            notify,
            oracle_on_disk: oracle.clone(),
            oracle,
            disk: Saved::default(),
            unwritten: vec![],
            sent: vec![],
            moods: RECEIVERS.into_iter().map(|name| (name, Outcome::Delivered)).collect(),
            keys: BTreeMap::new(),
            arrived: BTreeSet::new(),
            ended: BTreeSet::new(),
            compared: 0,
        }
    }

    fn clocks(&self) -> (u64, i64) {
        (self.time - self.started, self.wall)
    }

    fn now(&self) -> Now {
        let (mono, wall) = self.clocks();
        Now { mono: Instant::ZERO + seconds(mono), utc: Timestamp::from_millis(wall * 1000) }
    }

    fn tell(&self, words: &dyn Fn() -> String) {
        if self.is_loud {
            println!("{:4} {}", self.time, words());
        }
    }

    pub fn second(&mut self) {
        if self.random.is_one_of(6) {
            let fact = self.some_change();
            self.give(fact);
        }
        if self.random.is_one_of(60) {
            self.is_flood = !self.is_flood;
            self.tell(&|| format!("flood {}", self.is_flood));
            self.notify.handle_flood(self.now(), self.is_flood);
            self.oracle.flood(self.clocks(), self.is_flood);
        }
        if self.random.is_one_of(20) {
            let moods = [Outcome::Delivered, Outcome::Delivered, Outcome::Failed, Outcome::Refused, Outcome::Nobody];
            self.moods.insert(*self.random.pick(&RECEIVERS), *self.random.pick(&moods));
        }
        if self.random.is_one_of(100) {
            self.counters.jumps += 1;
            self.wall += i64::try_from(self.random.below(2000)).unwrap() - 1000;
        }
        self.work();
        if self.random.is_one_of(50) {
            self.kill();
        }
    }

    /// Everything heals, and as much time passes as the last message may need.
    pub fn finish(&mut self) {
        for mood in self.moods.values_mut() {
            *mood = Outcome::Delivered;
        }
        if self.is_flood {
            self.notify.handle_flood(self.now(), false);
            self.oracle.flood(self.clocks(), false);
        }
        for at in 0..self.facts.len() {
            let fact = Fact { standing: Standing::Returned, ..self.facts[at] };
            self.give(fact);
        }
        for _ in 0..4000 {
            self.work();
            if self.notify.timeout().is_none() && self.notify.waiting() == 0 && self.sent.is_empty() {
                break;
            }
        }
        self.write();
        self.work();
        assert_eq!((self.notify.waiting(), self.sent.len()), (0, 0), "seed {}: messages wait", self.seed);
        let missed = |made: &&String| !self.arrived.contains(*made) && !self.ended.contains(*made);
        let missed: Vec<_> = self.oracle.made.iter().filter(missed).collect();
        assert!(missed.is_empty(), "seed {}: missed {missed:?}", self.seed);
    }

    /// What an alarm does next.
    fn some_change(&mut self) -> Fact {
        let at = usize::try_from(self.random.below(5)).unwrap();
        let fact = self.facts[at];
        let is_new = fact.standing == Standing::Returned || self.random.is_one_of(4);
        if is_new {
            self.last_seq += 1;
            let standing = *self.random.pick(&[Standing::Calling, Standing::Calling, Standing::Hidden]);
            return Fact { seq: self.last_seq, severity: *self.random.pick(&[500, 700, 900]), standing, ..fact };
        }
        let standings = [Standing::Acknowledged, Standing::Hidden, Standing::Consequence, Standing::Returned];
        let standing = *self.random.pick(&[standings[0], standings[1], standings[2], standings[3], fact.standing]);
        Fact { standing, ..fact }
    }

    fn give(&mut self, fact: Fact) {
        self.tell(&|| format!("{fact:?}"));
        let at = TOPICS.iter().position(|topic| *topic == fact.topic).unwrap();
        self.facts[at] = fact;
        self.notify.handle_notice(self.now(), said(fact));
        self.oracle.notice(self.clocks(), fact.topic, fact.seq, fact.severity, fact.standing);
    }

    /// One second of a node.
    fn work(&mut self) {
        self.arrive();
        self.notify.handle_timeout(self.now());
        self.oracle.second(self.clocks());
        self.compare();
        if self.random.is_one_of(3) {
            self.write();
        }
        if self.unwritten.is_empty() {
            self.send();
        }
        self.time += 1;
        self.wall += 1;
    }

    /// The records of this second, and that their messages are those of the oracle.
    fn compare(&mut self) {
        let mut made = vec![];
        while let Some(record) = self.notify.poll_record() {
            if let Record::Message(message) = &record {
                made.push(self.label(message));
                self.count_made(message.kind);
            }
            self.unwritten.push(record);
        }
        let mut expect = self.oracle.made[self.compared..].to_vec();
        self.compared = self.oracle.made.len();
        made.sort_unstable();
        expect.sort_unstable();
        self.tell(&|| format!("made {made:?}"));
        assert_eq!(made, expect, "seed {} at {}", self.seed, self.time);
    }

    fn count_made(&mut self, kind: MessageKind) {
        let counters = &mut self.counters;
        *match kind {
            MessageKind::Raised => &mut counters.raised,
            MessageKind::Repeated => &mut counters.repeated,
            MessageKind::Resolved => &mut counters.resolved,
            MessageKind::Flood => &mut counters.floods,
            MessageKind::FloodOver => &mut counters.floods_over,
            MessageKind::Test | MessageKind::Heartbeat => unreachable!("nobody asked"),
        } += 1;
    }

    fn place(&self, message: &Message) -> (usize, usize, u32) {
        let way = self.oracle.ways.iter().position(|way| way.route.id() == message.route).unwrap_or(9);
        (way, usize::from(message.step), message.repeats)
    }

    fn label(&self, message: &Message) -> String {
        let seq = message.alarms.first().map_or(0, |alarm| alarm.seq);
        label(&message.to, message.kind, seq, self.place(message), message.total)
    }

    fn write(&mut self) {
        for record in self.unwritten.drain(..) {
            let mut bytes = vec![];
            record.emit(&mut bytes);
            self.disk.apply(Record::parse(&bytes).unwrap());
        }
        self.oracle_on_disk = self.oracle.clone();
    }

    fn send(&mut self) {
        while let Some(message) = self.notify.poll_send(self.now()) {
            let is_alone = self.sent.iter().all(|sent| sent.message.to != message.to);
            assert!(is_alone, "seed {}: two messages at a time", self.seed);
            assert_eq!(self.disk.messages.get(&message.id), Some(&message), "seed {}: not on the disk", self.seed);
            let outcome = self.moods[&*message.to];
            let arrives = self.time + self.random.below(2) * self.random.below(9);
            self.sent.push(Sent { message, arrives, outcome });
        }
    }

    fn arrive(&mut self) {
        let time = self.time;
        let (due, sent) = core::mem::take(&mut self.sent).into_iter().partition(|sent| sent.arrives <= time);
        self.sent = sent;
        let due: Vec<Sent> = due;
        for Sent { message, outcome, .. } in due {
            self.receive(&message, outcome);
            let end = self.notify.handle_outcome(self.now(), message.id, outcome);
            self.count_end(&message, outcome, end);
            if end == Some(End::Nobody) && message.kind == MessageKind::Raised {
                let (alarm, (way, step, _)) = (&message.alarms[0], self.place(&message));
                self.oracle.nobody(self.clocks(), &message.to, alarm.seq, &alarm.alarm.topic, (way, step));
            }
        }
    }

    fn count_end(&mut self, message: &Message, outcome: Outcome, end: Option<End>) {
        let counters = &mut self.counters;
        *match (outcome, end) {
            (_, Some(End::GivenUp)) => &mut counters.given_up,
            (Outcome::Delivered, _) => &mut counters.delivered,
            (Outcome::Failed, _) => &mut counters.failed,
            (Outcome::Refused, _) => &mut counters.refused,
            (Outcome::Nobody, _) => &mut counters.nobody,
        } += 1;
        if end.is_some() {
            self.ended.insert(self.label(message));
        }
    }

    /// A receiver has a message: it was made, its key is its own, and it is not too early.
    fn receive(&mut self, message: &Message, outcome: Outcome) {
        if outcome != Outcome::Delivered {
            return;
        }
        let (seed, label) = (self.seed, self.label(message));
        assert!(self.oracle.made.contains(&label), "seed {seed}: invented {label}");
        let key = format!("{} {}", message.to, message.key());
        let known = self.keys.entry(key).or_insert_with(|| label.clone());
        assert_eq!(*known, label, "seed {seed}: one key for two messages");
        if message.kind == MessageKind::Resolved {
            let before = self.oracle.made.iter().filter(|made| {
                made.starts_with(&*message.to) && made.contains(&format!(" seq={} ", message.alarms[0].seq))
            });
            let mut before = before.filter(|made| !made.contains("resolved") && !made.contains("flood"));
            let is_last = before.all(|made| self.arrived.contains(made) || self.ended.contains(made));
            assert!(is_last, "seed {seed}: {label} came too early");
        }
        if !self.arrived.insert(label) {
            self.counters.doubles += 1;
        }
    }

    /// The power goes, and comes back some time later; meanwhile the world went on.
    fn kill(&mut self) {
        self.counters.kills += 1;
        self.counters.lost_records += self.unwritten.len() as u64;
        self.unwritten.clear();
        for Sent { message, outcome, .. } in core::mem::take(&mut self.sent) {
            if self.random.is_one_of(2) {
                self.receive(&message, outcome);
            }
        }
        let down = self.random.below(90);
        self.time += down;
        self.wall += i64::try_from(down).unwrap();
        if self.random.is_one_of(3) {
            self.counters.jumps += 1;
            self.wall += i64::try_from(self.random.below(400)).unwrap() - 200;
        }
        for _ in 0..self.random.below(3) {
            let fact = self.some_change();
            let at = TOPICS.iter().position(|topic| *topic == fact.topic).unwrap();
            self.facts[at] = fact;
        }
        self.tell(&|| format!("killed, {down} s, {:?}", self.facts));
        self.start();
    }

    fn start(&mut self) {
        self.started = self.time - self.random.below(5).min(self.time);
        self.is_flood = false;
        let mut bytes = vec![];
        self.disk.emit(&mut bytes);
        let now = self.now();
        self.notify = Notify::new(settings(), routes(&self.oracle.ways));
        self.notify.restore(now, Saved::parse(&bytes).unwrap(), &|_| true);
        let standing = |fact: &&Fact| fact.standing != Standing::Returned;
        let notices = self.facts.iter().filter(standing).map(|fact| said(*fact));
        self.notify.handle_all(now, notices.collect());
        self.oracle = self.oracle_on_disk.clone();
        self.compared = self.oracle.made.len();
        let facts = self.facts.iter().filter(standing);
        let facts: Vec<_> = facts.map(|fact| (fact.topic, fact.seq, fact.severity, fact.standing)).collect();
        self.oracle.restart(self.clocks(), &facts);
        self.compare();
    }
}

fn said(fact: Fact) -> crate::Notice {
    crate::Notice { severity: fact.severity, ..notice(fact.topic, fact.seq, fact.standing) }
}
