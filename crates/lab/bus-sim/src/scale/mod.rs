//! What subscribers of edges cost the core and the edges, in virtual time and without sockets: so many as no machine has sockets for.
//!
//! ```text
//! publisher ═ core ═ Link, with deltas ═ edge 0 ═ sinks
//!                  ═ Link               ═ edge 1 ═ sinks …
//! ```
//!
//! Nodes, their sessions and the subscriptions are production code. Each sink gets every value of its topics, each the one after the
//! one before, or the run fails. The processor time of each node is that of its tasks alone; what it costs to check what came is not
//! in it, and no system calls for sockets are.
//!
//! Read first: [`measure`].

mod documents;
mod sink;

use self::documents::{Known, document};
use self::sink::{Log, Sink};
use crate::link::{Link, LinkBehavior};
use crate::node::SimNode;
use crate::runs::in_virtual_time;
use crate::trace::Trace;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tieline_mqtt::{
    ClientConfig, ClientEvent, ClientSession, Connect, Message, Packet, PacketId, Properties, Property, Qos,
    RetainHandling, Subscribe, SubscriptionFilter, SubscriptionOptions, Text, Version,
};
use tieline_net::{Carrier, Clock, Counters, Limits, Owner, Session, Shard};
use tokio::time::sleep;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Subscribers, of all edges together.
    pub subscribers: usize,
    /// Edges; none: the core serves the subscribers itself.
    pub edges: usize,
    /// Topics.
    pub topics: usize,
    /// Topics of each subscriber.
    pub each: usize,
    /// Updates of a millisecond.
    pub updates_a_ms: usize,
    /// How often each topic is updated while it is measured.
    pub rounds: u32,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Of what.
    pub subscribers: usize,
    /// Edges.
    pub edges: usize,
    /// Values that subscribers got while it was measured; none was lost, or there is no row.
    pub events: u64,
    /// Processor time of the core for an update, in µs.
    pub core_us_per_update: f64,
    /// Processor time of all that serve subscribers for a value that one got, in µs.
    pub us_per_event: f64,
    /// Bytes of a value to a subscriber.
    pub bytes_per_event: f64,
    /// Bytes of an update on the link of one edge.
    pub link_bytes_per_update: f64,
    /// Memory that each subscriber has taken, in bytes.
    pub memory_bytes_each: f64,
}

const WALL_US: i64 = 1_795_900_000_000_000;
/// Subscribers that come at once.
const GROUP: usize = 500;

struct World {
    plan: Plan,
    core: SimNode,
    edges: Vec<(SimNode, Rc<RefCell<Option<Link>>>)>,
    logs: Vec<Log>,
    publisher: Session<ClientSession>,
    known: Known,
    /// Topic aliases of each subscription.
    aliases: Vec<u16>,
    events: u64,
    bytes: u64,
}

struct Quiet;

impl Owner<ClientSession> for Quiet {
    fn event(&mut self, _: &Session<ClientSession>, _: tieline_core::Now, _: ClientEvent) {}
}

/// Runs one plan.
///
/// # Errors
/// A subscriber has missed a value, or got one that nobody published; the plan is not one.
pub fn measure(plan: Plan) -> Result<Row, String> {
    if plan.each == 0 || !plan.topics.is_multiple_of(plan.each) || plan.updates_a_ms == 0 || plan.subscribers == 0 {
        return Err("topics are a multiple of those of each subscriber, and all are 1 or more".to_owned());
    }
    in_virtual_time(async { World::new(plan)?.run().await })
}

impl World {
    fn new(plan: Plan) -> Result<Self, String> {
        let wall: &'static AtomicI64 = Box::leak(Box::new(AtomicI64::new(WALL_US)));
        let (numbers, common) = (Rc::new(Cell::new(1 << 40)), "workers = 1\n[history]\nenabled = false\n");
        let core = SimNode::start(&format!("[node]\nname = \"core\"\n{common}"), None, wall)?;
        let mut edges = Vec::new();
        for at in 0..plan.edges {
            let text = format!(
                "[node]\nname = \"edge-{at}\"\n{common}[edge]\nupstream = \"mqtt://core\"\nkeep = [\"#\"]\nsilence = \"600s\"\n"
            );
            let (to, numbers, kept) = (core.clone(), Rc::clone(&numbers), Rc::<RefCell<Option<Link>>>::default());
            let link_of = Rc::clone(&kept);
            let connect = move |_: &str| {
                let number = numbers.replace(numbers.get() + 1);
                let (link, server, client) = Link::new(LinkBehavior::PERFECT, number, (number, &Trace::off()));
                *link_of.borrow_mut() = Some(link);
                to.enter(server, number);
                Ok(client)
            };
            edges.push((SimNode::start(&text, Some((Rc::new(connect), 1)), wall)?, kept));
        }
        let shard = Shard::new(Clock::start_with(wall), Arc::new(Counters::default()));
        let config = ClientConfig { client_id: Text::truncated("publisher"), ..ClientConfig::default() };
        let publisher = Session::new(&shard, ClientSession::new(config), Limits::default());
        let (_, server, client) = Link::new(LinkBehavior::PERFECT, 0, (0, &Trace::off()));
        core.enter(server, 1 << 39);
        let session = publisher.clone();
        tokio::task::spawn_local(async move { session.run(client, &mut Quiet).await });
        let subscriptions = plan.subscribers * plan.each;
        let logs = vec![(); plan.edges.max(1)].into_iter().map(|()| Log::default()).collect();
        let (known, aliases) = (Known::new(subscriptions), vec![0; subscriptions]);
        Ok(Self { plan, core, edges, logs, publisher, known, aliases, events: 0, bytes: 0 })
    }

    async fn run(&mut self) -> Result<Row, String> {
        sleep(Duration::from_secs(1)).await;
        self.publish_all(1).await?;
        let before = resident_bytes();
        self.seat().await?;
        let memory = resident_bytes().saturating_sub(before);
        // Aliases and whole values come with the first, and the pace of each topic with the second.
        self.publish_all(2).await?;
        self.publish_all(3).await?;
        (self.events, self.bytes) = (0, 0);
        let taken = |world: &Self| {
            let edges: Duration = world.edges.iter().map(|(edge, _)| edge.cpu()).sum();
            let links = world.edges.iter().filter_map(|(_, link)| Some(link.borrow().as_ref()?.sent_to_client()));
            (world.core.cpu(), edges, links.sum::<u64>())
        };
        let (core, edges, links) = taken(self);
        for round in 0..self.plan.rounds {
            self.publish_all(4 + round).await?;
        }
        let (core_after, edges_after, links_after) = taken(self);
        self.check_newest(3 + self.plan.rounds)?;
        let updates = float(u64::from(self.plan.rounds)) * float(self.plan.topics as u64);
        let (core, edges) = (core_after - core, edges_after - edges);
        let serving = if self.plan.edges == 0 { core } else { edges };
        Ok(Row {
            subscribers: self.plan.subscribers,
            edges: self.plan.edges,
            events: self.events,
            core_us_per_update: core.as_secs_f64() * 1e6 / updates,
            us_per_event: serving.as_secs_f64() * 1e6 / float(self.events),
            bytes_per_event: float(self.bytes) / float(self.events),
            link_bytes_per_update: float(links_after - links) / updates / float(self.plan.edges.max(1) as u64),
            memory_bytes_each: float(memory) / float(self.plan.subscribers as u64),
        })
    }

    /// Updates each topic once, and looks at what came of it.
    async fn publish_all(&mut self, number: u32) -> Result<(), String> {
        for first in (0..self.plan.topics).step_by(self.plan.updates_a_ms) {
            for topic in first..(first + self.plan.updates_a_ms).min(self.plan.topics) {
                let name = tieline_core::Topic::new(&name(topic)).map_err(|error| error.to_string())?;
                let taken = self.publisher.with(|m, now| {
                    m.publish(Message::new(name, document(topic, number), now.mono), Qos::AtMostOnce, true)
                });
                taken.map_err(|error| format!("the publisher cannot publish: {error:?}"))?;
            }
            sleep(Duration::from_millis(1)).await;
            self.look()?;
        }
        sleep(Duration::from_millis(100)).await;
        self.look()
    }

    /// All subscribers come, spread evenly.
    async fn seat(&mut self) -> Result<(), String> {
        for first in (0..self.plan.subscribers).step_by(GROUP) {
            for subscriber in first..(first + GROUP).min(self.plan.subscribers) {
                let at = self.place(subscriber);
                let node = self.edges.get(at).map_or(&self.core, |(edge, _)| edge);
                let Some(log) = self.logs.get(at) else { continue };
                let says = self.says(subscriber)?;
                let sink = Sink::new(u32::try_from(subscriber).unwrap_or(u32::MAX), says, log);
                node.enter((Box::new(sink) as Box<dyn Carrier>).into(), subscriber as u64);
            }
            sleep(Duration::from_millis(5)).await;
            self.look()?;
        }
        sleep(Duration::from_secs(1)).await;
        self.look()
    }

    const fn place(&self, subscriber: usize) -> usize {
        if self.plan.edges == 0 { 0 } else { subscriber * self.plan.edges / self.plan.subscribers }
    }

    fn topic(&self, subscriber: usize, subscription: usize) -> usize {
        (subscriber * self.plan.each + subscription) % self.plan.topics
    }

    /// All that a subscriber ever says.
    fn says(&self, subscriber: usize) -> Result<Vec<u8>, String> {
        let connect = Packet::Connect(Box::new(Connect {
            version: Version::V5,
            clean_start: true,
            keep_alive_s: 0,
            properties: [Property::TopicAliasMaximum(u16::MAX)].into_iter().collect(),
            client_id: Text::truncated(&format!("s{subscriber}")),
            will: None,
            user_name: None,
            password: None,
        }));
        let options = SubscriptionOptions {
            qos: Qos::AtMostOnce,
            retain_handling: RetainHandling::Never,
            ..SubscriptionOptions::default()
        };
        let topics = (0..self.plan.each).map(|subscription| name(self.topic(subscriber, subscription)));
        let wish = Property::UserProperty((Text::truncated(tieline_delta::PROPERTY), Text::truncated("point,hunk")));
        let subscribe = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).ok_or("an identifier")?,
            properties: std::iter::once(wish).collect::<Properties>(),
            filters: topics.map(|topic| SubscriptionFilter { filter: Text::truncated(&topic), options }).collect(),
        });
        let mut out = Vec::new();
        for packet in [connect, subscribe] {
            packet.emit(Version::V5, &mut out).map_err(|error| format!("{error:?}"))?;
        }
        Ok(out)
    }

    /// Looks at what came.
    fn look(&mut self) -> Result<(), String> {
        for log in self.logs.clone() {
            log.look(|subscriber, bytes| self.take(usize::try_from(subscriber).unwrap_or(usize::MAX), bytes))?;
        }
        Ok(())
    }

    fn take(&mut self, subscriber: usize, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let whole = packet(bytes).ok_or("a packet that is not whole")?;
            let rest = bytes.get(whole.length..).unwrap_or_default();
            if let Some((topic, alias, payload)) = whole.publish {
                self.value(subscriber, (topic, alias), payload)?;
                self.events += 1;
                self.bytes += whole.length as u64;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn value(&mut self, subscriber: usize, (name_of, alias): (&[u8], u16), payload: &[u8]) -> Result<(), String> {
        let first = subscriber * self.plan.each;
        let own = first..first + self.plan.each;
        let subscription = match name_of.is_empty() {
            true => own.into_iter().find(|at| self.aliases.get(*at) == Some(&alias)),
            false => own.into_iter().find(|at| name(at % self.plan.topics).as_bytes() == name_of),
        };
        let subscription = subscription.ok_or_else(|| format!("subscriber {subscriber}: a topic of others"))?;
        if let Some(known) = self.aliases.get_mut(subscription).filter(|_| alias > 0) {
            *known = alias;
        }
        let taken = self.known.take(subscription, subscription % self.plan.topics, payload);
        taken.map_err(|why| format!("subscriber {subscriber}: {why}"))
    }

    /// Every subscriber has the newest value of all its topics.
    fn check_newest(&self, number: u32) -> Result<(), String> {
        let lost = (0..self.aliases.len()).find(|at| self.known.number(*at) != Some(number));
        let expected = self.aliases.len() as u64 * u64::from(self.plan.rounds);
        match lost {
            Some(at) => Err(format!("subscription {at} has {:?}, and {number} is newest", self.known.number(at))),
            None if self.events != expected => Err(format!("{} values came of {expected}", self.events)),
            None => Ok(()),
        }
    }
}

fn name(topic: usize) -> String {
    format!("fan/{topic:08}")
}

/// A packet at the beginning of some bytes: its length, and where it is a PUBLISH, its topic, alias and payload.
struct Whole<'a> {
    length: usize,
    publish: Option<(&'a [u8], u16, &'a [u8])>,
}

fn packet(bytes: &[u8]) -> Option<Whole<'_>> {
    let (mut length, mut at) = (0, 1);
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7F) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if at > 4 {
            return None;
        }
    }
    let body = bytes.get(at..at + length)?;
    if bytes.first()? >> 4 != 3 {
        return Some(Whole { length: at + length, publish: None });
    }
    let (topic_length, rest) = body.split_first_chunk::<2>()?;
    let (topic, rest) = rest.split_at_checked(u16::from_be_bytes(*topic_length).into())?;
    let (count, rest) = rest.split_first()?;
    let (properties, payload) = rest.split_at_checked(usize::from(*count))?;
    let alias = match properties {
        [0x23, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    Some(Whole { length: at + length, publish: Some((topic, alias, payload)) })
}

fn float(number: u64) -> f64 {
    // Far below 2^53.
    format!("{number}").parse().unwrap_or(f64::NAN)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small one of what `cargo xtask sim edges --subscribers N` does: nothing is lost, and each value passes the link of an edge once.
    #[test]
    fn every_subscriber_of_every_edge_gets_every_value() {
        let plan = Plan { subscribers: 400, edges: 0, topics: 200, each: 4, updates_a_ms: 5, rounds: 2 };
        let rows: Vec<Row> = [0, 2, 5].map(|edges| measure(Plan { edges, ..plan }).unwrap()).into();
        for row in &rows {
            assert_eq!(row.events, 400 * 4 * 2, "{row:?}");
            assert!(row.bytes_per_event < 25.0 && row.link_bytes_per_update < 30.0, "{row:?}");
        }
    }
}
