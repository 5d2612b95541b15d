//! Subscribers of a server in this process, for what they take of its heap: their own ends take none.

use super::listen::{connect, subscribe};
use super::plan::Plan;
use super::publish::Publisher;
use super::servers::{Durability, Kind, Purpose, Server};
use super::speech::{Next, Speech};
use super::transport::{Stream, Transport};
use super::trial::{Setting, listeners_of};
use super::values::Form;
use anyhow::{Result, ensure};
use std::io::Read;

/// Topics of each subscriber.
const SUBSCRIPTIONS_EACH: usize = 100;
/// All topics of [`hold`].
pub const HELD_TOPICS: usize = 2000;

/// A reading is taken as that of a server at rest when so many round trips after it gave none that is smaller.
const ROUND_TRIPS_AT_REST: usize = 500;

/// Holds so many subscribers. Returns what `allocated` says of the server at rest when they are connected, when they have
/// subscribed, and when each has got every topic twice.
///
/// # Errors
/// The system does not have what they need, or a connection ended.
pub fn hold(subscribers: usize, delta: bool, allocated: impl Fn() -> usize) -> Result<[usize; 3]> {
    let form = Form::Json;
    let plan = Plan { subscribers, topics: HELD_TOPICS, rate: 1, subscriptions_each: SUBSCRIPTIONS_EACH, form };
    plan.check()?;
    let (kind, transport) = (Kind::Tieline, Transport::Tcp);
    // The buffers of the ledger are the node's: they come and go with the clock, and are no part of a session.
    let durability = Durability::Memory;
    let purpose = Purpose { program: None, plan: &plan, sessions: subscribers, transport, durability };
    let server = Server::start(kind, &purpose)?;
    let mut publisher = Publisher::connect(Speech::Mqtt, server.address, true)?;
    publisher.load(&plan)?;
    let role = listeners_of(Setting { delta, ..Setting::plain(kind, transport) }, &plan, &server.door, 0, subscribers);
    let mut streams = connect(&role)?;
    let connected = at_rest(&mut publisher, &allocated)?;
    subscribe(&role, &mut streams)?;
    let subscribed = at_rest(&mut publisher, &allocated)?;
    for _ in 0..2 {
        publisher.load(&plan)?;
        streams.iter_mut().try_for_each(|stream| read_messages(stream, SUBSCRIPTIONS_EACH))?;
    }
    let sent = at_rest(&mut publisher, &allocated)?;
    Ok([connected, subscribed, sent])
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
    let (mut octets, mut came) = (Vec::new(), 0);
    let mut buffer = [0; 4096];
    while came < count {
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the server ended a connection");
        octets.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let mut used = 0;
        loop {
            match Speech::Mqtt.next(octets.get(used..).unwrap_or_default())? {
                Next::Part => break,
                Next::Other(length) => used += length,
                Next::Message(length, _) => (used, came) = (used + length, came + 1),
            }
        }
        octets.drain(..used);
    }
    Ok(())
}
