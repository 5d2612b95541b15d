//! One run: the nodes and their clients, what goes wrong, and the quiet time after it.

use super::Defect;
use super::reader::{How, Reader, ReaderOwner, value};
use super::ways::{Place, SILENCE_S, Way, new_way, place, spawn_client};
use super::writer::{Writer, WriterOwner};
use crate::link::LinkBehavior;
use crate::node::{SimNode, Upstream};
use crate::runs::in_virtual_time;
use crate::trace::Trace;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tieline_core::Filter;
use tieline_mqtt::{ClientSession, Qos};
use tieline_net::{Clock, Counters, Limits, Session, Shard};
use tieline_sim::Choices;
use tokio::time::sleep;

/// Topics of the core's publisher: documents, and measurements.
const TOPICS: [&str; 9] = ["v/0", "v/1", "v/2", "v/4", "bulk/0", "m/0", "m/1", "m/2", "m/3"];
/// What is read at an edge: how, which topics, and over which network.
const READERS: [(How, &str, bool); 7] = [
    (How::Deltas, "#", false),
    (How::Newest, "m/#", false),
    (How::Newest, "#", true),
    (How::Deltas, "v/#", true),
    (How::Once, "up/#", true),
    (How::Deltas, "m/1", true),
    (How::Once, "v/+", true),
];

/// What runs were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages that readers got.
    pub heard: u64,
    /// Of these, as what changed.
    pub deltas: u64,
    /// Messages of clients of edges that were acknowledged as taken.
    pub taken: u64,
    /// The same that were refused, or had no answer.
    pub refused: u64,
    /// Faults of links and clocks.
    pub faults: u64,
    /// Edges that were killed.
    pub kills: u64,
    /// Measurements that were found `away`, as they must be.
    pub away: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        self.heard += other.heard;
        self.deltas += other.deltas;
        self.taken += other.taken;
        self.refused += other.refused;
        self.faults += other.faults;
        self.kills += other.kills;
        self.away += other.away;
    }
}

struct Edge {
    place: Rc<Place>,
    way: Way,
    text: String,
    writer: (Session<ClientSession>, Rc<RefCell<Writer>>),
    readers: Vec<(Rc<RefCell<Reader>>, Way, bool)>,
}

struct World {
    shard: Rc<Shard>,
    choices: Choices,
    core: Rc<Place>,
    numbers: Rc<Cell<u64>>,
    edges: Vec<Edge>,
    writer: (Session<ClientSession>, Rc<RefCell<Writer>>),
    witness: Rc<RefCell<Reader>>,
    summary: Summary,
    defect: Option<Defect>,
    tells: bool,
    trace: Trace,
}

/// Runs one seed, with a defect or without.
pub fn run(seed: u64, defect: Option<Defect>, (tells, trace): (bool, &Trace)) -> Result<Summary, String> {
    in_virtual_time(async {
        let mut world = World::new(seed, defect, (tells, trace))?;
        world.run().await
    })
}

impl World {
    fn new(seed: u64, defect: Option<Defect>, (tells, trace): (bool, &Trace)) -> Result<Self, String> {
        let (core, numbers, trace) = (place(), Rc::default(), trace.clone());
        let shard = Shard::new(Clock::start_with(core.wall), Arc::new(Counters::default()));
        let text = format!("[node]\nname = \"core\"\nworkers = {}\n[history]\nenabled = false\n", seed % 3 + 1);
        *core.node.borrow_mut() = Some(SimNode::start(&text, None, core.wall)?);
        let mut choices = Choices::seeded(seed);
        let mut way = |behavior, to: &Rc<Place>| new_way(behavior, to, (&numbers, &trace), choices.below(u64::MAX));
        let witness = Rc::new(RefCell::new(Reader::new(How::Witness, "#")));
        let session = Session::new(&shard, Reader::session("witness"), Limits::default());
        spawn_client(&session, ReaderOwner(Rc::clone(&witness)), &way(LinkBehavior::PERFECT, &core));
        let writer = new_writer(&shard, "core", &way(LinkBehavior { delay_ms: 20, bytes_max: 65_536 }, &core));
        let mut world = Self {
            shard,
            choices,
            core,
            numbers,
            edges: Vec::new(),
            writer,
            witness,
            summary: Summary::default(),
            defect,
            tells,
            trace,
        };
        for at in 0..world.choices.between(1, 4) {
            world.add_edge(at)?;
        }
        Ok(world)
    }

    fn way(&mut self, behavior: LinkBehavior, to: &Rc<Place>) -> Way {
        new_way(behavior, to, (&self.numbers, &self.trace), self.choices.below(u64::MAX))
    }

    /// Adds an edge of the core, or of an edge that is there.
    fn add_edge(&mut self, at: u64) -> Result<(), String> {
        let below = self.choices.chance(30).then(|| self.edges.first().map(|edge| Rc::clone(&edge.place))).flatten();
        let upstream = below.unwrap_or_else(|| Rc::clone(&self.core));
        let slow = LinkBehavior {
            delay_ms: self.choices.pick(&[1, 20, 200]),
            bytes_max: self.choices.pick(&[4096, 65_536, 1 << 20]),
        };
        let (way, place) = (self.way(slow, &upstream), place());
        let (workers, keep) = (self.choices.between(1, 4), self.choices.pick(&["", "keep = [\"#\"]"]));
        let text = format!(
            "[node]\nname = \"edge-{at}\"\nworkers = {workers}\n[history]\nenabled = false\n[edge]\n\
             upstream = \"mqtt://upstream\"\n{keep}\nlinger = \"1s\"\nretry_max = \"800ms\"\nsilence = \"{SILENCE_S}s\"\n"
        );
        *place.node.borrow_mut() = Some(start_edge(&text, &way, &place, self.choices.below(u64::MAX))?);
        let to_edge = self.way(LinkBehavior::PERFECT, &place);
        let writer = new_writer(&self.shard, &format!("writer-{at}"), &to_edge);
        let mut readers = Vec::new();
        for (number, (how, filter, has_faults)) in (0..).zip(READERS) {
            let reader = Rc::new(RefCell::new(Reader::new(how, filter)));
            let behavior = if has_faults { slow } else { LinkBehavior::PERFECT };
            let way = self.way(behavior, &place);
            let name = format!("reader-{at}-{number}");
            let session = Session::new(&self.shard, Reader::session(&name), Limits::default());
            spawn_client(&session, ReaderOwner(Rc::clone(&reader)), &way);
            readers.push((reader, way, has_faults));
        }
        self.edges.push(Edge { place, way, text, writer, readers });
        Ok(())
    }

    async fn run(&mut self) -> Result<Summary, String> {
        sleep(Duration::from_secs(5)).await;
        for round in 0..self.choices.between(10, 40) {
            self.act()?;
            self.look_at_away()?;
            let pause = self.choices.millis(1, 3000);
            sleep(pause).await;
            if round == 8 {
                self.break_something();
            }
        }
        self.note("the last fault is over");
        // Longer than the longest cut, and than a connection that nobody knows to be gone.
        sleep(Duration::from_secs(60)).await;
        self.say_all();
        sleep(Duration::from_secs(30)).await;
        self.judge()
    }

    fn act(&mut self) -> Result<(), String> {
        let what = self.choices.below(20);
        let at = usize::try_from(self.choices.below(self.edges.len() as u64)).unwrap_or(0);
        let (hold, cut) = (self.choices.millis(100, 8000), self.choices.millis(100, 20_000));
        match what {
            0..10 => {
                let count = self.choices.between(1, 20);
                (0..count).for_each(|_| self.say_one());
                self.note(&format!("{count} values"));
                return Ok(());
            }
            10 | 11 => {
                self.edges.iter().skip(at).take(1).for_each(|edge| edge.way.hold(hold));
            }
            12 | 13 => self.edges.iter().skip(at).take(1).for_each(|edge| edge.way.close(cut, false)),
            14 | 15 => self.edges.iter().skip(at).take(1).for_each(|edge| edge.way.close(cut, true)),
            16 => {
                let seed = self.choices.below(u64::MAX);
                self.restart(at, seed)?;
            }
            17 => {
                let month_s = 30 * 86_400;
                let jump_s = i64::try_from(self.choices.below(2 * month_s)).unwrap_or(0) - 30 * 86_400;
                let wall = self.edges.get(at).map_or(self.core.wall, |edge| edge.place.wall);
                wall.fetch_add(jump_s * 1_000_000, Ordering::Relaxed);
            }
            _ => {
                let reader = usize::try_from(self.choices.below(READERS.len() as u64)).unwrap_or(0);
                let way = self.edges.get(at).and_then(|edge| edge.readers.get(reader));
                let Some((_, way, true)) = way else { return Ok(()) };
                way.close(hold, what == 19);
            }
        }
        self.summary.faults += 1;
        self.note(&format!("edge {at}: fault {what}, {hold:?} or {cut:?}"));
        Ok(())
    }

    /// An edge is killed, and starts again with nothing.
    fn restart(&mut self, at: usize, seed: u64) -> Result<(), String> {
        let Some(edge) = self.edges.get(at) else { return Ok(()) };
        let before = edge.place.node.borrow_mut().take();
        before.iter().for_each(SimNode::kill);
        let node = start_edge(&edge.text, &edge.way, &edge.place, seed)?;
        *edge.place.node.borrow_mut() = Some(node);
        self.summary.kills += 1;
        Ok(())
    }

    fn say_one(&mut self) {
        if self.choices.chance(40) {
            let at = usize::try_from(self.choices.below(self.edges.len() as u64)).unwrap_or(0);
            let kind = usize::try_from(self.choices.below(3)).unwrap_or(0);
            self.say_upward(at, kind);
            return;
        }
        let topic = self.choices.pick(&TOPICS);
        let (session, writer) = &self.writer;
        match self.choices.chance(15) {
            true => writer.borrow_mut().remove(session, topic),
            false => writer.borrow_mut().say(session, topic, Qos::AtLeastOnce),
        }
    }

    fn say_upward(&self, at: usize, kind: usize) {
        let Some(edge) = self.edges.get(at) else { return };
        let (session, writer) = &edge.writer;
        let qos = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];
        let qos = qos.get(kind).copied().unwrap_or(Qos::AtMostOnce);
        writer.borrow_mut().say(session, &format!("up/{at}/{kind}"), qos);
    }

    /// The last value of each topic but some that stay removed.
    fn say_all(&mut self) {
        for topic in TOPICS {
            let (session, writer) = &self.writer;
            match self.choices.chance(25) {
                true => writer.borrow_mut().remove(session, topic),
                false => writer.borrow_mut().say(session, topic, Qos::AtLeastOnce),
            }
        }
        for at in 0..self.edges.len() {
            (0..3).for_each(|kind| self.say_upward(at, kind));
        }
    }

    /// What is wrong on purpose.
    fn break_something(&self) {
        let Some(edge) = self.edges.first() else { return };
        let (session, writer) = &edge.writer;
        match self.defect {
            Some(Defect::GoesStale) => {
                edge.readers.iter().take(1).for_each(|(reader, ..)| reader.borrow_mut().is_deaf = true);
            }
            Some(Defect::Doubles) => writer.borrow_mut().repeat(session, "up/0/2"),
            Some(Defect::Claims) => {
                writer.borrow_mut().taken.entry("up/0/2".to_owned()).or_default().insert(1_000_000);
            }
            Some(Defect::Hides) | None => {}
        }
    }

    /// Measurements of edges without a link are `away`, in their trees and at their subscribers.
    fn look_at_away(&mut self) -> Result<(), String> {
        let mut found = 0;
        for (at, edge) in self.edges.iter().enumerate().filter(|(_, edge)| edge.way.is_noticed()) {
            let node = edge.place.node.borrow();
            for topic in TOPICS.iter().filter(|topic| topic.starts_with("m/")) {
                let payload = node.as_ref().and_then(|node| node.look(|broker| broker.value(topic)).flatten());
                let in_tree = payload.map(|payload| value(topic, payload));
                let at_reader = edge.readers.iter().take(2).filter_map(|(reader, ..)| {
                    let said = reader.borrow().last.get(*topic).copied();
                    said.map(Some)
                });
                for said in in_tree.into_iter().chain(at_reader) {
                    let hides = self.defect == Some(Defect::Hides);
                    if !said.is_some_and(|said| said.is_away && !hides) {
                        return Err(format!("edge {at} has no link, and {topic} is {said:?}"));
                    }
                    found += 1;
                }
            }
        }
        self.summary.away += found;
        Ok(())
    }

    fn judge(&mut self) -> Result<Summary, String> {
        self.judge_upward()?;
        let mut readers = vec![("the witness".to_owned(), Rc::clone(&self.witness))];
        let mut topics: Vec<(String, Option<(u32, bool)>)> = Vec::new();
        let said = self.writer.1.borrow();
        topics.extend(TOPICS.iter().map(|topic| ((*topic).to_owned(), said.said.get(*topic).copied())));
        drop(said);
        for (at, edge) in self.edges.iter().enumerate() {
            let writer = edge.writer.1.borrow();
            topics.extend(writer.said.iter().map(|(topic, said)| (topic.clone(), Some(*said))));
            let own = edge.readers.iter().enumerate();
            readers.extend(own.map(|(number, (reader, ..))| (format!("reader {at}-{number}"), Rc::clone(reader))));
        }
        for (name, reader) in &readers {
            let reader = reader.borrow();
            if let Some(wrong) = &reader.wrong {
                return Err(format!("{name}, {:?} of {}: {wrong}", reader.how, reader.filter));
            }
            self.summary.heard += reader.count;
            self.summary.deltas += reader.deltas;
        }
        let core = self.core.node.borrow().clone().ok_or("the core is gone")?;
        for (topic, said) in &topics {
            let newest = core.look(|broker| broker.value(topic)).flatten().and_then(|payload| value(topic, payload));
            let expect = said.filter(|(_, is_removed)| !is_removed).map(|(number, _)| number);
            if newest.map(|said| said.number) != expect || newest.is_some_and(|said| said.is_away) {
                return Err(format!("the core has {newest:?} of {topic}, and {said:?} was published last"));
            }
            self.judge_version(topic, core.look(|broker| broker.version(topic)).flatten())?;
            for (name, reader) in &readers {
                let reader = reader.borrow();
                let wants = Filter::new(reader.filter).is_ok_and(|filter| filter.matches(topic));
                let has = reader.last.get(topic).copied();
                if wants && has != newest {
                    let (how, filter) = (reader.how, reader.filter);
                    return Err(format!(
                        "{name}, {how:?} of {filter}, has {has:?} of {topic}, and the core {newest:?}"
                    ));
                }
            }
        }
        Ok(self.summary)
    }

    /// Edges tell the version of the core, also through other edges, and after all faults.
    fn judge_version(&self, topic: &str, version: Option<u64>) -> Result<(), String> {
        for (at, edge) in self.edges.iter().enumerate() {
            let node = edge.place.node.borrow();
            let told = node.as_ref().and_then(|node| node.look(|broker| broker.version(topic)).flatten());
            if told != version {
                return Err(format!("edge {at} tells version {told:?} of {topic}, and the core {version:?}"));
            }
        }
        Ok(())
    }

    /// What edges have acknowledged as taken has come to the core.
    fn judge_upward(&mut self) -> Result<(), String> {
        let witness = self.witness.borrow();
        for (at, edge) in self.edges.iter().enumerate() {
            let writer = edge.writer.1.borrow();
            if let Some(wrong) = &writer.wrong {
                return Err(format!("the publisher of edge {at}: {wrong}"));
            }
            for (topic, numbers) in &writer.taken {
                let came = witness.heard.get(topic);
                if let Some(lost) = numbers.iter().find(|number| !came.is_some_and(|came| came.contains(number))) {
                    return Err(format!("{topic}: {lost} was acknowledged, and never came to the core"));
                }
                self.summary.taken += numbers.len() as u64;
            }
            self.summary.refused += writer.refused;
        }
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "a run is printed where that is asked for")]
    fn note(&self, words: &str) {
        if self.tells {
            println!("{:9.3} {words}", self.shard.now().mono.since(tieline_core::Instant::ZERO).as_secs_f64());
        }
    }
}

fn new_writer(shard: &Rc<Shard>, name: &str, way: &Way) -> (Session<ClientSession>, Rc<RefCell<Writer>>) {
    let writer = Rc::new(RefCell::new(Writer::default()));
    let session = Session::new(shard, Writer::session(name), Limits::default());
    spawn_client(&session, WriterOwner(Rc::clone(&writer)), way);
    (session, writer)
}

fn start_edge(text: &str, way: &Way, place: &Place, seed: u64) -> Result<SimNode, String> {
    let way = way.clone();
    let upstream: Upstream = (Rc::new(move |_| way.connect()), seed);
    SimNode::start(text, Some(upstream), place.wall)
}
