//! Subscribers of a server in this process, for what they take of its heap: their own ends take none.

use super::listen::{ListenRole, connect, subscribe};
use super::plan::Plan;
use super::publish::Publisher;
use super::servers::{Durability, Kind, Purpose, Server};
use super::speech::{Next, Speech};
use super::transport::{Stream, Transport};
use super::trial::{Setting, listeners_of};
use super::values::Form;
use crate::rounds::number;
use anyhow::{Result, bail, ensure};
use std::io::{ErrorKind, Read};

/// Topics of each subscriber.
const SUBSCRIPTIONS_EACH: usize = 100;
/// All topics of [`hold`].
pub const HELD_TOPICS: usize = 2000;

/// A reading is taken as that of a server at rest when so many round trips after it gave none that is smaller.
const ROUND_TRIPS_AT_REST: usize = 500;

/// Rounds of all topics until the sockets of all who read nothing are full: a few are enough.
const ROUNDS_MAX: usize = 200;

/// Who is held.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Subscribers.
    pub subscribers: usize,
    /// Whether they take deltas.
    pub delta: bool,
    /// Whether they read nothing until the sockets of all are full.
    pub stalled: bool,
    /// Threads that have their sockets; 1 is the bus itself.
    pub shards: usize,
}

/// Holds subscribers. Returns what `allocated` says of the server at rest when they are connected, when they have
/// subscribed, and when each has got every topic twice, or `stalled` has got all that it did not read at first.
///
/// # Errors
/// The system does not have what they need, or a connection ended.
pub fn hold(held: Held, allocated: impl Fn() -> usize) -> Result<[usize; 3]> {
    let Held { subscribers, delta, stalled, shards } = held;
    let form = Form::Json;
    let plan = Plan { subscribers, topics: HELD_TOPICS, rate: 1, subscriptions_each: SUBSCRIPTIONS_EACH, form };
    plan.check()?;
    let (kind, transport) = (Kind::Tieline, Transport::Tcp);
    // The buffers of the ledger are the node's: they come and go with the clock, and are no part of a session.
    let durability = Durability::Memory;
    let purpose =
        Purpose { program: None, plan: &plan, sessions: subscribers, transport, durability, shards, upstream: None };
    let server = Server::start(kind, &purpose)?;
    let mut publisher = Publisher::connect(Speech::Mqtt, server.address, true)?;
    publisher.load(&plan)?;
    let role = listeners_of(Setting { delta, ..Setting::plain(kind, transport) }, &plan, &server.door, 0, subscribers);
    let role = ListenRole { stalled, ..role };
    let mut streams = connect(&role)?;
    let connected = at_rest(&mut publisher, &allocated)?;
    subscribe(&role, &mut streams)?;
    let subscribed = at_rest(&mut publisher, &allocated)?;
    if stalled {
        fill(&server, &plan, &mut publisher)?;
        drain(&server, &mut publisher, &mut streams)?;
    } else {
        for _ in 0..2 {
            publisher.load(&plan)?;
            streams.iter_mut().try_for_each(|stream| read_messages(stream, SUBSCRIPTIONS_EACH))?;
        }
    }
    let sent = at_rest(&mut publisher, &allocated)?;
    Ok([connected, subscribed, sent])
}

/// Publishes until no subscriber's socket takes all that is due.
fn fill(server: &Server, plan: &Plan, publisher: &mut Publisher) -> Result<()> {
    for _ in 0..ROUNDS_MAX {
        if late_sessions(server)? >= number(plan.subscribers as u64) {
            // Once more: values that wait are conflated.
            return publisher.load(plan);
        }
        publisher.load(plan)?;
    }
    bail!("sockets that nobody reads take bytes without end")
}

/// Reads until all sockets have taken all.
fn drain(server: &Server, publisher: &mut Publisher, streams: &mut [Stream]) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    for stream in &*streams {
        stream.socket().set_nonblocking(true)?;
    }
    while late_sessions(server)? > 0.0 {
        for stream in &mut *streams {
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => bail!("the server ended a connection"),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        publisher.settle()?;
    }
    Ok(())
}

/// Clients whose socket does not take all that is due.
fn late_sessions(server: &Server) -> Result<f64> {
    server.metric("tieline_mqtt_late_sessions")
}

/// The smallest reading: what a handshake, a full socket, or a batch for the disk takes for a moment is no session's.
fn at_rest(publisher: &mut Publisher, allocated: impl Fn() -> usize) -> Result<usize> {
    let (mut least, mut since) = (usize::MAX, 0);
    while since < ROUND_TRIPS_AT_REST {
        publisher.settle()?;
        let now = allocated();
        since = if now < least { 0 } else { since + 1 };
        least = least.min(now);
    }
    Ok(least)
}

/// Reads until so many messages have come.
fn read_messages(stream: &mut Stream, count: usize) -> Result<()> {
    let (mut bytes, mut came) = (Vec::new(), 0);
    let mut buffer = [0; 4096];
    while came < count {
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the server ended a connection");
        bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let mut used = 0;
        loop {
            match Speech::Mqtt.next(bytes.get(used..).unwrap_or_default())? {
                Next::Part => break,
                Next::Other(length) => used += length,
                Next::Message(length, _) => (used, came) = (used + length, came + 1),
            }
        }
        bytes.drain(..used);
    }
    Ok(())
}
