//! The subscribers: a process that holds their connections in one epoll instance and compares every value.

use super::plan::{Plan, topic_of};
use super::publish::now_us;
use super::quote;
use super::rebuild::Rebuild;
use super::speech::{Arrived, Next, Speech};
use super::transport::{Door, Stream};
use super::values::{Form, Points};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::time::Duration;
use tieline_core::Body;

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

/// The values that count: those whose time lies in here, in µs of the monotonic clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Window {
    /// When the first update is due.
    pub start_us: u64,
    /// The first that counts.
    pub from_us: u64,
    /// The first that does not.
    pub to_us: u64,
    /// When the last update is due.
    pub end_us: u64,
    /// Latencies are told apart by intervals of this length.
    pub every_us: u64,
}

impl Window {
    /// The same with another zero.
    pub const fn after(self, start_us: u64) -> Self {
        Self {
            start_us: start_us + self.start_us,
            from_us: start_us + self.from_us,
            to_us: start_us + self.to_us,
            end_us: start_us + self.end_us,
            every_us: self.every_us,
        }
    }
}

/// What some subscribers got.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Values that count, each once.
    pub delivered: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Messages that came while values that count were due, whichever they carry.
    pub received: u64,
    /// Messages that were not what was published, or not for this subscriber.
    pub wrong: u64,
    /// Values that came a second time, or after a newer one.
    pub doubled: u64,
    /// Connections that ended.
    pub broken: u64,
    /// µs from when a value was due until it came, and how often, by interval of when it was due.
    pub latency_us: Vec<Vec<(u64, u64)>>,
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

struct Listeners<'a> {
    role: &'a ListenRole,
    window: Window,
    epoll: OwnedFd,
    subscribers: Vec<Subscriber>,
    slots: Vec<u32>,
    /// The time of the newest value of each subscription.
    newest: Vec<u64>,
    points: Points,
    /// What rebuilds values; none without deltas.
    rebuild: Option<Rebuild>,
    told: Told,
    /// By interval.
    latency: Vec<Histogram<u64>>,
}

/// One subscriber.
struct Subscriber {
    stream: Stream,
    /// A message that has come in part.
    part: Vec<u8>,
    /// Topics by alias.
    aliases: Vec<u32>,
}

impl<'a> Listeners<'a> {
    fn new(role: &'a ListenRole, window: Window, streams: Vec<Stream>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, stream) in (0..).zip(&streams) {
            stream.socket().set_nonblocking(true)?;
            epoll::add(&epoll, stream.socket(), epoll::EventData::new_u64(at), epoll::EventFlags::IN)?;
        }
        let subscriptions = role.count * role.plan.subscriptions_each;
        let deltas = role.user_properties.iter().any(|(name, _)| name == tieline_delta::PROPERTY);
        let intervals = (window.to_us - window.from_us).div_ceil(window.every_us);
        let latency = (0..intervals).map(|_| Histogram::new(3)).collect::<Result<_, _>>()?;
        let subscribers =
            streams.into_iter().map(|stream| Subscriber { stream, part: Vec::new(), aliases: Vec::new() }).collect();
        Ok(Self {
            role,
            window,
            epoll,
            subscribers,
            slots: role.plan.slots(),
            newest: vec![0; subscriptions],
            points: Points::new(role.plan, window.start_us),
            rebuild: deltas.then(|| Rebuild::new(&role.plan, subscriptions)),
            told: Told::default(),
            latency,
        })
    }

    fn run(mut self) -> Result<Told> {
        let mut buffer = vec![0; READ_BYTES];
        let mut ready = Vec::with_capacity(1024);
        let mut heard = now_us();
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            let now = now_us();
            if now > self.window.end_us.max(heard) + QUIET_US {
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
        let counts = |all: &Histogram<u64>| {
            all.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect::<Vec<_>>()
        };
        self.told.latency_us = self.latency.iter().map(counts).collect();
        Ok(self.told)
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
            self.told.broken += 1;
            epoll::delete(&self.epoll, subscriber.stream.socket())?;
            return Ok(now);
        }
        let mut part = std::mem::take(&mut subscriber.part);
        let fresh = buffer.get(..read).unwrap_or_default();
        let used = if part.is_empty() {
            let used = self.take(at, now, fresh)?;
            part.extend_from_slice(fresh.get(used..).unwrap_or_default());
            0
        } else {
            part.extend_from_slice(fresh);
            self.take(at, now, &part)?
        };
        part.drain(..used);
        if let Some(subscriber) = self.subscribers.get_mut(at) {
            subscriber.part = if part.is_empty() { Vec::new() } else { part };
        }
        Ok(now)
    }

    /// Takes all whole messages; how many bytes they were.
    fn take(&mut self, at: usize, now: u64, bytes: &[u8]) -> Result<usize> {
        let mut used = 0;
        loop {
            match self.role.speech.next(bytes.get(used..).unwrap_or_default())? {
                Next::Part => return Ok(used),
                Next::Other(bytes) => used += bytes,
                Next::Message(bytes, arrived) => {
                    used += bytes;
                    match self.value(at, arrived) {
                        Some((place, time_us)) => self.count(place, time_us, now, bytes),
                        None => self.told.wrong += 1,
                    }
                }
            }
        }
    }

    /// The subscription that a message belongs to and its value's time, where both are as they should be.
    fn value(&mut self, at: usize, arrived: Arrived<'_>) -> Option<(usize, u64)> {
        let subscriber = self.subscribers.get_mut(at)?;
        let alias = usize::from(arrived.alias);
        let topic = if arrived.topic.is_empty() {
            *subscriber.aliases.get(alias)? as usize
        } else {
            let topic = topic_of(arrived.topic)?;
            if alias > 0 {
                subscriber.aliases.resize(subscriber.aliases.len().max(alias + 1), u32::MAX);
                *subscriber.aliases.get_mut(alias)? = u32::try_from(topic).ok()?;
            }
            topic
        };
        let slot = *self.slots.get(topic)? as usize;
        let subscription = self.role.plan.subscription_of(self.role.first + at, slot)?;
        let place = at * self.role.plan.subscriptions_each + subscription;
        let (payload, points) = (arrived.payload, &self.points);
        let time_us = match (&mut self.rebuild, self.role.plan.form) {
            (None, Form::Json) => quote::read(payload, topic),
            (None, Form::Point) => points.due_us(topic, &Body::Opaque(Bytes::copy_from_slice(payload))),
            (Some(rebuild), _) => rebuild.due_us(points, place, topic, *self.newest.get(place)?, payload),
        };
        Some((place, time_us?))
    }

    fn count(&mut self, place: usize, time_us: u64, now: u64, bytes: usize) {
        let Some(newest) = self.newest.get_mut(place) else { return };
        if time_us <= *newest {
            self.told.doubled += 1;
            return;
        }
        *newest = time_us;
        let Window { from_us, to_us, every_us, .. } = self.window;
        self.told.received += u64::from((from_us..to_us).contains(&now));
        if (from_us..to_us).contains(&time_us) {
            self.told.delivered += 1;
            self.told.bytes += bytes as u64;
            let interval = usize::try_from((time_us - from_us) / every_us).unwrap_or(usize::MAX);
            if let Some(latency) = self.latency.get_mut(interval) {
                // It grows as it must.
                let _ = latency.record(now.saturating_sub(time_us).max(1));
            }
        }
    }
}

impl Told {
    /// Adds what others got.
    pub fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.received += other.received;
        self.wrong += other.wrong;
        self.doubled += other.doubled;
        self.broken += other.broken;
        self.latency_us.resize(self.latency_us.len().max(other.latency_us.len()), Vec::new());
        for (interval, counts) in self.latency_us.iter_mut().zip(other.latency_us) {
            interval.extend(counts);
        }
    }

    /// That everything came and nothing else did.
    pub fn check(&self, expected: u64) -> Result<()> {
        ensure!(self.broken == 0, "{} connections ended", self.broken);
        ensure!(self.wrong == 0, "{} messages were not what was published", self.wrong);
        ensure!(self.doubled == 0, "{} values came twice or out of order", self.doubled);
        if self.delivered != expected {
            bail!("{} of {expected} events were lost", expected.saturating_sub(self.delivered));
        }
        Ok(())
    }
}
