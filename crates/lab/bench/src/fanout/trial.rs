//! One server under one load, from its start to its end.

use super::Options;
use super::floor::{FloorRole, play_floor};
use super::heard::{Told, Window};
use super::listen::{ListenRole, play_listen};
use super::plan::Plan;
use super::player::Player;
use super::publish::{Publisher, now_us};
use super::reconnect::{ReturnRole, play_return};
use super::servers::{Durability, Kind, Purpose, Server};
use super::transport::{Door, Transport};
use crate::process::{Quota, cpu_s_of, resident_bytes_of, threads_cpu_s_of};
use crate::rounds::number;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Subscribers of one process: each takes a descriptor.
const SUBSCRIBERS_A_PROCESS: usize = 15_000;
/// How the names of our threads begin that have the sockets.
const SOCKET_THREADS: &str = "sockets-";
/// The one that has them where there are none of those.
const BUS_THREAD: &str = "bus";
/// From when all are told until the first update is due.
pub const LEAD_US: u64 = 300_000;
/// Updates go on for so long after the last that counts.
pub const TAIL_US: u64 = 200_000;

/// A part that a process of its own plays.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Subscribers.
    Listen(ListenRole),
    /// The floor.
    Floor(FloorRole),
    /// Subscribers that come back all at once.
    Return(ReturnRole),
}

/// Plays the role that a parent process gave as text, told by `input` and answering to `output`.
///
/// # Errors
/// The text is no role, or its part could not be played.
pub fn play(text: &str, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    match serde_json::from_str(text).context("--role")? {
        Role::Listen(role) => {
            crate::process::reserve_descriptors(role.count, 1)?;
            play_listen(&role, input, output)
        }
        Role::Floor(role) => {
            crate::process::reserve_descriptors(role.sockets, 1)?;
            play_floor(&role, input, output)
        }
        Role::Return(role) => {
            crate::process::reserve_descriptors(role.listen.count, 1)?;
            play_return(&role, input, output)
        }
    }
}

/// What one trial measured.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What subscribers got.
    pub told: Told,
    /// Processor time of the server while [`Told::received`] came.
    pub cpu_s: f64,
    /// The same of the thread that took most of it.
    pub busiest_s: f64,
    /// How late the publisher sent what was due, in µs; empty for the floor.
    pub lag_us: Histogram<u64>,
    /// Resident bytes of the server; absent for the floor.
    pub memory: Option<Memory>,
}

/// Resident bytes of a server as it fills.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Just started.
    pub empty: u64,
    /// Every topic was published once.
    pub topics: u64,
    /// All subscribers are connected.
    pub connected: u64,
    /// They have subscribed.
    pub subscribed: u64,
    /// The load is over.
    pub end: u64,
}

impl Trial {
    /// Latencies and how often each.
    pub fn latency_us(&self) -> impl Iterator<Item = (u64, u64)> {
        self.told.latency_us.iter().flatten().copied()
    }
}

impl Memory {
    /// Bytes that came while the load ran, with those who were stalled.
    pub fn grown(&self) -> f64 {
        number(self.end) - number(self.subscribed)
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Who serves.
    pub kind: Kind,
    /// How subscribers come.
    pub transport: Transport,
    /// Whether they ask for deltas.
    pub delta: bool,
    /// Milliseconds that updates may wait for others.
    pub window_ms: u32,
    /// Further subscribers that read nothing.
    pub stalled: usize,
    /// What last values outlive.
    pub durability: Durability,
    /// Threads that have the sockets; 1 is the bus itself.
    pub shards: usize,
}

impl Setting {
    /// Whole values, each sent at once to subscribers that all read.
    pub const fn plain(kind: Kind, transport: Transport) -> Self {
        Self { kind, transport, delta: false, window_ms: 0, stalled: 0, durability: Durability::Memory, shards: 1 }
    }

    /// What subscriptions ask for besides what MQTT knows.
    fn user_properties(self) -> Vec<(String, String)> {
        let window = (self.window_ms > 0).then(|| ("tieline-window".to_owned(), self.window_ms.to_string()));
        let delta = self.delta.then(|| (tieline_delta::PROPERTY.to_owned(), "point,hunk".to_owned()));
        window.into_iter().chain(delta).collect()
    }
}

/// Runs one server once.
///
/// # Errors
/// Something was lost, late beyond hope or wrong, or could not be started.
pub fn run(setting: Setting, plan: &Plan, options: &Options) -> Result<Trial> {
    if setting.kind == Kind::Floor { run_floor(plan, options) } else { run_server(setting, *plan, options) }
}

fn run_server(setting: Setting, plan: Plan, options: &Options) -> Result<Trial> {
    let Setting { kind, transport, stalled: stalled_count, durability, shards, .. } = setting;
    let sessions = plan.subscribers + stalled_count;
    let program = options.program.as_deref();
    let upstream = None;
    let purpose = Purpose { program, plan: &plan, sessions, transport, durability, shards, upstream };
    let server = Server::start(kind, &purpose)?;
    let held = options.quota.filter(|_| kind == Kind::Tieline);
    let threads = if shards > 1 { SOCKET_THREADS } else { BUS_THREAD };
    let _quota = held.map(|share| Quota::of(server.process(), threads, share)).transpose()?;
    let resident = || resident_bytes_of(server.process());
    let empty = resident()?;
    let mut publisher = Publisher::connect(kind.speech(), server.address, options.retain)?;
    publisher.load(&plan)?;
    let topics = resident()?;
    let role =
        |first, count, stalled| ListenRole { stalled, ..listeners_of(setting, &plan, &server.door, first, count) };
    let mut listeners = start_listeners(options, plan.subscribers, |first, count| role(first, count, false))?;
    let connected = resident()?;
    subscribe(&mut listeners)?;
    let subscribed = resident()?;
    let mut stalled = start_listeners(options, stalled_count, |first, count| role(first, count, true))?;
    subscribe(&mut stalled)?;
    let window = window(&plan, setting.delta, options);
    let start_us = now_us() + LEAD_US;
    let publishing = std::thread::spawn(move || publisher.run(&plan, start_us, start_us + window.end_us));
    let (told, cpu_s, busiest_s) = measure(&mut listeners, &mut stalled, window.after(start_us), server.process())?;
    let lag_us = publishing.join().map_err(|_| anyhow::anyhow!("the publisher failed"))??;
    let memory = Memory { empty, topics, connected, subscribed, end: resident()? };
    told.check(plan.events_between(window.from_us, window.to_us))?;
    Ok(Trial { told, cpu_s, busiest_s, lag_us, memory: Some(memory) })
}

/// Subscribers of a server, from the first on.
pub fn listeners_of(setting: Setting, plan: &Plan, door: &Door, first: usize, count: usize) -> ListenRole {
    ListenRole {
        plan: *plan,
        speech: setting.kind.speech(),
        door: door.clone(),
        first,
        count,
        stalled: false,
        user_properties: setting.user_properties(),
    }
}

/// Starts as many processes as so many subscribers need, and waits until they are connected.
pub fn start_listeners(
    options: &Options,
    subscribers: usize,
    role: impl Fn(usize, usize) -> ListenRole,
) -> Result<Vec<Player>> {
    let mut listeners = Vec::new();
    for first in (0..subscribers).step_by(SUBSCRIBERS_A_PROCESS) {
        let count = SUBSCRIBERS_A_PROCESS.min(subscribers - first);
        listeners.push(start(options, &Role::Listen(role(first, count)))?);
    }
    listeners.iter().try_for_each(|listener| listener.expect("connected"))?;
    Ok(listeners)
}

fn run_floor(plan: &Plan, options: &Options) -> Result<Trial> {
    let mut floor = start(options, &Role::Floor(FloorRole { plan: *plan, sockets: plan.subscribers }))?;
    let door = Door { address: floor.line()?.parse()?, transport: Transport::Tcp, folder: PathBuf::new() };
    let setting = Setting::plain(Kind::Floor, Transport::Tcp);
    let role = |first, count| listeners_of(setting, plan, &door, first, count);
    let mut listeners = start_listeners(options, plan.subscribers, role)?;
    floor.expect("ready")?;
    subscribe(&mut listeners)?;
    let window = window(plan, false, options);
    let start_us = now_us() + LEAD_US;
    floor.tell(&serde_json::to_string(&(start_us, start_us + window.end_us))?)?;
    let (told, cpu_s, busiest_s) = measure(&mut listeners, &mut [], window.after(start_us), floor.process())?;
    floor.expect("written")?;
    told.check(plan.events_between(window.from_us, window.to_us))?;
    Ok(Trial { told, cpu_s, busiest_s, lag_us: Histogram::new(3)?, memory: None })
}

/// When values count, in µs after the first: once all is warm.
pub fn window(plan: &Plan, delta: bool, options: &Options) -> Window {
    let span_us = u64::try_from(options.span.as_micros()).unwrap_or(u64::MAX);
    // With deltas every subscriber must have values of every topic before what comes is what comes ever after.
    let rounds = plan.form.updates_to_settle();
    let round_us = if delta { plan.due_us(rounds * plan.topics as u64) } else { 0 };
    let from_us = round_us.max(span_us / 4);
    let to_us = from_us + span_us;
    Window { start_us: 0, from_us, to_us, end_us: to_us + TAIL_US, every_us: span_us }
}

/// Starts a part.
pub fn start(options: &Options, role: &Role) -> Result<Player> {
    Player::start(options.program.as_deref(), serde_json::to_string(role)?, play)
}

/// Lets subscribers subscribe, and waits until they have.
pub fn subscribe(listeners: &mut [Player]) -> Result<()> {
    listeners.iter_mut().try_for_each(|listener| listener.tell("subscribe"))?;
    listeners.iter().try_for_each(|listener| listener.expect("subscribed"))
}

fn measure(listeners: &mut [Player], stalled: &mut [Player], window: Window, process: u32) -> Result<(Told, f64, f64)> {
    let line = serde_json::to_string(&window)?;
    listeners.iter_mut().chain(stalled).try_for_each(|listener| listener.tell(&line))?;
    sleep_until(window.from_us);
    let (before, threads_before) = (cpu_s_of(process)?, threads_cpu_s_of(process)?);
    sleep_until(window.to_us);
    let (after, threads_after) = (cpu_s_of(process)?, threads_cpu_s_of(process)?);
    let took = |(thread, after): (&u32, &f64)| after - threads_before.get(thread).copied().unwrap_or_default();
    let busiest_s = threads_after.iter().map(took).fold(0.0, f64::max);
    let cpu_s = after - before;
    let mut told = Told::default();
    for listener in listeners.iter() {
        told.add(listener.told()?);
    }
    if told.received == 0 {
        bail!("nothing came");
    }
    Ok((told, cpu_s, busiest_s))
}

/// Sleeps until a time of the monotonic clock.
pub fn sleep_until(at_us: u64) {
    std::thread::sleep(Duration::from_micros(at_us.saturating_sub(now_us())));
}
