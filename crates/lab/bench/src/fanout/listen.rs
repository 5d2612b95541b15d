//! The subscribers: a process that holds their connections in one epoll instance.

use super::heard::{Heard, Told, Window};
use super::plan::Plan;
use super::publish::now_us;
use super::speech::Speech;
use super::transport::{Door, Stream};
use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::time::Duration;

/// Connections that are made before the first of them is waited for.
const CONNECT_GROUP: usize = 128;
/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;
/// Bytes that the kernel keeps for a subscriber that reads nothing.
const STALLED_BYTES: usize = 4096;
/// How long it must be quiet after the last update until nothing more is to come.
const QUIET_US: u64 = 500_000;

/// Some subscribers of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListenRole {
    /// The run.
    pub plan: Plan,
    /// What the server speaks.
    pub speech: Speech,
    /// Where it listens.
    pub door: Door,
    /// The first subscriber here.
    pub first: usize,
    /// Subscribers here.
    pub count: usize,
    /// They read nothing once they have subscribed.
    pub stalled: bool,
    /// User properties of the subscriptions.
    pub user_properties: Vec<(String, String)>,
}

/// Plays the role: says `connected`, is told to go on, says `subscribed`, is told a [`Window`], says [`Told`].
pub fn play_listen(role: &ListenRole, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let streams = play_connected(role, input, output)?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let window: Window = serde_json::from_str(&line).context("a window")?;
    if role.stalled {
        // Held open until the run is over.
        let left_us = window.end_us.saturating_sub(now_us()) + QUIET_US;
        std::thread::sleep(Duration::from_micros(left_us));
        return Ok(writeln!(output, "{}", serde_json::to_string(&Told::default())?)?);
    }
    let told = Listeners::new(role, window, streams)?.run()?;
    Ok(writeln!(output, "{}", serde_json::to_string(&told)?)?)
}

/// Plays the role until all have subscribed.
pub fn play_connected(role: &ListenRole, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<Vec<Stream>> {
    let mut streams = connect(role)?;
    writeln!(output, "connected")?;
    input.read_line(&mut String::new())?;
    subscribe(role, &mut streams)?;
    writeln!(output, "subscribed")?;
    Ok(streams)
}

/// Connects all.
pub fn connect(role: &ListenRole) -> Result<Vec<Stream>> {
    let (mut streams, dialer) = (Vec::with_capacity(role.count), role.door.dialer()?);
    for group in numbers(role) {
        let mut made = Vec::new();
        for number in group {
            let mut stream = dialer.connect(role.stalled.then_some(STALLED_BYTES))?;
            role.speech.greet(&mut stream, number, if role.stalled { "stalled" } else { "live" })?;
            made.push(stream);
        }
        made.iter_mut().try_for_each(|stream| role.speech.await_in(stream))?;
        streams.append(&mut made);
    }
    Ok(streams)
}

/// Lets all subscribe: each sends the next of its packets when the one before is answered.
pub fn subscribe(role: &ListenRole, streams: &mut [Stream]) -> Result<()> {
    for (group, numbers) in streams.chunks_mut(CONNECT_GROUP).zip(numbers(role)) {
        let packets: Vec<Vec<Vec<u8>>> = numbers.map(|number| role.subscriptions(number)).collect::<Result<_>>()?;
        for round in 0..packets.iter().map(Vec::len).max().unwrap_or(0) {
            let asking = || packets.iter().map(|packets| packets.get(round));
            for (stream, packet) in group.iter_mut().zip(asking()) {
                stream.write_all(packet.map_or(&[], Vec::as_slice))?;
            }
            for (stream, _) in group.iter_mut().zip(asking()).filter(|(_, packet)| packet.is_some()) {
                role.speech.await_subscribed(stream)?;
            }
        }
    }
    Ok(())
}

impl ListenRole {
    /// The packets that subscribe one of them.
    pub fn subscriptions(&self, number: usize) -> Result<Vec<Vec<u8>>> {
        let topics = (0..self.plan.subscriptions_each).map(|n| self.plan.topic_of(number, n));
        self.speech.subscribe(topics, &self.user_properties)
    }
}

fn numbers(role: &ListenRole) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (first, end) = (role.first, role.first + role.count);
    (first..end).step_by(CONNECT_GROUP).map(move |from| from..(from + CONNECT_GROUP).min(end))
}

struct Listeners {
    epoll: OwnedFd,
    /// When the last update is due.
    end_us: u64,
    subscribers: Vec<Subscriber>,
    heard: Heard,
}

/// One subscriber.
struct Subscriber {
    stream: Stream,
    /// A message that has come in part.
    part: Vec<u8>,
}

impl Listeners {
    fn new(role: &ListenRole, window: Window, streams: Vec<Stream>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, stream) in (0..).zip(&streams) {
            stream.socket().set_nonblocking(true)?;
            epoll::add(&epoll, stream.socket(), epoll::EventData::new_u64(at), epoll::EventFlags::IN)?;
        }
        let deltas = role.user_properties.iter().any(|(name, _)| name == tieline_delta::PROPERTY);
        let subscribers = streams.into_iter().map(|stream| Subscriber { stream, part: Vec::new() }).collect();
        let heard = Heard::new(role.plan, role.speech, (role.first, role.count), deltas, window)?;
        Ok(Self { epoll, end_us: window.end_us, subscribers, heard })
    }

    fn run(mut self) -> Result<Told> {
        let mut buffer = vec![0; READ_BYTES];
        let mut ready = Vec::with_capacity(1024);
        let mut heard = now_us();
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            let now = now_us();
            if now > self.end_us.max(heard) + QUIET_US {
                break;
            }
            ready.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &ready {
                let at = usize::try_from(event.data.u64())?;
                heard = self.read(at, &mut buffer)?;
            }
        }
        Ok(self.heard.told())
    }

    fn read(&mut self, at: usize, buffer: &mut [u8]) -> Result<u64> {
        let subscriber = self.subscribers.get_mut(at).context("an event of no subscriber")?;
        let read = match subscriber.stream.read(buffer) {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(now_us()),
            Err(_) => 0,
        };
        let now = now_us();
        if read == 0 {
            self.heard.broke();
            epoll::delete(&self.epoll, subscriber.stream.socket())?;
            return Ok(now);
        }
        let mut part = std::mem::take(&mut subscriber.part);
        let fresh = buffer.get(..read).unwrap_or_default();
        let used = if part.is_empty() {
            let used = self.heard.take(at, now, fresh)?;
            part.extend_from_slice(fresh.get(used..).unwrap_or_default());
            0
        } else {
            part.extend_from_slice(fresh);
            self.heard.take(at, now, &part)?
        };
        part.drain(..used);
        if let Some(subscriber) = self.subscribers.get_mut(at) {
            subscriber.part = if part.is_empty() { Vec::new() } else { part };
        }
        Ok(now)
    }
}
