//! One server under one load, from its start to its end.

use super::floor::{FloorRole, play_floor};
use super::listen::{ListenRole, Told, Window, play_listen};
use super::player::Player;
use super::publish::{Publisher, now_us};
use super::servers::{Kind, Server};
use super::{Case, Options};
use crate::process::{cpu_s_of, resident_octets_of};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Subscribers of one process: each takes a descriptor.
const SUBSCRIBERS_A_PROCESS: usize = 15_000;
/// From when all are told until the first update is due.
const LEAD_US: u64 = 300_000;
/// Updates go on for so long after the last that counts.
const TAIL_US: u64 = 200_000;

/// A part that a process of its own plays.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// Subscribers.
    Listen(ListenRole),
    /// The floor.
    Floor(FloorRole),
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
    }
}

/// What one trial measured.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What subscribers got.
    pub told: Told,
    /// Processor time of the server while [`Told::received`] came.
    pub cpu_s: f64,
    /// How late the publisher sent what was due, in µs; empty for the floor.
    pub lag_us: Histogram<u64>,
    /// Resident octets of the server; absent for the floor.
    pub memory: Option<Memory>,
}

/// Resident octets of a server as it fills.
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

/// Runs one server once.
///
/// # Errors
/// Something was lost, late beyond hope or wrong, or could not be started.
pub fn run(kind: Kind, case: &Case, options: &Options) -> Result<Trial> {
    if kind == Kind::Floor { run_floor(case, options) } else { run_server(kind, case, options) }
}

fn run_server(kind: Kind, case: &Case, options: &Options) -> Result<Trial> {
    let plan = case.plan;
    let program = options.program.as_deref();
    let server = Server::start(kind, program, &plan, plan.subscribers + options.stalled)?;
    let resident = || resident_octets_of(server.process());
    let empty = resident()?;
    let mut publisher = Publisher::connect(kind.speech(), server.address, options.retain)?;
    publisher.load(&plan)?;
    let topics = resident()?;
    let wishes = case.wishes(kind);
    let role = |first, count, stalled| ListenRole {
        plan,
        speech: kind.speech(),
        address: server.address,
        first,
        count,
        stalled,
        wishes: wishes.clone(),
    };
    let mut listeners = Vec::new();
    for first in (0..plan.subscribers).step_by(SUBSCRIBERS_A_PROCESS) {
        let count = SUBSCRIBERS_A_PROCESS.min(plan.subscribers - first);
        listeners.push(start(options, &Role::Listen(role(first, count, false)))?);
    }
    listeners.iter().try_for_each(|listener| listener.expect("connected"))?;
    let connected = resident()?;
    subscribe(&mut listeners)?;
    let subscribed = resident()?;
    let mut stalled = Vec::new();
    if options.stalled > 0 {
        stalled.push(start(options, &Role::Listen(role(0, options.stalled, true)))?);
        stalled.iter().try_for_each(|listener| listener.expect("connected"))?;
        subscribe(&mut stalled)?;
    }
    let window = window(case, options);
    let start_us = now_us() + LEAD_US;
    let window =
        Window { from_us: start_us + window.from_us, to_us: start_us + window.to_us, end_us: start_us + window.end_us };
    let publishing = std::thread::spawn(move || publisher.run(&plan, start_us, window.end_us));
    let (told, cpu_s) = measure(&mut listeners, &mut stalled, window, server.process())?;
    let lag_us = publishing.join().map_err(|_| anyhow::anyhow!("the publisher failed"))??;
    let memory = Memory { empty, topics, connected, subscribed, end: resident()? };
    told.check(plan.events_between(window.from_us - start_us, window.to_us - start_us))?;
    Ok(Trial { told, cpu_s, lag_us, memory: Some(memory) })
}

fn run_floor(case: &Case, options: &Options) -> Result<Trial> {
    let plan = case.plan;
    let mut floor = start(options, &Role::Floor(FloorRole { plan, sockets: plan.subscribers }))?;
    let address: SocketAddr = floor.line()?.parse()?;
    let mut listeners = Vec::new();
    for first in (0..plan.subscribers).step_by(SUBSCRIBERS_A_PROCESS) {
        let count = SUBSCRIBERS_A_PROCESS.min(plan.subscribers - first);
        let (speech, wishes) = (Kind::Floor.speech(), Vec::new());
        let role = ListenRole { plan, speech, address, first, count, stalled: false, wishes };
        listeners.push(start(options, &Role::Listen(role))?);
    }
    listeners.iter().try_for_each(|listener| listener.expect("connected"))?;
    floor.expect("ready")?;
    subscribe(&mut listeners)?;
    let relative = window(case, options);
    let start_us = now_us() + LEAD_US;
    let window = Window {
        from_us: start_us + relative.from_us,
        to_us: start_us + relative.to_us,
        end_us: start_us + relative.end_us,
    };
    floor.tell(&serde_json::to_string(&(start_us, window.end_us))?)?;
    let (told, cpu_s) = measure(&mut listeners, &mut [], window, floor.process())?;
    floor.expect("written")?;
    told.check(plan.events_between(relative.from_us, relative.to_us))?;
    Ok(Trial { told, cpu_s, lag_us: Histogram::new(3)?, memory: None })
}

/// When values count, in µs after the first: once all is warm.
fn window(case: &Case, options: &Options) -> Window {
    let span_us = u64::try_from(options.span.as_micros()).unwrap_or(u64::MAX);
    // With deltas every subscriber must have a value of every topic before what comes is a delta.
    let round_us = if case.delta { case.plan.due_us(case.plan.topics as u64) } else { 0 };
    let from_us = round_us.max(span_us / 4);
    Window { from_us, to_us: from_us + span_us, end_us: from_us + span_us + TAIL_US }
}

fn start(options: &Options, role: &Role) -> Result<Player> {
    Player::start(options.program.as_deref(), serde_json::to_string(role)?, play)
}

fn subscribe(listeners: &mut [Player]) -> Result<()> {
    listeners.iter_mut().try_for_each(|listener| listener.tell("subscribe"))?;
    listeners.iter().try_for_each(|listener| listener.expect("subscribed"))
}

fn measure(listeners: &mut [Player], stalled: &mut [Player], window: Window, process: u32) -> Result<(Told, f64)> {
    let line = serde_json::to_string(&window)?;
    listeners.iter_mut().chain(stalled).try_for_each(|listener| listener.tell(&line))?;
    sleep_until(window.from_us);
    let before = cpu_s_of(process)?;
    sleep_until(window.to_us);
    let cpu_s = cpu_s_of(process)? - before;
    let mut told = Told::default();
    for listener in listeners.iter() {
        told.add(listener.told()?);
    }
    if told.received == 0 {
        bail!("nothing came");
    }
    Ok((told, cpu_s))
}

fn sleep_until(at_us: u64) {
    std::thread::sleep(Duration::from_micros(at_us.saturating_sub(now_us())));
}
