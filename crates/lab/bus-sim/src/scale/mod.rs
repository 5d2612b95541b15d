//! What subscribers of edges cost the core and the edges, in virtual time and without sockets: so many as no machine has sockets for.
//!
//! ```text
//! publisher ═ core ═ Link, with deltas ═ edge 0 ═ sinks
//!                  ═ Link               ═ edge 1 ═ sinks …
//! ```
//!
//! Nodes, their sessions and the subscriptions are production code; topics, values, subscriptions and the check of what came are those
//! of `tieline bench edges` ([`load`]). Each sink gets every value of its topics, or the run fails.
//!
//! **The processor time of a node is that of its tasks alone**, while no other node runs: before what is measured is published, links
//! become long, that of each edge longer than the last by the time in which all is published. So the core does all its work, then the
//! first edge all of its, then the next. Each is warmed up with a round of updates that does not count, and what came is looked at
//! afterwards: the processor's caches hold what the node itself needs, as those of a machine of its own do. A figure is the median over
//! parts of the run, so that other load on this machine does little to it. No system calls for sockets are in it.
//!
//! Read first: [`measure`]; `check.rs` compares with processes.

pub mod check;
pub mod report;
mod sink;

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
use tieline_bench::fanout::load::{self, Heard, Speech, Window, Writer, name};
use tieline_mqtt::{ClientConfig, ClientEvent, ClientSession, Message, Qos, Text};
use tieline_net::{Carrier, Clock, Counters, Limits, Owner, Session, Shard};
use tokio::time::{Instant, sleep, sleep_until};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Topics, subscribers and subscriptions, as of a benchmark. Here one update follows the other in a millisecond, whatever the rate;
    /// the times in their values are those of the rate.
    pub load: load::Plan,
    /// Edges; none: the core serves the subscribers itself.
    pub edges: usize,
    /// The time in the value of the first update, in µs.
    pub start_us: u64,
    /// Updates until every subscriber has a value of each of its topics; nothing is measured.
    pub settle: u64,
    /// Updates that warm a node up before it is measured.
    pub warm: u64,
    /// Updates that count.
    pub counted: u64,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Values that counted and came; none was lost, or there is nothing.
    pub events: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Processor time of the core for an update, in µs.
    pub core_us_per_update: f64,
    /// Processor time of all that serve subscribers for a value that one got, in µs.
    pub us_per_event: f64,
    /// Bytes of an update on the link of one edge.
    pub link_bytes_per_update: f64,
}

const WALL_US: i64 = 1_795_900_000_000_000;
/// Subscribers that come at once.
const GROUP: usize = 500;
/// From one update to the next.
const STEP: Duration = Duration::from_millis(1);
/// Until nothing moves after an update.
const QUIET: Duration = Duration::from_millis(100);
/// Parts of what is measured, of which the figure is the median.
const PARTS: u64 = 10;
/// How long an edge may hear nothing: a question to its upstream comes after three eighths of its `silence`, and has half of it.
const LAG_MAX: Duration = Duration::from_secs(500);
/// Whole values that come between two looks.
const LOOK_EVENTS: u64 = 20_000;

struct World {
    plan: Plan,
    core: SimNode,
    edges: Vec<(SimNode, Rc<RefCell<Option<Link>>>)>,
    /// Nodes write to it one after the other.
    log: Log,
    publisher: Session<ClientSession>,
    writer: Writer,
    heard: Heard,
    /// When a value came: all at once.
    now_us: u64,
}

/// Processor time for an update, and bytes.
struct Costs {
    core_us: f64,
    /// Of all edges together.
    serving_us: f64,
    link_bytes: u64,
}

struct Quiet;

impl Owner<ClientSession> for Quiet {
    fn event(&mut self, _: &Session<ClientSession>, _: tieline_core::Now, _: ClientEvent) {}
}

/// Runs one plan.
///
/// # Errors
/// A subscriber has missed a value, or got one that nobody published; the plan is not one.
pub fn measure(plan: Plan) -> Result<Found, String> {
    plan.load.check().map_err(|why| format!("{why:#}"))?;
    if plan.counted < PARTS {
        return Err(format!("{} updates count, expected {PARTS} or more", plan.counted));
    }
    if plan.lag() > LAG_MAX {
        return Err(format!("the last edge would wait {:?} for its turn, expected {LAG_MAX:?} at most", plan.lag()));
    }
    in_virtual_time(async { World::new(plan)?.run().await })
}

impl World {
    fn new(plan: Plan) -> Result<Self, String> {
        let wall: &'static AtomicI64 = Box::leak(Box::new(AtomicI64::new(WALL_US)));
        let numbers = Rc::new(Cell::new(1 << 40));
        let common = format!(
            "workers = 1\n[history]\nenabled = false\n[mqtt]\nsessions_max = {}\ntopics_max = {}\n",
            plan.load.subscribers + 100,
            plan.load.topics + 1000
        );
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
        let (from_us, to_us) = (plan.due_us(plan.first()), plan.due_us(plan.end()));
        let window = Window { start_us: plan.start_us, from_us, to_us, end_us: to_us, every_us: to_us - from_us };
        let all = (0, plan.load.subscribers);
        let heard = Heard::new(plan.load, Speech::Mqtt, all, true, window).map_err(|why| format!("{why:#}"))?;
        let writer = Writer::new(&plan.load);
        Ok(Self { plan, core, edges, log: Log::default(), publisher, writer, heard, now_us: from_us })
    }

    async fn run(mut self) -> Result<Found, String> {
        let plan = self.plan;
        sleep(Duration::from_secs(1)).await;
        for topic in 0..plan.load.topics {
            self.publish(topic, 0, 0)?;
            sleep(STEP).await;
        }
        sleep(QUIET).await;
        self.seat().await?;
        self.settle().await?;
        let costs = self.one_after_the_other().await?;
        let told = self.heard.told();
        let (from_us, to_us) = (plan.load.due_us(plan.first()), plan.load.due_us(plan.end()));
        told.check(plan.load.events_between(from_us, to_us)).map_err(|why| format!("{why:#}"))?;
        let serving = if plan.edges == 0 { costs.core_us } else { costs.serving_us };
        let link_updates = float((plan.warm + plan.counted) * plan.edges.max(1) as u64);
        Ok(Found {
            events: told.delivered,
            bytes: told.bytes,
            core_us_per_update: costs.core_us,
            us_per_event: serving * float(plan.counted) / float(told.delivered),
            link_bytes_per_update: float(costs.link_bytes) / link_updates,
        })
    }

    /// All subscribers come, spread evenly.
    async fn seat(&mut self) -> Result<(), String> {
        let all = self.plan.load.subscribers;
        let wish = [(tieline_delta::PROPERTY.to_owned(), "point,hunk".to_owned())];
        for first in (0..all).step_by(GROUP) {
            for subscriber in first..(first + GROUP).min(all) {
                let topics = (0..self.plan.load.subscriptions_each).map(|at| self.plan.load.topic_of(subscriber, at));
                let says = Speech::Mqtt.hello(subscriber, "live").and_then(|mut says| {
                    Speech::Mqtt.subscribe(topics, &wish)?.into_iter().for_each(|packet| says.extend(packet));
                    Ok(says)
                });
                let says = says.map_err(|why| format!("{why:#}"))?;
                let at = subscriber * self.plan.edges / all;
                let node = self.edges.get(at).map_or(&self.core, |(edge, _)| edge);
                let sink = Sink::new(u32::try_from(subscriber).unwrap_or(u32::MAX), says, &self.log);
                node.enter((Box::new(sink) as Box<dyn Carrier>).into(), subscriber as u64);
            }
            sleep(STEP).await;
            self.look()?;
        }
        sleep(Duration::from_secs(1)).await;
        self.look()
    }

    /// Every subscriber gets a value of each of its topics.
    async fn settle(&mut self) -> Result<(), String> {
        let events =
            (self.plan.load.subscribers * self.plan.load.subscriptions_each / self.plan.load.topics).max(1) as u64;
        for update in 0..self.plan.settle {
            self.update(update)?;
            sleep(STEP).await;
            if update.is_multiple_of((LOOK_EVENTS / events).max(1)) {
                self.look()?;
            }
        }
        sleep(QUIET).await;
        self.look()
    }

    /// Publishes what is measured; first the core does all its work, then one edge after the other does.
    async fn one_after_the_other(&mut self) -> Result<Costs, String> {
        let (warm, counted) = (self.plan.warm, self.plan.counted);
        let span = self.plan.span();
        let (began, mut lag) = (Instant::now(), span);
        for (_, link) in &self.edges {
            link.borrow().as_ref().ok_or("an edge without a link")?.lag_to_client(lag);
            lag += span;
        }
        let link_bytes = self.link_bytes();
        let mut times = Vec::new();
        for update in 0..warm + counted {
            sleep_until(began + STEP * u32::try_from(update).unwrap_or(u32::MAX)).await;
            if is_mark(update, warm, counted) {
                times.push(self.core.cpu());
            }
            self.update(self.plan.settle + update)?;
        }
        sleep_until(began + span).await;
        times.push(self.core.cpu());
        let part = float(counted / PARTS);
        let link_bytes = self.link_bytes() - link_bytes;
        let mut costs = Costs { core_us: part_us(&times) / part, serving_us: 0.0, link_bytes };
        self.look()?;
        let mut begins = began + span;
        for at in 0..self.edges.len() {
            let edge = self.edges.get(at).map(|(edge, _)| edge.clone()).ok_or("an edge")?;
            let mut times = Vec::new();
            for update in (warm..warm + counted).filter(|update| is_mark(*update, warm, counted)) {
                sleep_until(begins + STEP * u32::try_from(update).unwrap_or(u32::MAX)).await;
                times.push(edge.cpu());
            }
            begins += span;
            sleep_until(begins).await;
            times.push(edge.cpu());
            costs.serving_us += part_us(&times) / part;
            self.look()?;
        }
        Ok(costs)
    }

    /// Bytes that were sent to all edges so far.
    fn link_bytes(&self) -> u64 {
        self.edges.iter().filter_map(|(_, link)| Some(link.borrow().as_ref()?.sent_to_client())).sum()
    }

    fn update(&mut self, update: u64) -> Result<(), String> {
        let load = self.plan.load;
        self.publish(load.topic_at(update), load.round_of(update), self.plan.due_us(update))
    }

    fn publish(&mut self, topic: usize, round: u64, due_us: u64) -> Result<(), String> {
        let name = tieline_core::Topic::new(&name(topic, '/')).map_err(|error| error.to_string())?;
        let value = self.writer.write(topic, round, due_us).to_vec();
        let taken = self.publisher.with(|m, now| m.publish(Message::new(name, value, now.mono), Qos::AtMostOnce, true));
        taken.map(drop).map_err(|error| format!("the publisher cannot publish: {error:?}"))
    }

    /// Looks at what came.
    fn look(&mut self) -> Result<(), String> {
        let (heard, now_us) = (&mut self.heard, self.now_us);
        self.log.look(|subscriber, bytes| {
            let at = usize::try_from(subscriber).unwrap_or(usize::MAX);
            match heard.take(at, now_us, bytes) {
                Ok(used) if used == bytes.len() => Ok(()),
                Ok(_) => Err(format!("subscriber {subscriber}: a packet that is not whole")),
                Err(why) => Err(format!("subscriber {subscriber}: {why:#}")),
            }
        })
    }
}

impl Plan {
    /// In which one node does all its work.
    const fn span(&self) -> Duration {
        Duration::from_millis(self.warm + self.counted).saturating_add(QUIET)
    }

    /// How long what is sent to the last edge is under way.
    fn lag(&self) -> Duration {
        self.span().saturating_mul(u32::try_from(self.edges).unwrap_or(u32::MAX))
    }

    /// The first update that counts.
    const fn first(&self) -> u64 {
        self.settle + self.warm
    }

    /// The first that does not.
    const fn end(&self) -> u64 {
        self.first() + self.counted
    }

    const fn due_us(&self, update: u64) -> u64 {
        self.start_us + self.load.due_us(update)
    }
}

/// Whether a part begins with an update.
const fn is_mark(update: u64, warm: u64, counted: u64) -> bool {
    update >= warm && (update - warm).is_multiple_of(counted / PARTS) && (update - warm) / (counted / PARTS) < PARTS
}

/// The median of the times between, in µs.
fn part_us(times: &[Duration]) -> f64 {
    let mut parts: Vec<Duration> =
        times.iter().zip(times.iter().skip(1)).map(|(before, after)| after.saturating_sub(*before)).collect();
    parts.sort_unstable();
    let middle = parts.len() / 2;
    match (parts.get(middle.wrapping_sub(1)), parts.get(middle)) {
        (Some(low), Some(high)) if parts.len().is_multiple_of(2) => (*low + *high).as_secs_f64() * 5e5,
        (_, high) => high.map_or(f64::NAN, |high| high.as_secs_f64() * 1e6),
    }
}

fn float(number: u64) -> f64 {
    // Far below 2^53.
    format!("{number}").parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_bench::fanout::Form;

    /// A small one of what `cargo xtask sim edges --subscribers N` does: nothing is lost, and each value passes the link of an edge once.
    #[test]
    fn every_subscriber_of_every_edge_gets_every_value() {
        let load = load::Plan { subscribers: 400, topics: 200, rate: 5000, subscriptions_each: 4, form: Form::Json };
        let plan = Plan { load, edges: 0, start_us: 1_000_000, settle: 200, warm: 200, counted: 400 };
        let found: Vec<Found> = [0, 2, 5].map(|edges| measure(Plan { edges, ..plan }).unwrap()).into();
        for row in &found {
            assert_eq!(row.events, 400 * 4 * 2, "{row:?}");
            assert_eq!(row.bytes, found[0].bytes, "deltas pass an edge unchanged: {row:?}");
            assert!(row.bytes < row.events * 25 && row.link_bytes_per_update < 30.0, "{row:?}");
            assert!(row.core_us_per_update > 0.0 && row.us_per_event > 0.0, "{row:?}");
        }
        assert!(measure(Plan { counted: 9, ..plan }).unwrap_err().contains("10 or more"));
        assert!(measure(Plan { edges: 1000, ..plan }).unwrap_err().contains("would wait"));
    }
}
