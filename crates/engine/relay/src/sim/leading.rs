//! The nodes of a centre.

extern crate std;

mod deeds;

use super::agenda::Agenda;
use super::cluster::{Cluster, Message};
use super::run_seeds;
use crate::{
    AppendError, Last, Lead, LeadAction, LeadEvent, LeadLimits, Lease, LeaseError, Writer, WriterAction, WriterEvent,
    WriterLimits, message_records,
};
use bytes::Bytes;
use core::ops::AddAssign;
use core::time::Duration;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;
use std::{format, println};
use tieline_core::{Instant, Random};

const SEEDS: u64 = 1_000;
const STEPS: u32 = 40;
const NODES: usize = 3;
/// Once all is well, a leader writes within this time.
const WELL_WITHIN: Duration = Duration::from_secs(12);
/// Once a leader is killed and all others are well, the next one writes within this time.
const NEXT_WITHIN: Duration = Duration::from_millis(650);

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    terms: u64,
    acknowledged: u64,
    fenced: u64,
    step_downs: u64,
    kills: u64,
    freezes: u64,
    stalls: u64,
    cuts: u64,
    stale: u64,
    wrong_last: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.terms += other.terms;
        self.acknowledged += other.acknowledged;
        self.fenced += other.fenced;
        self.step_downs += other.step_downs;
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.stalls += other.stalls;
        self.cuts += other.cuts;
        self.stale += other.stale;
        self.wrong_last += other.wrong_last;
    }
}

/// What a node asks of the servers, in its own term.
enum Request {
    ReadLease(u64),
    WriteLease(u64, Option<u64>, Box<str>),
    AskLast(u64, u64),
    Append(u64, u64, Message),
}

/// What comes to a node. The writer's answers have its term.
enum Input {
    Lease(u64, Result<Option<Lease>, LeaseError>),
    LeaseWritten(u64, Result<u64, LeaseError>),
    Last(u64, u64, Last),
    Appended(u64, u64, Result<u64, AppendError>),
    Heartbeat(u64),
}

enum Thing {
    Request(usize, u64, Request),
    Input(usize, u64, Input),
    Thaw(usize, u64),
    Start(usize, u64),
    Message(usize, u64),
}

struct Node {
    lead: Option<Lead>,
    writer: Option<Writer>,
    life: u64,
    frozen: bool,
    /// What came while it was frozen.
    held: Vec<Input>,
    /// Whether requests get to the servers, answers to the node, heartbeats to others, and those of others to the node.
    reaches: bool,
    is_reached: bool,
    is_heard: bool,
    hears: bool,
    /// Records that it gave to its writer in each term, and how many of them were acknowledged.
    given: BTreeMap<u64, (Vec<Vec<u8>>, usize)>,
}

struct World {
    random: Random,
    is_loud: bool,
    now: Instant,
    agenda: Agenda<Thing>,
    nodes: Vec<Node>,
    cluster: Cluster,
    stalled_until: Instant,
    loses: u64,
    delay: Duration,
    counters: Counters,
}

impl World {
    fn new(seed: u64, is_loud: bool) -> Self {
        let node = |_| Node {
            lead: None,
            writer: None,
            life: 0,
            frozen: false,
            held: Vec::new(),
            reaches: true,
            is_reached: true,
            is_heard: true,
            hears: true,
            given: BTreeMap::new(),
        };
        let mut world = Self {
            random: Random::new(seed),
            is_loud,
            now: Instant(1_000_000_000),
            agenda: Agenda::new(),
            nodes: (0..NODES).map(node).collect(),
            cluster: Cluster::default(),
            stalled_until: Instant::ZERO,
            loses: 0,
            delay: Duration::from_millis(3),
            counters: Counters::default(),
        };
        (0..NODES).for_each(|node| world.start(node));
        world
    }

    fn say(&self, words: impl FnOnce() -> String) {
        if self.is_loud {
            println!("{:>12.6} {}", Duration::from_nanos(self.now.0).as_secs_f64(), words());
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.number() % end
    }

    fn start(&mut self, node: usize) {
        let (seed, life) = (self.random.number(), self.nodes[node].life);
        let name = format!("node{node}.{life}");
        self.nodes[node].lead = Some(Lead::new(self.now, &name, LeadLimits::default(), seed));
        self.agenda.add(self.now, Thing::Message(node, life));
    }

    fn pass(&mut self, until: Instant) {
        loop {
            (0..NODES).for_each(|node| self.drive(node));
            let awake = self.nodes.iter().filter(|node| !node.frozen);
            let timeouts = awake.flat_map(|node| {
                let lead = node.lead.as_ref().and_then(Lead::timeout);
                lead.into_iter().chain(node.writer.as_ref().and_then(Writer::timeout))
            });
            let next = timeouts.chain(self.agenda.at()).min().filter(|at| *at <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if self.agenda.at().is_some_and(|at| at <= self.now) {
                let thing = self.agenda.take().unwrap();
                self.handle(thing);
            }
            for node in self.nodes.iter_mut().filter(|node| !node.frozen) {
                node.lead.iter_mut().for_each(|lead| lead.handle_timeout(self.now));
                node.writer.iter_mut().for_each(|writer| writer.handle_timeout(self.now));
            }
        }
        self.now = self.now.max(until);
    }

    fn handle(&mut self, thing: Thing) {
        match thing {
            Thing::Request(node, life, request) => self.serve(node, life, request),
            Thing::Input(node, life, input) if self.nodes[node].life == life => {
                if self.nodes[node].frozen {
                    self.nodes[node].held.push(input);
                } else {
                    self.hear(node, input);
                }
            }
            Thing::Thaw(node, life) if self.nodes[node].life == life => {
                self.nodes[node].frozen = false;
                // What a process hears first after a pause, nobody knows: input or its clock.
                for input in core::mem::take(&mut self.nodes[node].held) {
                    self.hear(node, input);
                }
            }
            Thing::Start(node, life) if self.nodes[node].life == life => self.start(node),
            Thing::Message(node, life) if self.nodes[node].life == life => self.write(node),
            Thing::Input(..) | Thing::Thaw(..) | Thing::Start(..) | Thing::Message(..) => {}
        }
    }

    /// A client gives a message to a node; one that leads takes it.
    fn write(&mut self, index: usize) {
        let pause = Duration::from_millis(1 + self.below(60));
        let now = self.now;
        let node = &mut self.nodes[index];
        self.agenda.add(now + pause, Thing::Message(index, node.life));
        let Some(term) = node.lead.as_ref().and_then(|lead| lead.leads(now)).filter(|_| !node.frozen) else { return };
        let writer = node.writer.as_mut().expect("who leads writes");
        assert_eq!(writer.term(), term);
        let (given, _) = node.given.entry(term).or_default();
        let body = format!("{index} {term} {}", given.len()).into_bytes();
        if writer.handle_record(Bytes::from(body.clone())).is_ok() {
            given.push(body);
        }
    }

    /// A request comes to the servers.
    fn serve(&mut self, node: usize, life: u64, request: Request) {
        if self.now < self.stalled_until {
            // Some requests are forgotten in an election, others wait.
            if self.below(2) == 0 {
                let delay = self.stalled_until.since(self.now) + self.delay;
                self.agenda.add(self.now + delay, Thing::Request(node, life, request));
            }
            return;
        }
        let input = match request {
            Request::ReadLease(id) => Input::Lease(id, Ok(self.cluster.lease())),
            Request::WriteLease(id, expected, holder) => {
                Input::LeaseWritten(id, self.cluster.write_lease(expected, holder))
            }
            Request::AskLast(id, term) => {
                let is_stale = self.loses > 0 && self.below(4) == 0;
                self.counters.stale += u64::from(is_stale);
                let age = if is_stale { usize::try_from(self.below(8)).unwrap() } else { 0 };
                Input::Last(id, term, self.cluster.last(age))
            }
            Request::Append(id, expected, message) => {
                let (term, is_first) = (message.term, message.is_first());
                let appended = self.cluster.append(expected, message);
                self.counters.terms += u64::from(is_first && appended.is_ok());
                self.counters.wrong_last += u64::from(appended.is_err());
                Input::Appended(id, term, appended)
            }
        };
        if self.nodes[node].is_reached && !self.is_lost() {
            let at = self.now + self.some_delay();
            self.agenda.add(at, Thing::Input(node, life, input));
        }
    }

    fn is_lost(&mut self) -> bool {
        self.loses > 0 && self.below(self.loses) == 0
    }

    fn some_delay(&mut self) -> Duration {
        self.delay / 2 + self.delay * u32::try_from(self.below(64)).unwrap() / 128
    }

    fn hear(&mut self, index: usize, input: Input) {
        let now = self.now;
        let node = &mut self.nodes[index];
        let Some(lead) = &mut node.lead else { return };
        let term_of = |writer: &&mut Writer, term: u64| writer.term() == term;
        match input {
            Input::Lease(id, lease) => lead.handle_lease(now, id, lease),
            Input::LeaseWritten(id, written) => lead.handle_lease_written(now, id, written),
            Input::Heartbeat(term) => lead.handle_heartbeat(now, term),
            Input::Last(id, term, last) => {
                if let Some(writer) = node.writer.as_mut().filter(|writer| term_of(writer, term)) {
                    writer.handle_last(now, id, Ok(last));
                }
            }
            Input::Appended(id, term, appended) => {
                if let Some(writer) = node.writer.as_mut().filter(|writer| term_of(writer, term)) {
                    writer.handle_appended(now, id, appended);
                }
            }
        }
    }

    fn drive(&mut self, index: usize) {
        if self.nodes[index].frozen {
            return;
        }
        loop {
            let now = self.now;
            let node = &mut self.nodes[index];
            let Some(lead) = &mut node.lead else { return };
            if let Some(event) = node.writer.as_mut().and_then(Writer::poll_event) {
                self.handle_written(index, event);
            } else if let Some(event) = lead.poll_event() {
                self.handle_lead(index, event);
            } else if let Some(action) = lead.poll_action() {
                self.act(index, action);
            } else if let Some(action) = node.writer.as_mut().and_then(|writer| writer.poll_action(now)) {
                self.append(index, action);
            } else {
                return;
            }
        }
    }

    fn handle_written(&mut self, index: usize, event: WriterEvent) {
        self.say(|| format!("node{index} {event:?}"));
        let node = &mut self.nodes[index];
        let (Some(lead), Some(writer)) = (&mut node.lead, &node.writer) else { return };
        let term = writer.term();
        match event {
            WriterEvent::Begun { .. } => lead.handle_begun(self.now, term),
            WriterEvent::Acknowledged { count, .. } => {
                lead.handle_acknowledged(self.now);
                let (given, acknowledged) = node.given.entry(term).or_default();
                let count = usize::try_from(count).unwrap();
                assert!(count >= *acknowledged && count <= given.len());
                self.counters.acknowledged += (count - *acknowledged) as u64;
                let from = core::mem::replace(acknowledged, count);
                assert!(
                    self.cluster.has(term, from, &given[from..count]),
                    "term {term}: {count} are not in the stream"
                );
            }
            WriterEvent::Fenced { term } => {
                self.counters.fenced += 1;
                lead.handle_fenced(self.now, term);
            }
            WriterEvent::WentBack => panic!("the stream lost nothing"),
        }
    }

    fn handle_lead(&mut self, index: usize, event: LeadEvent) {
        self.say(|| format!("node{index} {event:?}"));
        let node = &mut self.nodes[index];
        match event {
            LeadEvent::Claim { term } => {
                node.writer = Some(Writer::new(term, b"term", WriterLimits::default()));
            }
            LeadEvent::Lead { term } => {
                let other = self.cluster.last(0).term;
                self.say(|| format!("node{index} leads in term {term}, the last is {other}"));
            }
            LeadEvent::StepDown { .. } => {
                self.counters.step_downs += 1;
                node.writer = None;
            }
        }
    }

    fn act(&mut self, index: usize, action: LeadAction) {
        let name = self.nodes[index].lead.as_ref().unwrap().name().into();
        match action {
            LeadAction::Heartbeat { term } => {
                for other in (0..NODES).filter(|other| *other != index) {
                    if self.nodes[index].is_heard && self.nodes[other].hears && !self.is_lost() {
                        let at = self.now + self.some_delay();
                        self.agenda.add(at, Thing::Input(other, self.nodes[other].life, Input::Heartbeat(term)));
                    }
                }
            }
            LeadAction::ReadLease { request } => self.ask(index, Request::ReadLease(request)),
            LeadAction::WriteLease { request, expected } => {
                self.ask(index, Request::WriteLease(request, expected, name));
            }
        }
    }

    fn append(&mut self, index: usize, action: WriterAction) {
        let node = &self.nodes[index];
        let writer = node.lead.as_ref().unwrap().name().into();
        let own = node.writer.as_ref().unwrap().term();
        match action {
            WriterAction::AskLast { request } => self.ask(index, Request::AskLast(request, own)),
            WriterAction::Append { request, expected, term, body } => {
                let records = message_records(&body).unwrap().into_iter().map(|record| record.to_vec()).collect();
                let message = Message { term, writer, records };
                self.ask(index, Request::Append(request, expected, message));
            }
        }
    }

    fn ask(&mut self, index: usize, request: Request) {
        if !self.nodes[index].reaches || self.is_lost() {
            return;
        }
        // A client that was cut off sends later what it could not send.
        let is_late = self.loses > 0 && self.below(16) == 0;
        let late = if is_late { Duration::from_millis(self.below(3_000)) } else { Duration::ZERO };
        let at = self.now + self.some_delay() + late;
        self.agenda.add(at, Thing::Request(index, self.nodes[index].life, request));
    }
}

/// How it ends.
impl World {
    fn leader(&self) -> Option<usize> {
        let leads = |node: &Node| node.lead.as_ref().is_some_and(|lead| lead.leads(self.now).is_some());
        self.nodes.iter().position(leads)
    }

    /// Waits until a message of a term above `term` is in the stream.
    fn wait_for_term_above(&mut self, term: u64, within: Duration) {
        let end = self.now + within;
        while self.cluster.last(0).term <= term {
            assert!(self.now < end, "nobody wrote within {within:?}");
            self.pass(self.now + Duration::from_millis(1));
        }
    }

    fn end(mut self) -> Counters {
        self.say(|| "all is well".into());
        (self.loses, self.stalled_until, self.delay) = (0, self.now, Duration::from_millis(3));
        (0..NODES).for_each(|node| self.heal(node));
        let end = self.now + WELL_WITHIN;
        // Pauses and restarts end first; then somebody leads, and its messages get in.
        self.pass(self.now + Duration::from_secs(8));
        let before = self.cluster.messages.len();
        while self.cluster.messages.len() < before + 3 {
            assert!(self.now < end, "nobody writes, {:?} leads", self.leader());
            self.pass(self.now + Duration::from_millis(50));
        }
        let leader = self.leader().expect("who writes leads");
        let term = self.cluster.last(0).term;
        self.kill(leader);
        self.agenda.retain(|thing| !matches!(thing, Thing::Start(node, _) if *node == leader));
        self.wait_for_term_above(term, NEXT_WITHIN);
        self.check();
        self.counters
    }

    fn check(&self) {
        for node in &self.nodes {
            for (term, (given, count)) in &node.given {
                assert!(self.cluster.has(*term, 0, &given[..*count]), "term {term}: {count} are not in the stream");
            }
        }
        let messages = self.cluster.messages.iter().filter(|message| !message.is_first());
        let mut records: Vec<_> = messages.flat_map(|message| &message.records).collect();
        let count = records.len();
        records.sort();
        records.dedup();
        assert_eq!(records.len(), count, "a record is in the stream twice");
    }
}

#[test]
fn a_term_has_one_writer_and_the_next_leader_writes_soon() {
    let mut total = Counters::default();
    let seeds = run_seeds("nodes of a centre", SEEDS, |seed, is_loud| {
        let mut world = World::new(seed, is_loud);
        (0..STEPS).for_each(|_| world.step());
        total += world.end();
    });
    println!("{total:?}");
    let Counters { terms, acknowledged, fenced, step_downs, kills, freezes, stalls, cuts, stale, wrong_last } = total;
    if seeds > 0 {
        let all = [terms, acknowledged, fenced, step_downs, kills, freezes, stalls, cuts, stale, wrong_last];
        assert!(all.iter().all(|count| *count > seeds / 20), "{total:?}");
    }
}
