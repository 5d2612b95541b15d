//! Many subscribers that lose their connections at one moment and come back at once, while others go on.
//!
//! The time is from that moment until the last of them has its subscriptions again. What the others felt is the p99 of
//! their values that were due in that time beside the p99 of those that were due before. Those that come back would be
//! other machines: here they have the processor after the server and the others.

use super::heard::{Told, Window};
use super::listen::{ListenRole, play_connected};
use super::plan::Plan;
use super::player::Player;
use super::publish::{Publisher, now_us};
use super::servers::{Kind, Purpose, Server};
use super::speech::{Speech, next_packet};
use super::transport::{Dialer, Stream, Transport};
use super::trial::{LEAD_US, Role, Setting, TAIL_US, listeners_of, sleep_until, start, start_listeners, subscribe};
use super::{Options, merged};
use crate::latency::Latency;
use crate::process;
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Context, Result, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::vec::IntoIter;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("transport", "transport"),
    ("come back", "returning"),
    ("all are back s", "back_s"),
    ("half", "back_s_p50"),
    ("tries failed", "tries_failed"),
    ("others", "subscribers"),
    ("their events/s", "events_per_s"),
    ("p99 µs before", "latency_us_p99_before"),
    ("meanwhile", "latency_us_p99_meanwhile"),
    ("ratio", "ratio_to_before"),
];

/// How long they may take: so many times the seconds of a measurement.
const LIMIT_SPANS: u64 = 8;
/// Latencies are told apart by so many µs.
pub const EVERY_US: u64 = 50_000;
/// Connections that are begun before it is looked which of them were made.
const BEGIN_GROUP: usize = 64;
/// How long after it failed a connection is tried again.
const RETRY_US: u64 = 250_000;
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// One row: the medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done: `reconnect`.
    pub experiment: &'static str,
    /// How all of them come.
    pub transport: Transport,
    /// How many come back.
    pub returning: usize,
    /// How many others go on.
    pub subscribers: usize,
    /// Topics of each.
    pub subscriptions_each: usize,
    /// Updates a second.
    pub rate_per_s: u64,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Until the last is back.
    pub back_s: f64,
    /// Until half of them are.
    pub back_s_p50: f64,
    /// Connections that failed and were tried again, of all rounds.
    pub tries_failed: u64,
    /// Values of the others, a second.
    pub events_per_s: f64,
    /// Of the others' values that were due before.
    pub latency_us_p99_before: u64,
    /// Of those that were due until the last was back.
    pub latency_us_p99_meanwhile: u64,
    /// The second over the first.
    pub ratio_to_before: f64,
}

/// Runs the experiment once for each transport: `returning` come back, the subscribers of `options` go on.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, returning: usize, progress: &Progress) -> Result<Vec<Row>> {
    let (Some(&subscribers), Some(&rate)) = (options.subscribers.first(), options.rates.first()) else {
        bail!("one number of subscribers and one rate are needed");
    };
    ensure!(options.rounds > 0 && !options.span.is_zero(), "rounds and seconds are more than 0");
    ensure!(!options.transports.contains(&Transport::Ws), "transports are tcp and tls here, found ws");
    let Options { topics, subscriptions_each, form, .. } = *options;
    let plan = Plan { subscribers, topics, rate, subscriptions_each, form };
    plan.check()?;
    process::reserve_descriptors(subscribers + returning, if options.program.is_some() { 1 } else { 2 })?;
    let mut rows = Vec::new();
    for transport in options.transports.iter().copied() {
        let mut storms = Vec::new();
        let mut invalid = None;
        for round in 1..=options.rounds {
            progress.show(&format!("fanout: {returning} come back over {transport:?}, round {round}"));
            match storm(transport, plan, returning, options) {
                Ok(storm) => storms.push(storm),
                Err(why) => {
                    invalid = Some(format!("{returning} over {transport:?}: {why:#}"));
                    break;
                }
            }
        }
        rows.push(Row {
            experiment: "reconnect",
            transport,
            returning,
            subscribers,
            subscriptions_each: options.subscriptions_each,
            rate_per_s: rate,
            rounds: options.rounds,
            figures: invalid.is_none().then(|| figures(&storms)),
            invalid,
        });
    }
    Ok(rows)
}

/// What one round measured.
struct Storm {
    back: Back,
    before: Vec<(u64, u64)>,
    meanwhile: Vec<(u64, u64)>,
    before_s: f64,
}

fn figures(storms: &[Storm]) -> Figures {
    let each = |figure: &dyn Fn(&Storm) -> f64| short(median(&storms.iter().map(figure).collect::<Vec<_>>()));
    let p99 = |counts: &[(u64, u64)]| Latency::of(&merged(counts.iter().copied())).p99;
    let all = |of: fn(&Storm) -> &Vec<(u64, u64)>| p99(&storms.iter().flat_map(of).copied().collect::<Vec<_>>());
    Figures {
        back_s: each(&|storm| number(storm.back.last_us) / 1e6),
        back_s_p50: each(&|storm| number(storm.back.half_us) / 1e6),
        tries_failed: storms.iter().map(|storm| storm.back.failed).sum(),
        events_per_s: each(&|storm| number(storm.before.iter().map(|(_, count)| count).sum::<u64>()) / storm.before_s),
        latency_us_p99_before: all(|storm| &storm.before),
        latency_us_p99_meanwhile: all(|storm| &storm.meanwhile),
        ratio_to_before: each(&|storm| number(p99(&storm.meanwhile)) / number(p99(&storm.before))),
    }
}

fn storm(transport: Transport, plan: Plan, returning: usize, options: &Options) -> Result<Storm> {
    let setting = Setting::plain(Kind::Tieline, transport);
    // A connection that is gone may be seen to be after the one that comes for it.
    let sessions = plan.subscribers + 2 * returning;
    let durability = options.durabilities.first().copied().unwrap_or_default();
    let shards = options.shards.first().copied().unwrap_or(1);
    let program = options.program.as_deref();
    let purpose = Purpose { program, plan: &plan, sessions, transport, durability, shards, upstream: None };
    let server = Server::start(Kind::Tieline, &purpose)?;
    let mut publisher = Publisher::connect(Speech::Mqtt, server.address, options.retain)?;
    publisher.load(&plan)?;
    let role = |first, count| listeners_of(setting, &plan, &server.door, first, count);
    let mut listeners = start_listeners(options, plan.subscribers, role)?;
    subscribe(&mut listeners)?;
    let mut guests = [start(options, &Role::Return(ReturnRole { listen: role(plan.subscribers, returning) }))?];
    guests.iter().try_for_each(|guest| guest.expect("connected"))?;
    subscribe(&mut guests)?;
    guests.iter().try_for_each(Player::stand_back)?;
    let before_us = u64::try_from(options.span.as_micros())?;
    let from_us = now_us() + LEAD_US;
    let (start_us, storm_us) = (from_us - LEAD_US / 2, from_us + before_us);
    let end_us = storm_us + LIMIT_SPANS * before_us;
    let publishing = std::thread::spawn(move || publisher.run(&plan, start_us, end_us + TAIL_US));
    let window = Window { start_us, from_us, to_us: end_us, end_us: end_us + TAIL_US, every_us: EVERY_US };
    let line = serde_json::to_string(&window)?;
    listeners.iter_mut().try_for_each(|listener| listener.tell(&line))?;
    guests.iter_mut().try_for_each(|guest| guest.tell(&serde_json::to_string(&(storm_us, end_us))?))?;
    sleep_until(storm_us);
    let [guests] = &guests;
    let back: Back = guests.told()?;
    let mut told = Told::default();
    for listener in &listeners {
        told.add(listener.told()?);
    }
    publishing.join().map_err(|_| anyhow::anyhow!("the publisher failed"))??;
    told.check(plan.events_between(from_us - start_us, end_us - start_us))?;
    let limit_s = LIMIT_SPANS * before_us / 1_000_000;
    ensure!(back.count == returning, "{} of {returning} were back after {limit_s} s", back.count);
    let [before, meanwhile] = before_and_meanwhile(&told, before_us, before_us + back.last_us);
    Ok(Storm { back, before, meanwhile, before_s: number(before_us) / 1e6 })
}

/// Latencies of what was due before something began, and from then until it was over, both in µs after the first that counts;
/// intervals are of [`EVERY_US`].
pub fn before_and_meanwhile(told: &Told, begins_us: u64, over_us: u64) -> [Vec<(u64, u64)>; 2] {
    let intervals = |us: u64| usize::try_from(us.div_ceil(EVERY_US)).unwrap_or(usize::MAX);
    let (calm, over) = (intervals(begins_us), intervals(over_us));
    [0..calm, calm..over].map(|range| told.latency_us.get(range).unwrap_or_default().concat())
}

/// Subscribers that come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReturnRole {
    /// Who they are.
    pub listen: ListenRole,
}

/// How they came back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Back {
    /// How many did.
    count: usize,
    /// When half of them were back, in µs after they were gone.
    half_us: u64,
    /// When the last was.
    last_us: u64,
    /// Connections that failed.
    failed: u64,
}

/// Plays the role: as subscribers do until they have subscribed; then it is told when all connections are lost and
/// how long they may take, and says [`Back`].
pub fn play_return(role: &ReturnRole, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let streams = play_connected(&role.listen, input, output)?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let (storm_us, end_us): (u64, u64) = serde_json::from_str(&line).context("two times")?;
    let mut guests = Guests::new(&role.listen, streams)?;
    guests.wait_until(storm_us)?;
    let back = guests.come_back(storm_us, end_us)?;
    writeln!(output, "{}", serde_json::to_string(&back)?)?;
    guests.wait_until(end_us)
}

struct Guests<'a> {
    role: &'a ListenRole,
    dialer: Dialer,
    epoll: OwnedFd,
    guests: Vec<Guest>,
    buffer: Vec<u8>,
    /// Who is to dial, and not before when.
    to_dial: VecDeque<(u64, usize)>,
    back_us: Vec<u64>,
    failed: u64,
}

/// One of them, by how far it is.
enum Guest {
    Away,
    Dialing(TcpStream),
    /// With what has come of the answer to CONNECT.
    Greeting(Stream, Vec<u8>),
    /// With what has come of the answer to SUBSCRIBE, and the packets that follow.
    Subscribing(Stream, Vec<u8>, IntoIter<Vec<u8>>),
    Seated(Stream),
}

impl<'a> Guests<'a> {
    fn new(role: &'a ListenRole, streams: Vec<Stream>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, stream) in (0..).zip(&streams) {
            stream.socket().set_nonblocking(true)?;
            epoll::add(&epoll, stream.socket(), epoll::EventData::new_u64(at), epoll::EventFlags::IN)?;
        }
        let guests = streams.into_iter().map(Guest::Seated).collect();
        let (dialer, buffer) = (role.door.dialer()?, vec![0; READ_BYTES]);
        Ok(Self { role, dialer, epoll, guests, buffer, to_dial: VecDeque::new(), back_us: Vec::new(), failed: 0 })
    }

    /// Reads what comes.
    fn wait_until(&mut self, until_us: u64) -> Result<()> {
        while now_us() < until_us {
            self.look(until_us)?;
        }
        Ok(())
    }

    fn come_back(&mut self, storm_us: u64, end_us: u64) -> Result<Back> {
        self.guests.iter_mut().for_each(|guest| *guest = Guest::Away);
        self.to_dial = (0..self.guests.len()).map(|at| (0, at)).collect();
        while self.back_us.len() < self.guests.len() && now_us() < end_us {
            let now = now_us();
            let mut wait_us = now + RETRY_US;
            for _ in 0..BEGIN_GROUP {
                match self.to_dial.front() {
                    Some((due, at)) if *due <= now => {
                        let at = *at;
                        self.to_dial.pop_front();
                        self.dial(at)?;
                        wait_us = now;
                    }
                    Some((due, _)) => {
                        wait_us = wait_us.min(*due);
                        break;
                    }
                    None => break,
                }
            }
            self.look(wait_us)?;
        }
        let after = |us: Option<&u64>| us.map_or(0, |us| us.saturating_sub(storm_us));
        let (count, failed) = (self.back_us.len(), self.failed);
        let half_us = after(self.back_us.get(count / 2));
        Ok(Back { count, half_us, last_us: after(self.back_us.last()), failed })
    }

    fn dial(&mut self, at: usize) -> Result<()> {
        let socket = self.dialer.begin()?;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(at as u64), epoll::EventFlags::OUT)?;
        self.place(at, Guest::Dialing(socket));
        Ok(())
    }

    fn look(&mut self, until_us: u64) -> Result<()> {
        let mut ready = Vec::with_capacity(256);
        let left_us = i64::try_from(until_us.saturating_sub(now_us())).unwrap_or(0);
        let wait = Timespec { tv_sec: left_us / 1_000_000, tv_nsec: left_us % 1_000_000 * 1000 };
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &ready {
            let at = usize::try_from(event.data.u64())?;
            let Some(guest) = self.guests.get_mut(at) else { continue };
            let guest = std::mem::replace(guest, Guest::Away);
            match self.step(at, guest) {
                Ok(guest) => self.place(at, guest),
                Err(_) => {
                    // Dropped, the socket has left the epoll instance.
                    self.failed += 1;
                    self.to_dial.push_back((now_us() + RETRY_US, at));
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, at: usize, guest: Guest) {
        if let Some(place) = self.guests.get_mut(at) {
            *place = guest;
        }
    }

    fn step(&mut self, at: usize, guest: Guest) -> Result<Guest> {
        let role = self.role;
        match guest {
            Guest::Away => Ok(Guest::Away),
            Guest::Dialing(socket) => {
                if let Some(error) = socket.take_error()? {
                    return Err(error.into());
                }
                let data = epoll::EventData::new_u64(at as u64);
                epoll::modify(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
                let mut stream = self.dialer.over(socket)?;
                role.speech.greet(&mut stream, role.first + at, "live")?;
                Ok(Guest::Greeting(stream, Vec::new()))
            }
            Guest::Greeting(mut stream, mut got) => {
                self.read(&mut stream, Some(&mut got))?;
                match answer(&mut got, 2)? {
                    None => Ok(Guest::Greeting(stream, got)),
                    Some(connack) => {
                        ensure!(connack.get(1) == Some(&0), "refused");
                        let mut packets = role.subscriptions(role.first + at)?.into_iter();
                        stream.write_all(&packets.next().unwrap_or_default())?;
                        Ok(Guest::Subscribing(stream, got, packets))
                    }
                }
            }
            Guest::Subscribing(mut stream, mut got, mut packets) => {
                self.read(&mut stream, Some(&mut got))?;
                if answer(&mut got, 9)?.is_none() {
                    return Ok(Guest::Subscribing(stream, got, packets));
                }
                if let Some(packet) = packets.next() {
                    stream.write_all(&packet)?;
                    return Ok(Guest::Subscribing(stream, got, packets));
                }
                self.back_us.push(now_us());
                Ok(Guest::Seated(stream))
            }
            Guest::Seated(mut stream) => {
                self.read(&mut stream, None)?;
                Ok(Guest::Seated(stream))
            }
        }
    }

    /// One read, kept where it is wanted.
    fn read(&mut self, stream: &mut Stream, got: Option<&mut Vec<u8>>) -> Result<()> {
        match stream.read(&mut self.buffer) {
            Ok(0) => bail!("the connection ended"),
            Ok(count) => {
                if let Some(got) = got {
                    got.extend_from_slice(self.buffer.get(..count).unwrap_or_default());
                }
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes packets off the front up to the first of a kind; its body, where it is here.
fn answer(got: &mut Vec<u8>, kind: u8) -> Result<Option<Vec<u8>>> {
    while let Some((found, bytes, body)) = next_packet(got)? {
        let body = (found == kind).then(|| body.to_vec());
        got.drain(..bytes);
        if body.is_some() {
            return Ok(body);
        }
    }
    Ok(None)
}
